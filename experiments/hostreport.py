"""What is printed of a collective between hosts."""

from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.runfigures import network_rows, print_figures, print_outcome, training_rows
from experiments.units import format_bytes


def print_host_summary(
    run_dir: Path, summary: dict[str, Any], console: Console | None = None
) -> None:
    """Print the outcome of a run: the schedule's figures against the measured ones."""
    console = console or Console(highlight=False)
    print_figures(summary, "schedule", _rows(summary), console)
    print_outcome(run_dir, summary, console)


def _rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    measured, error = summary["t_measured_ms"], summary["t_error_percent"]
    over, bound, link = summary["over_bound"], summary["bound_ms"], summary["busiest_link"]
    rows = [
        ("time", f"{summary['t_planned_ms']:.2f} ms", _known(measured, "{:.2f} ms")),
        ("difference", "", _known(error, "{:+.2f} %")),
        ("over bound", f"{summary['t_planned_ms'] / bound:.3f}", _known(over, "{:.3f}")),
        ("algorithm", summary["algorithm"], f"{summary['transfers']} transfers"),
        ("chunks exact", str(summary["chunks_expected"]), str(summary["chunks_exact"])),
        ("packets lost", "0", f"{summary['packets_lost']} of {summary['packets_sent']}"),
        *training_rows(summary),
    ]
    if "aggregators" in summary:
        held = format_bytes(summary["memory_high_water_bytes"], 4)
        rows.append((f"memory, {len(summary['aggregators'])} aggregators", "FIFO", held))
    if link is not None:
        planned, carried = (format_bytes(link[f"bytes_{w}"]) for w in ("planned", "measured"))
        rows.append((f"busiest link {link['link']}", planned, carried))
    rows += [row for one in summary["takeovers"] for row in _takeover_rows(one)]
    known = summary["known_before_ms"]
    if known is not None:
        least = min(known.values())
        over = None if measured is None else measured / least
        rows.append(("had it known", f"{least:.2f} ms", f"{_known(over, '{:.3f}')} of it"))
    rows += network_rows(summary)
    rows.append(("network up", "", f"{summary['network_up_wall_s']:.1f} s wall"))
    return rows


def _known(value: float | None, form: str) -> str:
    return "incomplete" if value is None else form.format(value)


def _takeover_rows(one: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What came of one event: when hosts went on, and what planning cost."""
    name = one["event"] or "event"
    if "taken_over_ms" not in one:
        return [(name, f"{one['event_ms']:.2f} ms", one["outcome"])]
    given, took = one["planning_charged_ms"], one["planning_cpu_ms"]
    return [
        (name, f"{one['event_ms']:.2f} ms", f"resumed after {one['time_to_resume_ms']:.2f} ms"),
        ("planned anew", f"{given:g} ms given", _known(took, "{:.0f} ms CPU")),
    ]

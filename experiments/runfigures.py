"""What the reports of all finished runs share: the table of figures, and how it ended."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from testbed.preflight import ASKED

_VERDICT_STYLE = {"PASS": "bold green", "DEGRADED": "bold yellow", "FAIL": "bold red"}


def print_figures(
    summary: dict[str, Any], promised: str, rows: Iterable[tuple[str, str, str]], console: Console
) -> None:
    """Print a run's figures, each as it was promised (the column's name) and as measured."""
    table = Table(title=f"{summary['run_id']} ({summary['clock']} time)", title_justify="left")
    table.add_column("")
    table.add_column(promised, justify="right")
    table.add_column("measured", justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def network_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The worst of all links, as they were measured before the run."""
    worst = summary["fidelity"]
    rows = (("delay", "delay_error_us", ".3f", " µs"), ("rate", "rate_error_percent", ".3f", " %"))
    return [
        (f"link {what} error", "", "unknown" if (e := worst[key]) is None else f"{e:{form}}{unit}")
        for what, key, form, unit in rows
    ]


def training_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Time of a step and idle share, if hosts computed between their synchronisations."""
    training = summary.get("training")
    if training is None:
        return []
    compute_ms, planned_ms = training["compute_ms"], training["step_planned_ms"]
    step_ms, idle = training["step_ms"], training["idle_share"]
    incomplete = "incomplete"
    return [
        (
            f"step, {training['loop']}",
            f"{planned_ms:.2f} ms",
            incomplete if step_ms is None else f"{step_ms:.2f} ms",
        ),
        (
            "idle share",
            f"{max(0.0, 1 - compute_ms / planned_ms):.1%}",
            incomplete if idle is None else f"{idle:.1%}",
        ),
    ]


def print_outcome(run_dir: Path, summary: dict[str, Any], console: Console) -> None:
    """Print clock and verdict with their reasons, and where the files are."""
    if (why := summary.get("clock_reason") or ASKED) != ASKED:
        console.print(f"clock    {summary['clock']}, {why}", markup=False, soft_wrap=True)
    print_verdict(summary, console)
    console.print(f"plots    {run_dir / 'plots'}", markup=False, soft_wrap=True)
    console.print(f"trace    {summary['trace_sha256'][:16]}…", markup=False)


def print_verdict(summary: dict[str, Any], console: Console) -> None:
    """Print verdict and reasons."""
    verdict = summary["verdict"]
    console.print(f"verdict  [{_VERDICT_STYLE[verdict]}]{verdict}[/]")
    for reason in summary["reasons"][:6]:
        console.print(f"  - {reason}", markup=False)
    hidden = len(summary["reasons"]) - 6
    if hidden > 0:
        console.print(f"  - and {hidden} more in summary.json")

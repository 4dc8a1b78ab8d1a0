"""What is printed: the plan, the summary of a run, the list of variables. One screen each."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from controller.plan import Plan, RoundPlan
from controller.planner import TREE_FAMILIES
from experiments.eventreport import event_lines
from experiments.optimizefiles import clique_sizes
from experiments.optimizing import Optimised
from experiments.runfigures import network_rows, print_figures, print_outcome, training_rows
from experiments.sources import key_names, published
from experiments.units import format_bytes
from testbed.limits import Limits

_ON_OFF = {True: "on", False: "off"}
_CITIES_PER_LINE = 3
_TAIL_SHOWN = 1e-3
"""Share of A, not seen by the run, from which on it is told."""
_BASIC = (
    "schedule",
    "clock",
    "memory",
    "multicast",
    "aggregation",
    "rounds",
    "payload",
    "scale",
    "seed",
    "topology",
    "trees",
    "rates",
    "chunks",
    "model",
    "release",
    "replan_ms",
    "compute_ms",
    "loop",
    "ways",
    "collision",
    "hash",
    "memory_model",
    "dtype",
    "ordered",
    "engine",
    "resend_ms",
    "repair",
    "loss_percent",
    "loss_burst",
    "duplicate_percent",
    "reorder_percent",
    "link_jitter_us",
    "limits",
)
"""Keys that are variables of ``make``; the others go through ``--set`` or a file."""


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Print a plan: one row per round of the period, then the prediction."""
    console = console or Console(highlight=False)
    table = Table(title=f"{plan.schedule} on {plan.topology.name}", title_justify="left")
    for name in ("round", "T ms", "Gbit/s", "cliques: city, offset ms", "busiest link"):
        table.add_column(name, justify="left" if name.startswith("cliques") else "right")
    for number, this_round in enumerate(plan.period):
        rates = sorted({round(s.rate_gbps, 2) for s in this_round.streams})
        table.add_row(
            str(number),
            f"{this_round.t_ms:.1f}",
            "\n".join(f"{rate:g}" for rate in rates),
            "\n".join(_offsets(this_round)),
            _busiest(plan, this_round),
        )
    console.print(table)
    for name, value in _prediction_rows(plan):
        console.print(f"{name:<12}{value}", soft_wrap=True)


def print_front(found: Optimised, console: Console | None = None) -> None:
    """Print what a search found: one row per schedule of the front, then the certificate."""
    console = console or Console(highlight=False)
    best_ms = min(point.objective_ms for point in found.front)
    title = f"Schedules that none beats in both T and A, {found.plan.topology.name}"
    table = Table(title=title, title_justify="left")
    for name in ("", "T ms", "A (rms)", "T (A + ½) ms", "period", "cliques"):
        table.add_column(name, justify="left" if name == "cliques" else "right")
    for point in found.front:
        table.add_row(
            "best" if point.objective_ms == best_ms else "",
            f"{point.t_ms:.1f}",
            f"{point.a_rms:.3f}",
            f"{point.objective_ms:.1f}",
            str(len(point.schedule.rounds)),
            clique_sizes(point.schedule),
        )
    console.print(table)
    console.print(f"{'proof':<12}{found.certificate or 'none'}", markup=False, soft_wrap=True)
    console.print(f"{'search':<12}{found.seconds:.1f} s, {found.work}", soft_wrap=True)


def print_summary(run_dir: Path, summary: dict[str, Any], console: Console | None = None) -> None:
    """Print the outcome of a run: planned against measured, and where the files are."""
    console = console or Console(highlight=False)
    print_figures(summary, "planned", _summary_rows(summary), console)
    for line in event_lines(summary):
        console.print(line, markup=False, soft_wrap=True)
    print_outcome(run_dir, summary, console)


def print_variables(console: Console | None = None) -> None:
    """Print every config key: variable, default, values."""
    console = console or Console(highlight=False)
    table = Table(title="Variables (make experiment NAME=value)", title_justify="left", box=None)
    for heading in ("name", "default", "values"):
        table.add_column(heading)
    for key, field in key_names().items():
        name = key.upper() if key in _BASIC else f"--set {key}"
        table.add_row(name, _default(key, field.default), _values(key, field.description or ""))
    table.add_row("CONFIG", "", f"{', '.join(published())}, or a YAML file")
    console.print(table)


def _values(key: str, description: str) -> str:
    return f"{description}: {', '.join(TREE_FAMILIES)}" if key == "trees" else description


def _default(key: str, value: object) -> str:
    if isinstance(value, bool):
        return _ON_OFF[value]
    if key in ("memory", "payload"):
        return format_bytes(int(str(value)))
    if value is None:
        return "null"
    if value == ():
        return "[]"
    if value == Limits():
        return "{}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _offsets(this_round: RoundPlan) -> list[str]:
    """Write each clique's cities with their offsets, a few to a line."""
    lines = []
    for clique in this_round.cliques:
        streams = [this_round.stream_of(code) for code in clique]
        cells = [f"{s.sender:<4}{s.offset_ms:5.1f}" for s in streams if s is not None]
        lines += [
            "  ".join(cells[i : i + _CITIES_PER_LINE])
            for i in range(0, len(cells), _CITIES_PER_LINE)
        ]
    return lines


def _busiest(plan: Plan, this_round: RoundPlan) -> str:
    if not this_round.edge_streams:
        return "–"
    edge, count = max(this_round.edge_streams.items(), key=lambda item: (item[1], -item[0]))
    return f"{plan.topology.edges[edge].src}-{plan.topology.edges[edge].dst} × {count}"


def _prediction_rows(plan: Plan) -> list[tuple[str, str]]:
    prediction = plan.prediction
    held = max((b for r in plan.period for b in r.held_bytes.values()), default=0.0)
    return [
        ("T", f"{prediction.t_ms:.1f} ms"),
        ("A (rms)", _number(prediction.a_rms, "never agrees", "")),
        ("T (A + ½)", _number(prediction.objective_ms, "infinite", " ms")),
        ("trees", plan.trees),
        (
            "memory",
            f"{format_bytes(plan.memory_bytes, 4)} per edge, {format_bytes(held, 3)} needed",
        ),
        ("feasible", "yes" if plan.feasible else "no"),
    ]


def _summary_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    error = summary["t_error_percent"]
    measured = _number(summary["t_measured_ms"], "nothing arrived", " ms")
    busiest = summary["busiest_link"] or {}
    return [
        ("T", f"{summary['t_planned_ms']:.2f} ms", measured),
        ("difference", "", "–" if error is None else f"{error:+.3f} %"),
        ("A (rms)", _planned_lifetime(summary), _lifetime(summary)),
        *_survival_rows(summary),
        (
            "T (A + ½)",
            _number(summary["objective_planned_ms"], "infinite", " ms"),
            _number(summary["objective_ms"], "infinite", " ms"),
        ),
        ("sums exact", "yes", "yes" if summary["sums_exact"] else "NO"),
        ("packets lost", "0", f"{summary['packets_lost']} of {summary['packets_sent']}"),
        ("unaccounted", "0", _unaccounted(summary)),
        (
            "memory",
            _memory(summary),
            format_bytes(summary["memory_high_water_bytes"], 4),
        ),
        ("partial sums", "0", _partial(summary)),
        *_recovery_rows(summary),
        *training_rows(summary),
        (
            f"busiest link {busiest.get('link', '')}",
            format_bytes(busiest.get("bytes_planned", 0.0), 4),
            format_bytes(busiest.get("bytes_measured", 0.0), 4),
        ),
        *_lateness_rows(summary),
        ("largest RTT error", "", _number(summary["rtt_max_error_us"], "–", " µs")),
        *network_rows(summary),
        ("network up", "", f"{summary['network_up_wall_s']:.1f} s wall"),
        ("whole run", "", _number(summary["wall_s"], "–", " s wall")),
    ]


def _lateness_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """How late sends were on the real clock; in virtual time they are not."""
    late = summary["send_lateness"]
    if late is None or summary["clock"] != "real":
        return []
    times = "/".join(f"{late[f'{name}_ms']:.2f}" for name in ("p50", "p99", "max"))
    return [("sends late p50/p99/max", "", f"{times} ms")]


def _planned_lifetime(summary: dict[str, Any]) -> str:
    """The plan's A; where that of a start in round 0, as in a run, is another one, that too."""
    text = _number(summary["a_rms"], "never agrees", "")
    start = _number(summary["a_rms_start"], "never agrees", "")
    return text if start == text else f"{text} ({start} from round 0)"


def _partial(summary: dict[str, Any]) -> str:
    """How many, and why."""
    causes = [f"{count} {name}" for name, count in summary["partial_causes"].items()]
    return f"{summary['partial_blocks']} ({', '.join(causes)})" if causes else "0"


def _recovery_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Losses that were asked for, and what was done about them; nothing for a sound run."""
    rows = []
    asked = [loss for loss in summary["link_losses"] if loss["asked_percent"] is not None]
    if asked:
        shares = sorted({f"{loss['asked_percent']:.3g} %" for loss in asked})
        lost = sum(loss["lost"] for loss in asked)
        offered = sum(loss["offered"] for loss in asked)
        measured = f"{lost} ({100 * lost / max(1, offered):.3g} %)"
        rows.append((f"lost on {len(asked)} links", " and ".join(shares), measured))
    recovery = summary["recovery"]
    if recovery["ring_bytes"]:
        rows.append(("kept to resend", "", format_bytes(recovery["ring_bytes"], 4)))
    if recovery["requests"]:
        sent = f"{recovery['resent']} of {recovery['requests']} requests"
        rows.append(("sent again", "", sent))
    if recovery["unavailable"] or recovery["repaired"]:
        mended = f"{recovery['unavailable']}, {recovery['repaired']}"
        rows.append(("gone by then, repaired", "", mended))
    if recovery["gaps"]:
        times = "/".join(f"{recovery[f'{name}_ms']:.2f}" for name in ("p50", "p99", "max"))
        rows.append(("recovery p50/p99/max", "", f"{times} ms"))
    return rows


def _lifetime(summary: dict[str, Any]) -> str:
    """A as measured; where the run ended before the disagreement did, how much of it was seen."""
    lifetime, seen = summary["a_rms_measured"], summary["a_rms_seen"]
    if lifetime is None:
        return f"above {seen:.2f}, never agrees"
    text = _number(lifetime, "", "")
    return text if lifetime - seen <= _TAIL_SHOWN * lifetime else f"{text} ({seen:.2f} seen)"


def _survival_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The last point of the survival curve, and its largest error."""
    planned, measured = summary["survival_planned"], summary["survival_measured"]
    return [
        (f"S({len(measured) - 1})", f"{planned[-1]:.5f}", f"{measured[-1]:.5f}"),
        ("largest error of S", "", f"{summary['survival_error_max']:.1e}"),
    ]


def _memory(summary: dict[str, Any]) -> str:
    """The limit M; where the FIFO is what counts, that as well."""
    limit, fifo = summary["memory_bytes"], summary["memory_with_fifo_bytes"]
    text = format_bytes(limit, 4)
    if fifo > 1.1 * limit:
        text += f" + FIFO {format_bytes(fifo - limit, 3)}"
    return text


def _unaccounted(summary: dict[str, Any]) -> str:
    count = summary["conservation"]["unaccounted"]
    return "unknown" if count is None else str(count)


def _number(value: float | None, absent: str, unit: str) -> str:
    return absent if value is None else f"{value:.2f}{unit}"

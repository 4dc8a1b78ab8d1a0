"""The comparison as a table: on the terminal, as CSV for programs, as Markdown for people."""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.comparison.rows import FIELDS, Row
from experiments.comparison.tablefiles import markdown_lines, new_table, number
from experiments.comparison.tablefiles import write_csv as write_fields
from experiments.units import format_bytes

_ON_OFF = {True: "on", False: "off"}
_TEXT_COLUMNS = ("schedule", "off", "verdict", "busiest link")
_VERDICT_STYLE = {"PASS": "green", "DEGRADED": "yellow", "FAIL": "bold red", "ERROR": "bold red"}

_LEGEND = """\
T planned and measured in ms; off: M multicast, A aggregation
A run: as measured, * its end extrapolated, > without end
load: streams on the busiest link"""
_HOW_A_IS_MEASURED = (
    "A planned: the mean over the rounds to start from; where it differs, that of a start in "
    "round 0, as in a run, is in brackets. A measured: S(k) of the islands' vectors summed over "
    "the rounds that were run, plus what the vectors at the end would add if averaging went on "
    "exactly; seen is the share without that. T (A + ½): T measured, A planned."
)
_ALL_SEEN = 1 - 1e-3
"""Share of A from which on nothing is said about the rest."""


def cells(row: Row) -> dict[str, str]:
    """A row as people read it: heading to text, in order."""
    return {
        "schedule": row.schedule,
        "memory": format_bytes(row.memory_bytes, 3),
        "multicast": _ON_OFF[row.multicast],
        "aggregation": _ON_OFF[row.aggregation],
        "T planned ms": f"{row.t_planned_ms:.1f}" if row.feasible else "infeasible",
        "T measured ms": number(row.t_measured_ms, ".1f"),
        "error %": number(row.t_error_percent, "+.2f"),
        "A": _planned_lifetime(row),
        "A measured": _lifetime(row),
        "T (A + ½) ms": _objective(row),
        "out per island": _bytes(row.island_out_bytes),
        "in per island": _bytes(row.island_in_bytes),
        "busiest link": f"{row.busiest_link} × {row.busiest_link_streams}",
        "memory high water": _bytes(row.memory_high_water_bytes),
        "verdict": row.verdict,
    }


def brief_cells(row: Row) -> dict[str, str]:
    """The cells that fit a terminal of 80 columns; the files have them all."""
    full = cells(row)
    off = [letter for letter, on in (("M", row.multicast), ("A", row.aggregation)) if not on]
    return {
        "schedule": "optimised" if row.group == "optimised" else row.schedule,
        "memory": full["memory"],
        "off": "".join(off),
        "planned": f"{row.t_planned_ms:.1f}" if row.feasible else "–",
        "measured": full["T measured ms"],
        "error %": full["error %"],
        "A": number(row.a_rms, ".2f", "∞"),
        "A run": _brief_lifetime(row),
        "T(A+½)": _objective(row),
        "load": str(row.busiest_link_streams),
        "verdict": row.verdict,
    }


def print_rows(rows: Sequence[Row], title: str, console: Console | None = None) -> None:
    """Print the table in brief, and below it why rows have no measured figures."""
    console = console or Console(highlight=False)
    table = new_table(title, brief_cells(rows[0]), _TEXT_COLUMNS)
    group = rows[0].group
    for row in rows:
        if row.group != group:
            table.add_row()
            group = row.group
        texts = list(brief_cells(row).values())
        style = _VERDICT_STYLE.get(row.verdict, "dim")
        table.add_row(*texts[:-1], f"[{style}]{texts[-1]}[/]")
    console.print(table)
    console.print(_LEGEND, style="dim")
    for row in rows:
        if row.reason:
            console.print(f"- {_named(row)}: {row.reason}", markup=False, soft_wrap=True)


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    """Write every field of every row; an absent figure is an empty cell."""
    return write_fields(path, FIELDS, (row.as_dict() for row in rows))


def write_markdown(path: Path, rows: Sequence[Row], title: str) -> Path:
    """Write the table as Markdown, with the reasons below it."""
    path.write_text(markdown(rows, title))
    return path


def markdown(rows: Sequence[Row], title: str) -> str:
    """The table as Markdown."""
    lines = [f"# {title}", "", *markdown_lines([cells(row) for row in rows], _TEXT_COLUMNS)]
    reasons = [f"- {_named(row)}: {row.reason}" for row in rows if row.reason]
    if reasons:
        lines += ["", *reasons]
    lines += [
        "",
        "Payload "
        + ", ".join(sorted({format_bytes(row.payload_bytes) for row in rows}))
        + "; bytes of islands are per round in which they take part; "
        "A = ∞: the islands never agree.",
        "",
        _HOW_A_IS_MEASURED,
    ]
    return "\n".join(lines) + "\n"


def _named(row: Row) -> str:
    name = f"{row.schedule}, {format_bytes(row.memory_bytes, 3)}"
    if not row.multicast:
        name += ", no multicast"
    if not row.aggregation:
        name += ", no aggregation"
    return name


def _planned_lifetime(row: Row) -> str:
    """The plan's A, and that of the run's start where it is another one."""
    text = number(row.a_rms, ".2f", "∞")
    start = number(row.a_start, ".2f", "∞")
    return text if start == text else f"{text} ({start})"


def _lifetime(row: Row) -> str:
    """A as measured, and how much of it the run saw."""
    if row.a_seen is None:
        return "–"
    if row.a_measured is None:
        return f"> {row.a_seen:.2f}"
    seen = row.a_seen / row.a_measured
    return f"{row.a_measured:.2f}" + ("" if seen >= _ALL_SEEN else f" ({seen:.0%} seen)")


def _brief_lifetime(row: Row) -> str:
    """A as measured, with a star for a share that the run did not see."""
    return re.sub(r" \(.*", "*", _lifetime(row))


def _objective(row: Row) -> str:
    """Measured, or planned in brackets where nothing was measured."""
    if row.a_rms is None:
        return "∞"
    if row.objective_ms is not None:
        return f"{row.objective_ms:.0f}"
    if row.feasible and row.objective_planned_ms is not None:
        return f"({row.objective_planned_ms:.0f})"
    return "–"


def _bytes(value: float | None) -> str:
    return "–" if value is None else format_bytes(value, 3)

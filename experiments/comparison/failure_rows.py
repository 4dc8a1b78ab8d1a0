"""One failure of the comparison, the table of all of them, and its picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from controller.plan import Plan
from experiments.comparison.packets import Measured
from experiments.comparison.rows import Source
from experiments.comparison.tablefiles import number, print_cells, write_csv, write_markdown
from experiments.config import ExperimentConfig
from experiments.figures import FAINT, PLANNED, colour, new_figure, save, tidy

_BRIEF = {
    "link": "link",
    "resumed ms": "resumed",
    "planning CPU ms": "CPU",
    "finish ms": "finish",
    "known ms": "known",
    "/ known": "/ known",
    "exact": "exact",
    "verdict": "verdict",
}
"""Headings of the table that fit a terminal of 80 columns; the files have the others too."""


@dataclass(frozen=True)
class FailureRow:
    """One run; what was not measured is ``None``.

    Attributes
    ----------
    undisturbed_ms
        Of the schedule without a failure.
    last_chunk_before_ms
        When the last chunk arrived before the failure.
    time_to_resume_ms
        From the failure to the first transfer of the new schedule.
    planning_cpu_ms, planning_charged_ms
        Processor time of planning anew, and the time that it was given.
    chunks_final
        Chunks whose sum was complete somewhere at the take-over.
    known_from_start_ms, known_from_event_ms
        See `experiments.hostresumption.known_before`.
    """

    link: str
    failed_ms: float
    undisturbed_ms: float
    last_chunk_before_ms: float | None
    time_to_resume_ms: float | None
    planning_cpu_ms: float | None
    planning_charged_ms: float | None
    algorithm: str
    transfers: int | None
    transfers_cut_off: int | None
    chunks_final: int | None
    finish_planned_ms: float | None
    finish_ms: float | None
    known_from_start_ms: float | None
    known_from_event_ms: float | None
    packets_lost: int | None
    sums_exact: bool | None
    verdict: str
    reason: str
    run_id: str
    source: Source

    @property
    def known_ms(self) -> float | None:
        """When the better of the schedules would have ended that had known."""
        if self.known_from_start_ms is None or self.known_from_event_ms is None:
            return None
        return min(self.known_from_start_ms, self.known_from_event_ms)

    @property
    def over_known(self) -> float | None:
        """Measured finish over that."""
        if self.known_ms is None or self.finish_ms is None:
            return None
        return self.finish_ms / self.known_ms


def failure_row(config: ExperimentConfig, plan: Plan, got: Measured) -> FailureRow:
    """Put plan and summary of one run into a row."""
    measured = got.summary or {}
    taken: dict[str, Any] = next(
        (t for t in measured.get("takeovers", ()) if "taken_over_ms" in t), {}
    )
    known = measured.get("known_before_ms") or {}
    event = config.events[0]
    return FailureRow(
        link=event.target,
        failed_ms=event.at_ms,
        undisturbed_ms=plan.prediction.t_ms,
        last_chunk_before_ms=taken.get("last_chunk_before_ms"),
        time_to_resume_ms=taken.get("time_to_resume_ms"),
        planning_cpu_ms=taken.get("planning_cpu_ms"),
        planning_charged_ms=taken.get("planning_charged_ms"),
        algorithm=taken.get("algorithm", ""),
        transfers=taken.get("transfers"),
        transfers_cut_off=taken.get("transfers_cut_off"),
        chunks_final=taken.get("chunks_final"),
        finish_planned_ms=taken.get("finish_planned_ms"),
        finish_ms=measured.get("t_measured_ms"),
        known_from_start_ms=known.get("from_start"),
        known_from_event_ms=known.get("from_event"),
        packets_lost=measured.get("packets_lost"),
        sums_exact=measured.get("sums_exact"),
        verdict=got.verdict,
        reason=got.reason(plan),
        run_id=got.run_id,
        source=got.source,
    )


def cells(row: FailureRow) -> dict[str, str]:
    """A row as people read it: heading to text, in order."""
    return {
        "link": row.link,
        "last chunk before ms": number(row.last_chunk_before_ms, ".1f"),
        "resumed ms": number(row.time_to_resume_ms, ".1f"),
        "planning CPU ms": number(row.planning_cpu_ms, ".0f"),
        "cut off": number(row.transfers_cut_off, "d"),
        "new transfers": number(row.transfers, "d"),
        "finish planned ms": number(row.finish_planned_ms, ".1f"),
        "finish ms": number(row.finish_ms, ".1f"),
        "known from start ms": number(row.known_from_start_ms, ".1f"),
        "known at failure ms": number(row.known_from_event_ms, ".1f"),
        "known ms": number(row.known_ms, ".1f"),
        "/ known": number(row.over_known, ".3f"),
        "exact": {None: "–", True: "yes", False: "no"}[row.sums_exact],
        "verdict": row.verdict,
    }


def print_failures(rows: Sequence[FailureRow], title: str, console: Console | None = None) -> None:
    """Print the table, and below it why runs did not pass."""
    console = console or Console(highlight=False)
    legend = (
        "ms; resumed: after the failure; CPU: of planning; known: a schedule that knew of the "
        f"failure; without one: {rows[0].undisturbed_ms:.1f}"
    )
    print_cells([cells(row) for row in rows], _BRIEF, title, legend, console)
    for row in rows:
        if row.reason:
            console.print(f"- {row.link}: {row.reason}", markup=False)


def write_failure_tables(folder: Path, rows: Sequence[FailureRow], title: str) -> list[Path]:
    """Write every field as CSV, and what people read as Markdown."""
    names = [field.name for field in fields(FailureRow)]
    return [
        write_csv(folder / "table.csv", names, (asdict(row) for row in rows)),
        write_markdown(folder / "table.md", [cells(row) for row in rows], title),
    ]


def draw_failures(folder: Path, rows: Sequence[FailureRow], title: str) -> Path:
    """Draw ``times.png``: when each run ended, and when one would have that had known."""
    figure = new_figure(8.0, 1.4 + 0.32 * len(rows), title)
    axis = figure.subplots()
    for place, row in enumerate(rows):
        axis.barh(place, row.finish_ms or 0.0, height=0.7, color=colour(0))
        if row.known_ms is not None:
            axis.vlines(row.known_ms, place - 0.4, place + 0.4, color=PLANNED, lw=1.6)
    axis.axvline(rows[0].undisturbed_ms, color=FAINT, lw=0.8, ls="--")
    axis.axvline(rows[0].failed_ms, color=colour(3), lw=0.8, ls=":")
    axis.set_yticks(range(len(rows)), [row.link for row in rows], fontsize=8)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    tidy(axis, xlabel="ms; tick: had it known; dotted: failure; dashed: without one", ylabel="")
    return save(figure, folder / "times.png")

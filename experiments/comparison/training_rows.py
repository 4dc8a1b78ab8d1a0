"""One training loop of the comparison, the table of all of them, and the arithmetic."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.console import Console

from controller.plan import Plan
from controller.training import Loop
from experiments.comparison.packets import Measured
from experiments.comparison.rows import ERROR, Source
from experiments.comparison.tablefiles import (
    markdown_lines,
    number,
    print_cells,
    write_csv,
)
from experiments.config import ExperimentConfig
from experiments.trainingplan import spacing_planned_ms

_BRIEF = {
    "schedule": "schedule",
    "loop": "loop",
    "T ms": "T ms",
    "step ms": "step ms",
    "idle %": "idle %",
    "throughput": "× ring",
    "T (A + ½) ms": "T(A+½)",
    "verdict": "verdict",
}
"""Headings of the table that fit a terminal of 80 columns; the files have the others too."""


@dataclass(frozen=True)
class TrainingRow:
    """One run; what was not measured is ``None``.

    Attributes
    ----------
    t_ms
        Of a synchronisation, as measured.
    spacing_ms
        Between the starts of two synchronisations, by the plan.
    step_ms, idle_share
        Of the host that sets the pace (`experiments.trainingfigures.slowest`).
    a_rms
        Synchronisations that disagreement lives for; ``None`` if it does not die out.
    staleness_ms
        T (A + ½), the paper's measure; 0 where every step waits for its sum.
    """

    name: str
    schedule: str
    loop: Loop
    release: str
    compute_ms: float
    syncs: int
    t_planned_ms: float
    t_ms: float | None
    spacing_ms: float
    step_planned_ms: float | None
    step_ms: float | None
    idle_share: float | None
    a_rms: float | None
    staleness_ms: float | None
    sums_exact: bool | None
    packets_lost: int | None
    verdict: str
    reason: str
    run_id: str
    source: Source

    @property
    def staleness_steps(self) -> float | None:
        """Steps that a host makes meanwhile."""
        if self.staleness_ms is None or self.step_ms is None:
            return None
        return self.staleness_ms / self.step_ms


def training_row(name: str, config: ExperimentConfig, plan: Plan, got: Measured) -> TrainingRow:
    """Put plan and summary of one run into a row."""
    training = plan.training
    if training is None:
        raise ValueError(f"{plan.schedule} computes nothing")
    measured = got.summary or {}
    trained = measured.get("training", {})
    t_planned_ms, a_rms = plan.prediction.t_ms, plan.prediction.a_rms
    t_ms = measured.get("t_measured_ms")
    staleness_ms = None if t_ms is None or a_rms is None else t_ms * (a_rms + 0.5)
    return TrainingRow(
        name=name,
        schedule=config.schedule_name,
        loop=training.loop,
        release=training.release,
        compute_ms=training.compute_ms,
        syncs=training.syncs,
        t_planned_ms=t_planned_ms,
        t_ms=t_ms,
        spacing_ms=spacing_planned_ms(plan),
        step_planned_ms=trained.get("step_planned_ms"),
        step_ms=trained.get("step_ms"),
        idle_share=trained.get("idle_share"),
        a_rms=a_rms,
        staleness_ms=0.0 if training.loop == "synchronous" else staleness_ms,
        sums_exact=measured.get("sums_exact"),
        packets_lost=measured.get("packets_lost"),
        verdict=got.verdict,
        reason=got.reason(plan),
        run_id=got.run_id,
        source=got.source,
    )


def throughput(row: TrainingRow, baseline: TrainingRow) -> float | None:
    """Steps per time, over those of the baseline."""
    if row.step_ms is None or baseline.step_ms is None:
        return None
    return baseline.step_ms / row.step_ms


def cells(row: TrainingRow, baseline: TrainingRow) -> dict[str, str]:
    """A row as people read it: heading to text, in order."""
    idle = None if row.idle_share is None else 100 * row.idle_share
    staleness = "∞" if row.a_rms is None else number(row.staleness_ms, ".0f")
    return {
        "schedule": row.name,
        "loop": row.loop,
        "release": row.release,
        "compute ms": f"{row.compute_ms:g}",
        "T planned ms": f"{row.t_planned_ms:.1f}",
        "T ms": number(row.t_ms, ".1f"),
        "starts every ms": f"{row.spacing_ms:.1f}",
        "step planned ms": number(row.step_planned_ms, ".1f"),
        "step ms": number(row.step_ms, ".1f"),
        "idle %": number(idle, ".1f"),
        "throughput": number(throughput(row, baseline), ".2f"),
        "T (A + ½) ms": staleness,
        "in steps": number(row.staleness_steps, ".1f"),
        "exact": {None: "–", True: "yes", False: "no"}[row.sums_exact],
        "verdict": row.verdict,
    }


def arithmetic(rows: Sequence[TrainingRow], *, chosen: bool) -> list[str]:
    """What the figures follow from, a line each, by the measured times; the baseline is first.

    Parameters
    ----------
    rows
        Loops at one compute time.
    chosen
        Whether that was chosen for the baseline's idle share.
    """
    ring = rows[0]
    compute_ms = ring.compute_ms
    if ring.t_ms is None or ring.step_ms is None or ring.idle_share is None:
        return []
    why = "a quarter of what the ring alone takes" if chosen else "as asked"
    gain = ring.step_ms / compute_ms
    notes = [
        f"C = {compute_ms:g} ms to compute a step, {why}",
        f"ring, synchronous: step = C + T = {compute_ms:g} + {ring.step_ms - compute_ms:.1f} = "
        f"{ring.step_ms:.1f} ms, idle T / (C + T) = {ring.idle_share:.1%}",
        f"local: step = C whatever the network does, {gain:.2f} × the ring = 1 / (1 − "
        f"{ring.idle_share:.3f}): the ring's idle share alone makes this factor",
    ]
    late = [row for row in rows if row.loop == "local" and row.staleness_ms is not None]
    if late:
        each = ", ".join(f"{row.name} {row.staleness_ms:.0f} ms" for row in late)
        notes.append(f"what the network decides there is the staleness T (A + ½): {each}")
    for row in rows:
        if row.loop == "delayed" and row.step_ms is not None:
            notes.append(
                f"{row.name}, delayed, a step for each round: step = max(C, time between "
                f"rounds) = max({compute_ms:g}, {row.spacing_ms:.1f}) ms, "
                f"{ring.step_ms / row.step_ms:.2f} × the ring"
            )
    return notes


def print_training(
    rows: Sequence[TrainingRow],
    swept: Sequence[TrainingRow],
    notes: Sequence[str],
    title: str,
    console: Console | None = None,
) -> None:
    """Print the table, the arithmetic, the other compute times, and why runs failed."""
    console = console or Console(highlight=False)
    baseline = rows[0]
    legend = "T: of a synchronisation; × ring: steps per time; T(A+½): staleness in ms"
    print_cells([cells(row, baseline) for row in rows], _BRIEF, title, legend, console)
    for note in notes:
        console.print(f"- {note}", markup=False, soft_wrap=True)
    for row in swept:
        idle = number(row.idle_share, ".1%")
        text = f"ring with C = {row.compute_ms:g} ms: step {number(row.step_ms, '.1f')} ms"
        console.print(f"- {text}, idle {idle}", markup=False)
    for row in (*rows, *swept):
        if row.verdict in (ERROR, "FAIL"):
            console.print(f"- {row.name}, {row.loop}: {row.reason}", markup=False, soft_wrap=True)


def write_training_tables(
    folder: Path,
    rows: Sequence[TrainingRow],
    swept: Sequence[TrainingRow],
    notes: Sequence[str],
    title: str,
) -> list[Path]:
    """Write every field as CSV, and what people read as Markdown."""
    names = [field.name for field in fields(TrainingRow)]
    lines = [f"# {title}", "", *markdown_lines([cells(row, rows[0]) for row in rows])]
    lines += ["", *(f"- {note}" for note in notes), "", "The ring at other compute times:", ""]
    lines += markdown_lines([cells(row, rows[0]) for row in swept])
    text = folder / "table.md"
    text.write_text("\n".join(lines) + "\n")
    every = (asdict(row) for row in (*rows, *swept))
    return [write_csv(folder / "table.csv", names, every), text]

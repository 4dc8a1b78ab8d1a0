"""One experiment of the loss sweep, and the table of all of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.console import Console

from controller.plan import Plan
from experiments.comparison.packets import Measured
from experiments.comparison.rows import ERROR, Source
from experiments.comparison.tablefiles import number, print_cells, write_csv, write_markdown
from experiments.config import ExperimentConfig

_BITS_PER_BYTE, _PER_MS = 8, 1e-6
_BRIEF = {
    "schedule": "schedule",
    "recovery": "recovery",
    "loss %": "loss %",
    "T ms": "T ms",
    "over plan %": "+T %",
    "goodput Gbit/s": "Gbit/s",
    "lost": "lost",
    "resent": "resent",
    "sums missing": "missing",
    "verdict": "verdict",
}
"""Headings of the table that fit a terminal of 80 columns; the files have the others too."""


@dataclass(frozen=True)
class LossRow:
    """One run; what was not measured is ``None``.

    Attributes
    ----------
    goodput_gbps
        Payload of the sums that an island had in full and exact, over T: Gbit/s of the
        network that is emulated, mean over the islands (ours).
    missing_blocks
        Block sums that an island never had in full.
    recovery_max_ms
        Longest time from the notice of a gap to its end.
    """

    schedule: str
    loss_percent: float
    resend_ms: float
    t_planned_ms: float
    t_measured_ms: float | None
    goodput_gbps: float | None
    lost: int | None
    resent: int | None
    missing_blocks: int | None
    unavailable: int | None
    recovery_p50_ms: float | None
    recovery_p99_ms: float | None
    recovery_max_ms: float | None
    ring_bytes: float | None
    verdict: str
    reason: str
    run_id: str
    source: Source


def loss_row(config: ExperimentConfig, plan: Plan, got: Measured) -> LossRow:
    """Put plan and summary of one run into a row."""
    measured = got.summary or {}
    recovery = measured.get("recovery", {})
    goodput = missing = None
    if measured.get("t_measured_ms") and measured["blocks_expected"]:
        missing = measured["blocks_expected"] - measured["blocks_exact"]
        share = measured["blocks_exact"] / measured["blocks_expected"]
        bits = plan.payload_bytes * _BITS_PER_BYTE * share
        goodput = bits * _PER_MS / measured["t_measured_ms"]
    return LossRow(
        schedule=config.schedule_name,
        loss_percent=config.loss_percent,
        resend_ms=config.resend_ms,
        t_planned_ms=plan.prediction.t_ms,
        t_measured_ms=measured.get("t_measured_ms"),
        goodput_gbps=goodput,
        lost=measured.get("packets_lost"),
        resent=recovery.get("resent"),
        missing_blocks=missing,
        unavailable=recovery.get("unavailable"),
        recovery_p50_ms=recovery.get("p50_ms"),
        recovery_p99_ms=recovery.get("p99_ms"),
        recovery_max_ms=recovery.get("max_ms"),
        ring_bytes=recovery.get("ring_bytes"),
        verdict=got.verdict,
        reason=got.reason(plan),
        run_id=got.run_id,
        source=got.source,
    )


def cells(row: LossRow) -> dict[str, str]:
    """A row as people read it: heading to text, in order."""
    growth = None
    if row.t_measured_ms is not None:
        growth = 100 * (row.t_measured_ms / row.t_planned_ms - 1)
    return {
        "schedule": row.schedule,
        "recovery": "on" if row.resend_ms else "off",
        "loss %": f"{row.loss_percent:g}",
        "T ms": number(row.t_measured_ms, ".1f"),
        "over plan %": number(growth, "+.2f"),
        "goodput Gbit/s": number(row.goodput_gbps, ".3f"),
        "lost": number(row.lost, "d"),
        "resent": number(row.resent, "d"),
        "sums missing": number(row.missing_blocks, "d"),
        "gap p99 ms": number(row.recovery_p99_ms, ".2f"),
        "verdict": row.verdict,
    }


def print_losses(rows: Sequence[LossRow], title: str, console: Console | None = None) -> None:
    """Print the table, and below it why runs failed."""
    console = console or Console(highlight=False)
    legend = "+T: over the plan; missing: block sums never complete"
    print_cells([cells(row) for row in rows], _BRIEF, title, legend, console)
    for row in rows:
        if row.verdict in (ERROR, "FAIL"):
            console.print(f"- {row.schedule} at {row.loss_percent:g} %: {row.reason}", markup=False)


def write_loss_tables(folder: Path, rows: Sequence[LossRow], title: str) -> list[Path]:
    """Write every field as CSV, and what people read as Markdown."""
    names = [field.name for field in fields(LossRow)]
    return [
        write_csv(folder / "table.csv", names, (asdict(row) for row in rows)),
        write_markdown(folder / "table.md", [cells(row) for row in rows], title),
    ]

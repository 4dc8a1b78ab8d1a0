"""One all-reduce of the comparison, the table of all of them, and its picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.console import Console

from controller.plan import Plan
from experiments.comparison.packets import Measured
from experiments.comparison.rows import ERROR, Source
from experiments.comparison.tablefiles import number, print_cells, write_csv, write_markdown
from experiments.config import IN_NETWORK, ExperimentConfig
from experiments.figures import FAINT, PLANNED, colour, new_figure, save, tidy

MULTICAST_FPGA = "multicast + FPGA"
OPEN_MPI = "Open MPI"
"""What the names of its rows begin with."""
_BRIEF = {
    "schedule": "schedule",
    "release": "release",
    "planned ms": "planned",
    "measured ms": "measured",
    "error %": "error %",
    "/ bound": "/ bound",
    "exact": "exact",
    "verdict": "verdict",
}
"""Headings of the table that fit a terminal of 80 columns; the files have the others too."""


@dataclass(frozen=True)
class CollectiveRow:
    """One run; what was not measured is ``None``.

    Attributes
    ----------
    release
        When hosts send (`controller.hostplan.Release`); empty where the network adds, and of
        Open MPI, which has neither chunks nor a planned time either.
    bound_ms
        Least time known for hosts alone, and for one sum in the network for a network that
        copies and adds; ``None`` where every edge adds.
    """

    schedule: str
    release: str
    chunks: int | None
    t_planned_ms: float | None
    t_measured_ms: float | None
    t_error_percent: float | None
    bound_ms: float | None
    sums_exact: bool | None
    packets_lost: int | None
    verdict: str
    reason: str
    run_id: str
    source: Source

    @property
    def name(self) -> str:
        """The schedule, and the release if it has one."""
        return f"{self.schedule} ({self.release})" if self.release else self.schedule


def collective_row(config: ExperimentConfig, plan: Plan, got: Measured) -> CollectiveRow:
    """Put plan and summary of one run into a row."""
    measured, hosts = got.summary or {}, plan.collective
    return CollectiveRow(
        schedule=MULTICAST_FPGA if hosts is None else config.schedule,
        release="" if hosts is None or hosts.hub is not None else hosts.release,
        chunks=None if hosts is None else hosts.chunks,
        t_planned_ms=plan.prediction.t_ms,
        t_measured_ms=measured.get("t_measured_ms"),
        t_error_percent=measured.get("t_error_percent"),
        bound_ms=None if hosts is None else hosts.bound_ms,
        sums_exact=measured.get("sums_exact"),
        packets_lost=measured.get("packets_lost"),
        verdict=got.verdict,
        reason=got.reason(plan),
        run_id=got.run_id,
        source=got.source,
    )


def cells(row: CollectiveRow) -> dict[str, str]:
    """A row as people read it: heading to text, in order."""
    over = None
    if row.t_measured_ms is not None and row.bound_ms is not None:
        over = row.t_measured_ms / row.bound_ms
    return {
        "schedule": row.schedule,
        "release": row.release or "–",
        "chunks": number(row.chunks, "d"),
        "planned ms": number(row.t_planned_ms, ".1f"),
        "measured ms": number(row.t_measured_ms, ".1f"),
        "error %": number(row.t_error_percent, "+.2f"),
        "/ bound": number(over, ".2f"),
        "exact": {None: "–", True: "yes", False: "no"}[row.sums_exact],
        "verdict": row.verdict,
    }


def print_collectives(
    rows: Sequence[CollectiveRow],
    title: str,
    notes: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print the table, and below it notes and why runs failed."""
    console = console or Console(highlight=False)
    legend = "ms; bound: of hosts that send, receive and add; of in-network: of such a network"
    print_cells([cells(row) for row in rows], _BRIEF, title, legend, console)
    for note in notes:
        console.print(f"- {note}", markup=False, style="dim")
    for row in rows:
        if row.verdict in (ERROR, "FAIL"):
            console.print(f"- {row.schedule} {row.release}: {row.reason}", markup=False)


@dataclass(frozen=True)
class Gain:
    """What sums in the network gain over the best schedule between hosts, as measured."""

    between_hosts: CollectiveRow
    in_network: CollectiveRow
    factor: float

    @property
    def text(self) -> str:
        """One line."""
        best, network = self.between_hosts, self.in_network
        return (
            f"{network.schedule}: {self.factor:.3f} × as fast as the best between hosts, "
            f"{best.name}: {network.t_measured_ms:.2f} against {best.t_measured_ms:.2f} ms"
        )


def gain(rows: Sequence[CollectiveRow]) -> Gain | None:
    """Compare measured times of exact sums; ``None`` if either side has none."""
    sound = [row for row in rows if row.sums_exact and row.verdict in ("PASS", "DEGRADED")]
    timed = [(row.t_measured_ms, row) for row in sound if row.t_measured_ms]
    between = [(ms, row) for ms, row in timed if row.release or row.schedule.startswith(OPEN_MPI)]
    network = [(ms, row) for ms, row in timed if row.schedule == IN_NETWORK]
    if not between or not network:
        return None
    best_ms, best = min(between, key=lambda one: one[0])
    network_ms, row = network[0]
    return Gain(best, row, best_ms / network_ms)


def write_collective_tables(
    folder: Path, rows: Sequence[CollectiveRow], title: str, notes: Sequence[str] = ()
) -> list[Path]:
    """Write every field as CSV, and what people read as Markdown."""
    names = [field.name for field in fields(CollectiveRow)]
    return [
        write_csv(folder / "table.csv", names, (asdict(row) for row in rows)),
        write_markdown(folder / "table.md", [cells(row) for row in rows], title, notes),
    ]


def draw_collectives(folder: Path, rows: Sequence[CollectiveRow], title: str) -> Path:
    """Draw ``times.png``: a bar for each run, a tick at its planned time."""
    figure = new_figure(8.0, 1.2 + 0.32 * len(rows), title)
    axis = figure.subplots()
    tints = {"planned": colour(0), "data": FAINT, "": colour(2)}
    for place, row in enumerate(rows):
        tint = colour(3) if row.schedule.startswith(OPEN_MPI) else tints[row.release]
        axis.barh(place, row.t_measured_ms or 0.0, height=0.7, color=tint)
        if row.t_planned_ms is not None:
            axis.vlines(row.t_planned_ms, place - 0.4, place + 0.4, color=PLANNED, lw=1.2)
    axis.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    tidy(axis, xlabel="ms; tick: planned", ylabel="")
    return save(figure, folder / "times.png")

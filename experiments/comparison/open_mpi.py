"""Open MPI's all-reduces as rows of the comparison of collectives, and notes on them."""

from pathlib import Path

from controller.plan import Plan
from experiments.comparison.collective_rows import OPEN_MPI, CollectiveRow
from experiments.comparison.rows import ERROR
from experiments.config import ExperimentConfig
from experiments.openmpi.job import Case, Report
from experiments.openmpi.measure import measure_open_mpi, ring_arithmetic
from experiments.run import ProgressFactory
from testbed.errors import CliquenetError

_SHIM = (
    "a preloaded shim lets virtual time pass while it waits: a yield takes a microsecond, "
    "and who polls without end waits for his descriptors"
)


def compare_open_mpi(
    config: ExperimentConfig, plan: Plan, folder: Path, progress: ProgressFactory
) -> tuple[list[CollectiveRow], list[str]]:
    """Measure Open MPI between the hosts of a plan of ours.

    Parameters
    ----------
    config, plan
        A collective between hosts; its bound and payload are Open MPI's, too.
    folder
        Takes plan, logs and report.
    progress
        Shows the step.

    Returns
    -------
    tuple of list of CollectiveRow and list of str
        A row for each variant, or one that says why there are none; and notes for people.
    """
    try:
        report = measure_open_mpi(config, folder, progress=progress)
    except CliquenetError as error:
        return [_row("", plan, error=str(error))], []
    return open_mpi_rows(report, plan), open_mpi_notes(report, plan)


def open_mpi_rows(report: Report, plan: Plan) -> list[CollectiveRow]:
    """A row for each variant: its last all-reduce, over connections that were open before."""
    return [_row(f", {case.name}", plan, case, case.error) for case in report.cases]


def open_mpi_notes(report: Report, plan: Plan) -> list[str]:
    """How it was measured, its first all-reduces, and a ring's bytes over its busiest link."""
    first = [f"{case.name} {case.runs[0].time_ms:.1f}" for case in report.cases if case.runs]
    bytes_ms, delays_ms = ring_arithmetic(plan)
    again = sum(run.retransmitted for case in report.cases for run in case.runs)
    return [
        f"Open MPI {report.job.version} over TCP, ranks in the order of our ring; {_SHIM}",
        "Open MPI's first all-reduce, which opens the connections, in ms: " + ", ".join(first),
        f"TCP segments that Open MPI's hosts sent again: {again}",
        f"arithmetic of a ring: its bytes take {bytes_ms:.1f} ms on its busiest link, "
        f"the delays of its hops in turn {delays_ms:.1f} ms",
    ]


def _row(name: str, plan: Plan, case: Case | None = None, error: str = "") -> CollectiveRow:
    last = case.runs[-1] if case and case.runs else None
    exact = case is not None and bool(case.runs) and all(run.exact for run in case.runs)
    verdict, reason = "PASS", ""
    if last is None:
        verdict, reason = ERROR, error
    elif not exact:
        verdict, reason = "FAIL", "a sum is wrong"
    return CollectiveRow(
        schedule=OPEN_MPI + name,
        release="",
        chunks=None,
        t_planned_ms=None,
        t_measured_ms=None if last is None else last.time_ms,
        t_error_percent=None,
        bound_ms=None if plan.collective is None else plan.collective.bound_ms,
        sums_exact=None if last is None else exact,
        packets_lost=None if case is None or last is None else case.dropped,
        verdict=verdict,
        reason=reason,
        run_id="",
        source="failed" if last is None else "ran",
    )

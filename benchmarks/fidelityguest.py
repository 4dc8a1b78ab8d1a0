"""Runs inside the virtual machine: links beside stock Mininet's, and links built wrong.

``python -m benchmarks.fidelityguest JOB RESULT`` reads a `Job` and writes a `Report`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.sabotage import Sabotaged, sabotage
from benchmarks.tclink import Asked, measure_ours, measure_stock
from testbed.errors import CliquenetError
from testbed.jsonmodel import read_model
from testbed.linkfigures import LinkFigures
from testbed.namespaces import isolate
from testbed.topology import Frozen, load_topology


class Job(Frozen):
    """What to measure; an empty topology: no sabotage."""

    links: tuple[Asked, ...] = ()
    topology: str = ""
    scale: float = 100.0
    mtu_bytes: int = 9000


class Report(Frozen):
    """What was measured: a row of each kind for each link of the job, and each sabotage."""

    ours: tuple[LinkFigures, ...]
    stock: tuple[LinkFigures, ...]
    sabotaged: tuple[Sabotaged, ...]


def work(job: Job, folder: Path) -> Report:
    """Do a job; logs go to a folder."""
    isolate()
    sabotaged: list[Sabotaged] = []
    if job.topology:
        topology = load_topology(job.topology)
        sabotaged = sabotage(topology, scale=job.scale, mtu_bytes=job.mtu_bytes, log_dir=folder)
    return Report(
        ours=tuple(measure_ours(job.links)),
        stock=tuple(measure_stock(job.links)),
        sabotaged=tuple(sabotaged),
    )


def main(argv: Sequence[str]) -> int:
    """Measure; one line on standard error if that fails."""
    try:
        result = Path(argv[1])
        report = work(read_model(Job, Path(argv[0])), result.parent)
        result.write_text(report.model_dump_json(indent=1))
    except CliquenetError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""One rank: all-reduces of a host's numbers, from a common instant, each checked bit by bit.

``python -m experiments.openmpi.rank JOB FOLDER`` is what Open MPI starts on each host; it
reads a `RankJob` and writes a `RankReport` into the folder.
"""

import ctypes
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agents.operands import chunk_layout, operand
from testbed.jsonmodel import read_model
from testbed.topology import Frozen

_LIBRARY = "libmpi.so.40"
_LEAD_NS = 1_000_000_000
"""From the choice of the common instant to it: more than any message takes."""
_NS_PER_S = 1_000_000_000


class RankJob(Frozen):
    """What every rank does."""

    seed: int
    cities: tuple[int, ...]
    """City index of each rank."""
    wire_bytes: float
    """Of the payload, as our datagrams would carry it, scaled."""
    mtu_bytes: int
    repeats: int


class RankReport(Frozen):
    """What one rank measured, by repetition."""

    begin_ns: tuple[int, ...]
    """The common instant, on CLOCK_MONOTONIC."""
    end_ns: tuple[int, ...]
    exact: tuple[bool, ...]
    retransmitted: tuple[int, ...]
    """TCP segments that the host sent again meanwhile."""


class OpenMpi:
    """The few functions of ``libmpi`` that are needed here, by its C interface."""

    def __init__(self) -> None:
        self._mpi = mpi = ctypes.CDLL(_LIBRARY, mode=ctypes.RTLD_GLOBAL)
        self._world, self._sum, self._int32, self._int64 = (
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}")))
            for name in ("comm_world", "op_sum", "int32_t", "int64_t")
        )
        mpi.MPI_Init(None, None)  # errors end the process: MPI's default
        rank = ctypes.c_int()
        mpi.MPI_Comm_rank(self._world, ctypes.byref(rank))
        self.rank = rank.value

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._mpi.MPI_Barrier(self._world)

    def broadcast(self, value: int) -> int:
        """The value of rank 0."""
        cell = ctypes.c_int64(value)
        self._mpi.MPI_Bcast(ctypes.byref(cell), 1, self._int64, 0, self._world)
        return cell.value

    def all_reduce(self, own: npt.NDArray[np.int32], total: npt.NDArray[np.int32]) -> None:
        """Add up the vectors of all ranks."""
        self._mpi.MPI_Allreduce(
            ctypes.c_void_p(own.ctypes.data),
            ctypes.c_void_p(total.ctypes.data),
            own.size,
            self._int32,
            self._sum,
            self._world,
        )

    def finalize(self) -> None:
        """Leave."""
        self._mpi.MPI_Finalize()


def numbers(job: RankJob, city: int) -> npt.NDArray[np.int32]:
    """What a host brings, as in our own collectives."""
    layout = chunk_layout(job.wire_bytes, job.mtu_bytes)
    return operand(job.seed, city, 0, layout).ravel()[: layout.total_elements]


def retransmitted_segments(text: str) -> int:
    """``RetransSegs`` of the host's TCP, from the text of ``/proc/net/snmp``."""
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def measure(job: RankJob, mpi: OpenMpi) -> RankReport:
    """All repetitions."""
    own = numbers(job, job.cities[mpi.rank])
    true = sum((numbers(job, city) for city in job.cities), np.zeros_like(own))
    begins, ends, exact, again = [], [], [], []
    for _ in range(job.repeats):
        total = np.zeros_like(own)
        mpi.barrier()
        begin_ns = mpi.broadcast(time.monotonic_ns() + _LEAD_NS)
        before = retransmitted_segments(Path("/proc/net/snmp").read_text())
        time.sleep((begin_ns - time.monotonic_ns()) / _NS_PER_S)
        mpi.all_reduce(own, total)
        ends.append(time.monotonic_ns())
        begins.append(begin_ns)
        exact.append(np.array_equal(total, true))
        again.append(retransmitted_segments(Path("/proc/net/snmp").read_text()) - before)
    return RankReport(
        begin_ns=tuple(begins),
        end_ns=tuple(ends),
        exact=tuple(exact),
        retransmitted=tuple(again),
    )


def main(argv: list[str]) -> int:
    """Measure, and write what was measured."""
    job, mpi = read_model(RankJob, Path(argv[0])), OpenMpi()
    report = measure(job, mpi)
    (Path(argv[1]) / f"rank-{mpi.rank}.json").write_text(report.model_dump_json())
    mpi.finalize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What Open MPI is to run inside the virtual machine, and what came of it."""

from testbed.topology import Frozen


class Job(Frozen):
    """What to measure on the network of a run folder."""

    root: str
    """Folder that Open MPI is unpacked in."""
    shim: str
    version: str
    """Of Open MPI."""
    hosts: tuple[str, ...]
    """City of each rank."""
    algorithms: tuple[str, ...]
    repeats: int
    """All-reduces after the first one, over connections that then have grown."""


class AllReduce(Frozen):
    """One all-reduce."""

    time_ms: float
    """From the common instant to the last rank's return."""
    exact: bool
    """Every rank holds the true sum, bit for bit."""
    retransmitted: int
    """TCP segments that any host sent again."""


class Case(Frozen):
    """All all-reduces by one algorithm, over the same connections; or why there are none."""

    algorithm: str
    runs: tuple[AllReduce, ...] = ()
    dropped: int = 0
    """Packets that the shapers dropped meanwhile."""
    error: str = ""


class Report(Frozen):
    """What was measured, with the job that asked for it."""

    job: Job
    elements: int
    """Numbers of 4 bytes that each host brings."""
    cases: tuple[Case, ...]

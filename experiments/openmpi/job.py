"""What Open MPI is to run inside the virtual machine, and what came of it."""

from collections.abc import Mapping

from pydantic import Field

from testbed.topology import Frozen


class Variant(Frozen):
    """An algorithm, and how messages are sent."""

    name: str
    settings: Mapping[str, str] = Field(default_factory=dict)
    """Parameters of Open MPI."""


class Job(Frozen):
    """What to measure on the network of a run folder."""

    root: str
    """Folder that Open MPI is unpacked in."""
    shim: str
    version: str
    """Of Open MPI."""
    hosts: tuple[str, ...]
    """City of each rank."""
    variants: tuple[Variant, ...]
    repeats: int
    """All-reduces by each, over connections that stay open; the first one opens them."""


class AllReduce(Frozen):
    """One all-reduce."""

    time_ms: float
    """From the common instant to the last rank's return."""
    exact: bool
    """Every rank holds the true sum, bit for bit."""
    retransmitted: int
    """TCP segments that any host sent again."""


class Case(Frozen):
    """All all-reduces by one variant; or why there are none."""

    name: str
    runs: tuple[AllReduce, ...] = ()
    dropped: int = 0
    """Packets that the shapers dropped meanwhile."""
    error: str = ""


class Report(Frozen):
    """What was measured, with the job that asked for it."""

    job: Job
    cases: tuple[Case, ...]

"""What the islands run in a collective: the steps of each, and the paths that its sends take."""

from typing import Literal, NamedTuple

from pydantic import Field

from testbed.topology import Frozen

Release = Literal["planned", "data"]
"""When a send may begin at the earliest: at its time in the schedule, counted from the common
start, so that links shared by several hosts serve one of them at a time; or as soon as its data
is there. It never begins before its data is there and the send before it has left."""

HOLD, OWN, NOTHING, WITH_OWN = "h", "o", "-", "+"
"""What a host begins a chunk with that it took over in the middle: what it holds; only its own
contribution, which it still has; nothing; what it holds, and its own contribution added to it."""


Place = Literal["island", "aggregator"]
"""Which of a city's two hosts."""


class HostPath(Frozen):
    """A way of sends through the network."""

    src: int
    """City index."""
    dst: int
    tag: int = Field(ge=0)
    """Tells ways with the same ends apart."""
    edges: tuple[int, ...]
    """Directed edges of the topology, in order."""
    rate_gbps: float = Field(gt=0)
    """Of the slowest link, the access links included."""
    starts_at: Place = "island"
    ends_at: Place = "island"

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch of the tree from a hub's aggregator to all islands."""
        return (self.starts_at, self.ends_at) == ("aggregator", "island")

    @property
    def is_relay(self) -> bool:
        """Whether it leads from an aggregator to the next one."""
        return (self.starts_at, self.ends_at) == ("aggregator", "aggregator")


class HostStep(NamedTuple):
    """A step of one host; see `controller.collectives.program.Step`."""

    kind: Literal["send", "receive", "reduce", "compute"]
    """``compute`` is no transfer: only `controller.training.unroll` makes it."""
    transfer: int
    chunk: int
    path: int
    """Index into the paths."""
    start_ms: float
    """When the transfer begins by the schedule; see `Release`."""
    end_ms: float
    """When its last byte arrives by the schedule."""
    after: tuple[int, ...]


class HostPlan(Frozen):
    """An all-reduce between the islands of a topology, ready to run."""

    algorithm: str
    model: Literal["pipelined", "occupancy"] = "pipelined"
    """For how long the schedule holds links; see `controller.collectives.schedule.Model`."""
    release: Release = "planned"
    payload_bytes: int = Field(gt=0)
    """Bytes on the wire that each host brings, headers included."""
    chunks: int = Field(ge=1)
    time_ms: float = Field(ge=0)
    """By the schedule."""
    bound_ms: float = Field(gt=0)
    """Largest lower bound known for hosts that send, receive and add."""
    bound: str
    paths: tuple[HostPath, ...]
    steps: tuple[tuple[HostStep, ...], ...]
    """By city index."""
    origins: tuple[str, ...] = ()
    """By city index, of a plan that takes over: what each chunk begins with, a character each:
    see `HOLD`."""
    hub: int | None = None
    """City whose aggregator sends the sum of all islands' data to a multicast group; None where
    hosts alone add. Paths then lead up from islands to aggregators, from those to the next ones,
    and from the hub's down a tree to every island. All is one transfer of one chunk."""
    relays: tuple[HostStep, ...] = ()
    """What the aggregators below the hub send: the sum of what leads to them."""

    @property
    def aggregators(self) -> tuple[int, ...]:
        """Cities whose aggregator adds, ascending."""
        return tuple(sorted({path.dst for path in self.paths if path.ends_at == "aggregator"}))

    def feeds(self, city: int) -> tuple[HostPath, ...]:
        """The paths that end at a city's aggregator."""
        return tuple(p for p in self.paths if (p.dst, p.ends_at) == (city, "aggregator"))

    def relay(self, city: int) -> HostPath | None:
        """The path from a city's aggregator to the next one; None at the hub."""
        return next((path for path in self.paths if path.is_relay and path.src == city), None)

    def contributors(self, city: int) -> tuple[int, ...]:
        """Islands whose data is in the sum that leaves a city's aggregator, ascending."""
        found: list[int] = []
        for path in self.feeds(city):
            found += self.contributors(path.src) if path.is_relay else (path.src,)
        return tuple(sorted(found))

    @property
    def transfers(self) -> int:
        """How many transfers there are; they are numbered from 0."""
        return sum(step.kind == "send" for steps in self.steps for step in steps)

    @property
    def chunk_bytes(self) -> float:
        """Bytes on the wire of one chunk; all chunks are equal."""
        return self.payload_bytes / self.chunks

"""What an aggregator's engine is: buffers of datagrams go in, sums come out in the resend ring.

Two engines do the same, bit for bit: `ReferenceEngine` in numpy, and
`agents.aggregator.native.NativeEngine` in C.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from agents.bursts import Bytes
from agents.context import AgentContext, Collision, Expectation, Hash
from agents.wire import StreamLayout

Send = Callable[[int, int], None]
"""Sends ``count`` datagrams of the ring, from number ``seq`` on."""


@dataclass(frozen=True)
class EngineSpec:
    """What an engine is told.

    Attributes
    ----------
    layout
        How streams are cut into blocks.
    expectations
        Of every round of the run.
    city, job_id, epoch
        Of the datagrams that leave; ``job_id`` also of those that come.
    start_ns
        Start of round 0, CLOCK_MONOTONIC; times in events and headers count from it.
    slots, timeout_ns, ways, collision, hash
        Of the table.
    burst_datagrams
        Blocks in one event at most.
    """

    layout: StreamLayout
    expectations: tuple[Expectation, ...]
    city: int
    job_id: int
    epoch: int
    start_ns: int
    slots: int
    timeout_ns: int
    ways: int = 1
    collision: Collision = "evict-old"
    hash: Hash = "mod"
    burst_datagrams: int = 4

    @classmethod
    def of(cls, ctx: AgentContext, epoch: int, slots: int) -> "EngineSpec":
        """The engine of a city's aggregator."""
        return cls(
            layout=ctx.layout,
            expectations=ctx.expectations,
            city=ctx.city,
            job_id=ctx.job_id,
            epoch=epoch,
            start_ns=ctx.start_ns,
            slots=slots,
            timeout_ns=ctx.timeout_ns,
            collision=ctx.collision,
            hash=ctx.hash,
            burst_datagrams=ctx.burst_datagrams,
        )


class Traffic(NamedTuple):
    """Datagrams of one round, and their bytes on the wire."""

    datagrams_in: int = 0
    bytes_in: int = 0
    datagrams_out: int = 0
    bytes_out: int = 0


@dataclass
class EngineCounters:
    """What happened in an engine, in blocks."""

    drops: Counter[str] = field(default_factory=Counter)
    """Refused datagrams by reason."""
    emitted: Counter[str] = field(default_factory=Counter)
    """Sums that left, by cause."""
    late: int = 0
    """Contributions to blocks of which a partial sum had already left."""
    saturated: int = 0
    """Sums that left with an element at the limit of its type."""


class Engine(Protocol):
    """Takes contributions and builds sums in the ring; single-threaded, no input or output.

    Attributes
    ----------
    occupied, high_water
        Blocks in memory now, and at most so far.
    next_timeout_ns
        When `expire` has something to look at, CLOCK_MONOTONIC.
    """

    @property
    def occupied(self) -> int: ...  # noqa: D102

    @property
    def high_water(self) -> int: ...  # noqa: D102

    @property
    def next_timeout_ns(self) -> int: ...  # noqa: D102

    def open_round(self, round_index: int) -> None:
        """Accept contributions of a round."""

    def close_round(self, round_index: int, now_ns: int) -> None:
        """Let the held sums of a round leave and forget the round; nothing if it is not open."""

    def progress(self, round_index: int) -> tuple[int, int]:
        """Contributions taken, and blocks complete, of a round that was opened."""

    def traffic(self, round_index: int) -> Traffic:
        """Datagrams that came and went in a round."""

    def take(self, buffer: Bytes, length: int, segment: int, now_ns: int) -> None:
        """Take the first ``length`` bytes of a buffer apart and add what is in them.

        Parameters
        ----------
        buffer, length, segment
            As `agents.bursts.parse` takes them.
        now_ns
            Time of arrival.
        """

    def expire(self, now_ns: int) -> None:
        """Let sums leave that are due."""

    def flush(self, now_ns: int) -> None:
        """Send all that was built and write its events; to be called when the input pauses."""

    def counters(self) -> EngineCounters:
        """What happened so far."""

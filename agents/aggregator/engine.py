"""What adds the streams up: one interface, and the reference implementation in numpy.

An engine takes receive buffers, and builds the sums that leave in the rows of a
`ResendRing`. It does no input or output itself.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from agents.aggregator.builder import DatagramBuilder
from agents.aggregator.ring import ResendRing
from agents.aggregator.table import OpenBlock, Table
from agents.bursts import Bytes, Run, parse, runs
from agents.names import Collision, Hash, MemoryModel
from agents.records import Kind, Recorder
from agents.recovery.serial import Epochs
from agents.wire import DType, PacketType, StreamLayout, wire_bytes


@dataclass(frozen=True)
class EngineSettings:
    """What an engine must know of the run; times on CLOCK_MONOTONIC."""

    city: int
    job_id: int
    epoch: int
    start_ns: int
    layout: StreamLayout
    slots: int
    burst_datagrams: int
    timeout_ns: int
    collision: Collision = "evict-old"
    hashing: Hash = "mod"
    ways: int = 1
    memory_model: MemoryModel = "accumulate"
    dtype: DType = DType.I32
    ordered: bool = False
    takes_sums: bool = False
    """Whether other aggregators' sums are added as well, of whichever contributors."""


@dataclass
class EngineCounters:
    """What has happened so far."""

    drops: Counter[str] = field(default_factory=Counter)
    """Datagrams refused, by reason: those of `agents.bursts.parse`; then epoch, round,
    block, clique, contributor, duplicate, overlap."""
    emitted: Counter[str] = field(default_factory=Counter)
    """Blocks that left, by cause."""
    late: int = 0
    """Contributions to blocks of which a partial sum had already left."""
    saturated: int = 0
    """Sums that left with an element at the limit of int32."""
    nonfinite: int = 0
    """Sums that left with an element that is infinite or no number."""


class Progress(NamedTuple):
    """What has come in a live round."""

    contributions: int
    complete: int
    """Blocks whose contributors have all left."""
    datagrams: int
    """Admitted, duplicates included."""
    wire_bytes: int
    """Of these datagrams."""


class Engine(Protocol):
    """Adds up what comes; every engine emits the same datagrams for the same input.

    Whatever is built must be sent (the ``send`` that the engine was made with)
    before more than ``ring.rows`` datagrams wait; what waits when a call returns
    is sent by the caller.
    """

    @property
    def occupied(self) -> int:
        """Slots in use."""

    @property
    def high_water(self) -> int:
        """Most slots that were in use at once."""

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""

    @property
    def counters(self) -> EngineCounters:
        """A snapshot of the counters."""

    def open_round(self, round_index: int, clique: int, mask: int) -> None:
        """Accept contributions of a round; ``mask`` has a bit for each expected one."""

    def close_round(self, round_index: int, now_ns: int) -> None:
        """Let the held sums of a round leave (cause flush) and forget the round."""

    def progress(self, round_index: int) -> Progress:
        """How far a live round has come."""

    def seen(self, round_index: int) -> npt.NDArray[np.uint64]:
        """Contributors that have come of each block of a live round, shape (blocks,)."""

    def oldest(self) -> OpenBlock | None:
        """Whatever has been held for the longest time, if anything is held."""

    def take(self, buffer: Bytes, length: int, segment: int, now_ns: int) -> None:
        """Take the datagrams of one receive buffer; see `agents.bursts.parse`."""

    def expire(self, now_ns: int) -> None:
        """Let sums leave whose first contribution came a time-out ago or earlier."""


@dataclass
class _Live:
    """A live round."""

    clique: int
    datagrams: int = 0
    wire_bytes: int = 0


class ReferenceEngine:
    """The engine that says what is right: `parse`, `Table` and `DatagramBuilder`.

    Parameters
    ----------
    settings
        Of the run.
    ring, send
        Where datagrams are built, and what sends them.
    recorder
        Gets an event for every run of blocks that is taken or leaves.
    """

    def __init__(
        self,
        settings: EngineSettings,
        ring: ResendRing,
        send: Callable[[], None],
        recorder: Recorder,
    ) -> None:
        self._settings = settings
        self._recorder = recorder
        self._builder = DatagramBuilder(
            ring,
            send,
            settings.burst_datagrams,
            recorder,
            start_ns=settings.start_ns,
            job_id=settings.job_id,
            epoch=settings.epoch,
            city=settings.city,
            dtype=settings.dtype,
        )
        self._table = Table(
            settings.slots,
            settings.layout,
            self._builder.take,
            hashing=settings.hashing,
            collision=settings.collision,
            timeout_ns=settings.timeout_ns,
            ways=settings.ways,
            memory_model=settings.memory_model,
            dtype=settings.dtype,
            ordered=settings.ordered,
        )
        self._epochs = Epochs()
        self._live: dict[int, _Live] = {}
        self._drops: Counter[str] = Counter()

    @property
    def occupied(self) -> int:
        """Slots in use."""
        return self._table.occupied

    @property
    def high_water(self) -> int:
        """Most slots that were in use at once."""
        return self._table.high_water

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""
        return self._table.next_timeout_ns

    @property
    def counters(self) -> EngineCounters:
        """A snapshot of the counters."""
        counted = self._table.counters
        return EngineCounters(
            self._drops + counted.drops,
            Counter(counted.emitted),
            counted.late,
            counted.saturated,
            counted.nonfinite,
        )

    def open_round(self, round_index: int, clique: int, mask: int) -> None:
        """Accept contributions of a round; ``mask`` has a bit for each expected one."""
        self._live[round_index] = _Live(clique)
        self._builder.open_round(round_index, clique)
        self._table.open_round(round_index, mask)

    def close_round(self, round_index: int, now_ns: int) -> None:
        """Let the held sums of a round leave (cause flush) and forget the round."""
        self._builder.tick(now_ns)
        self._table.close_round(round_index)
        self._builder.finish()
        self._builder.close_round(round_index)
        del self._live[round_index]

    def progress(self, round_index: int) -> Progress:
        """How far a live round has come."""
        live = self._live[round_index]
        return Progress(*self._table.progress(round_index), live.datagrams, live.wire_bytes)

    def seen(self, round_index: int) -> npt.NDArray[np.uint64]:
        """Contributors that have come of each block of a live round, shape (blocks,)."""
        return self._table.seen(round_index)

    def oldest(self) -> OpenBlock | None:
        """Whatever has been held for the longest time, if anything is held."""
        return self._table.oldest()

    def take(self, buffer: Bytes, length: int, segment: int, now_ns: int) -> None:
        """Take the datagrams of one receive buffer; see `agents.bursts.parse`."""
        self._builder.tick(now_ns)
        batches = parse(
            buffer,
            length,
            segment,
            kind=PacketType.DATA,
            job_id=self._settings.job_id,
            rejects=self._drops,
            dtype=self._settings.dtype,
            or_kind=PacketType.AGG if self._settings.takes_sums else None,
        )
        for batch in batches:
            for run in runs(batch):
                reason = self._misfit(run)
                if reason:
                    self._drops[reason] += len(run.values)
                else:
                    self._add(run, now_ns)
        self._builder.finish()

    def expire(self, now_ns: int) -> None:
        """Let sums leave whose first contribution came a time-out ago or earlier."""
        self._builder.tick(now_ns)
        self._table.expire(now_ns)
        self._builder.finish()

    def _misfit(self, run: Run) -> str:
        """Why a run does not belong here, or an empty text if it does."""
        live = self._live.get(run.round)
        if live is None:
            return "round"
        if run.block + len(run.values) > self._settings.layout.blocks:
            return "block"
        if run.clique != live.clique:
            return "clique"
        if run.bitmap != 1 << run.src and not self._settings.takes_sums:
            return "contributor"
        return "" if self._epochs.admits(run.src, run.epoch) else "epoch"

    def _add(self, run: Run, now_ns: int) -> None:
        count, width = run.values.shape
        self._table.add(
            run.round,
            run.bitmap,
            run.block,
            run.values,
            now_ns,
            flags=run.flags,
            exponent=run.exponent,
        )
        live = self._live[run.round]
        live.datagrams += count
        live.wire_bytes += count * wire_bytes(width, self._settings.dtype.element_bytes)
        self._recorder.add(
            now_ns - self._settings.start_ns,
            run.round,
            Kind.HELD,
            run.src,
            run.block,
            count,
            self._table.occupied,
        )

"""The engine in C: it emits what the reference does, with one compiled call a buffer."""

import ctypes
import mmap
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from agents.aggregator.engine import EngineCounters, EngineSettings, Progress
from agents.aggregator.memory import check_ways
from agents.aggregator.ring import ResendRing
from agents.aggregator.table import OpenBlock
from agents.bursts import Bytes
from agents.native.layout import (
    LARGEST_BUFFER,
    LIVE_ROUNDS,
    NONE,
    ROW_DTYPE,
    SLOT_DTYPE,
    VECTOR_BYTES,
    WANT_FUNCTION,
    EngineState,
    Policy,
    Reject,
    Served,
    Sockets,
    Want,
    kernel,
)
from agents.records import EVENT_DTYPE, Recorder
from agents.reserve import reserve
from agents.wire import ELEMENT_BYTES, Cause
from testbed.errors import InputError

_Bitmaps = npt.NDArray[np.uint64]
_LINE_BYTES = 64
"""Of the cache: rows begin with one."""


class NativeEngine:
    """See `agents.aggregator.engine.Engine`.

    Parameters
    ----------
    settings
        Of the run.
    ring, send
        Where datagrams are built, and what sends all that wait there.
    recorder
        Gets an event for every run of blocks that is taken or leaves.
    vectors
        Lengths in bytes that the kernel may use for the usual buffer, best first; those that
        the processor does not have are passed over. Without any, all goes the slow way.

    Raises
    ------
    InputError
        The settings contradict each other.
    MachineError
        The kernel cannot be compiled or loaded.
    """

    def __init__(
        self,
        settings: EngineSettings,
        ring: ResendRing,
        send: Callable[[], None],
        recorder: Recorder,
        *,
        vectors: Sequence[int] = VECTOR_BYTES,
    ) -> None:
        check_ways(settings.slots, settings.ways)
        if settings.ordered and settings.memory_model != "hold":
            raise InputError("ordered sums need the memory model hold")
        self._kernel = kernel()
        self._settings = settings
        self._ring = ring
        self._send = send
        self._recorder = recorder
        self._chunk: mmap.mmap | None = None
        self._failure: BaseException | None = None
        rows = settings.slots // settings.ways * settings.ways
        block_bytes = settings.layout.elements * ELEMENT_BYTES
        pitch = -(-block_bytes // _LINE_BYTES) * _LINE_BYTES
        self._slots = np.zeros(rows, SLOT_DTYPE)
        self._arrays: dict[str, npt.NDArray[Any]] = {
            "slots": self._slots,
            "row": np.zeros(rows, ROW_DTYPE),
            "memory": np.frombuffer(reserve(rows * pitch), np.uint8),
            "free_rows": np.zeros(rows, np.uint32),
            "scratch": np.zeros(block_bytes, np.uint8),
            "ring": ring.memory,
            "sizes": ring.sizes,
            "sent_ns": ring.sent_ns,
        }
        self._live: dict[int, int] = {}
        self._bitmaps: dict[int, tuple[_Bitmaps, _Bitmaps]] = {}
        self._state = self._first_state(rows, pitch)
        self._state.passes = next(filter(None, map(self._kernel.passes, vectors)), None)
        self._at = ctypes.byref(self._state)

    @property
    def occupied(self) -> int:
        """Rows of the memory in use."""
        return int(self._state.occupied)

    @property
    def high_water(self) -> int:
        """Most rows that were in use at once."""
        return int(self._state.high_water)

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""
        return int(self._kernel.next_timeout(self._at))

    @property
    def counters(self) -> EngineCounters:
        """A snapshot of the counters."""
        state = self._state
        drops = {reason.name.lower(): int(state.rejects[reason]) for reason in Reject}
        emitted = {cause.name.lower(): int(state.emitted[cause]) for cause in Cause}
        return EngineCounters(
            +Counter(drops),
            +Counter(emitted),
            int(state.late),
            int(state.saturated),
            int(state.nonfinite),
        )

    def open_round(self, round_index: int, clique: int, mask: int) -> None:
        """Accept contributions of a round; ``mask`` has a bit for each expected one."""
        used = set(self._live.values())
        place = next((i for i in range(LIVE_ROUNDS) if i not in used), None)
        if place is None:
            raise ValueError(f"round {round_index}: {LIVE_ROUNDS} rounds are open already")
        blocks = self._settings.layout.blocks
        seen, emitted = np.zeros(blocks, np.uint64), np.zeros(blocks, np.uint64)
        live = self._state.live[place]
        ctypes.memset(ctypes.addressof(live), 0, ctypes.sizeof(live))
        live.index, live.clique, live.mask = round_index, clique, mask
        live.seen, live.emitted = seen.ctypes.data, emitted.ctypes.data
        self._live[round_index] = place
        self._bitmaps[round_index] = seen, emitted

    def close_round(self, round_index: int, now_ns: int) -> None:
        """Let the held sums of a round leave (cause flush) and forget the round."""
        place = self._live[round_index]
        self._call(self._kernel.flush_round, place, now_ns)
        self._state.live[place].seen = None
        del self._live[round_index], self._bitmaps[round_index]

    def progress(self, round_index: int) -> Progress:
        """How far a live round has come."""
        live = self._state.live[self._live[round_index]]
        return Progress(live.contributions, live.complete, live.datagrams, live.wire_bytes)

    def seen(self, round_index: int) -> npt.NDArray[np.uint64]:
        """Contributors that have come of each block of a live round, shape (blocks,)."""
        return self._bitmaps[round_index][0]

    def oldest(self) -> OpenBlock | None:
        """Whatever has been held for the longest time, if anything is held."""
        index = self._state.oldest
        if index == NONE:
            return None
        slot = self._slots[index]
        round_index, block = int(slot["round"]), int(slot["block"])
        seen, _ = self._bitmaps[round_index]
        mask = int(self._state.live[self._live[round_index]].mask)
        return OpenBlock(round_index, block, int(slot["first_ns"]), mask & ~int(seen[block]))

    def take(self, buffer: Bytes, length: int, segment: int, now_ns: int) -> None:
        """Take the datagrams of one receive buffer; see `agents.bursts.parse`."""
        if not 0 <= length <= min(len(buffer), LARGEST_BUFFER):
            raise ValueError(f"{length} bytes are not in a buffer of {len(buffer)}")
        self._call(self._kernel.take, buffer.ctypes.data, length, max(1, segment), now_ns)

    def expire(self, now_ns: int) -> None:
        """Let sums leave whose first contribution came a time-out ago or earlier."""
        self._call(self._kernel.expire, now_ns)

    def serve(self, sockets: Sockets, until_ns: int) -> Served:
        """Receive, take, expire and send until a time, or until nothing comes.

        Parameters
        ----------
        sockets
            Where to; says afterwards what came when the time was over.
        until_ns
            CLOCK_MONOTONIC.

        Raises
        ------
        OSError
            Receiving or sending failed.
        """
        sockets.error = 0
        served = Served(self._call(self._kernel.serve, ctypes.byref(sockets), until_ns))
        if served is Served.FAILED:
            reason = os.strerror(sockets.error)
            raise OSError(sockets.error, f"the aggregator cannot receive or send: {reason}")
        return served

    def take_sent(self) -> list[tuple[int, int, int]]:
        """What `serve` has sent since the last call: (round, datagrams, bytes on the wire)."""
        sent = []
        for round_index, place in self._live.items():
            live = self._state.live[place]
            if live.sent_datagrams:
                sent.append((round_index, live.sent_datagrams, live.sent_bytes))
                live.sent_datagrams = live.sent_bytes = 0
        return sent

    def _first_state(self, rows: int, pitch: int) -> EngineState:
        settings, layout, ring = self._settings, self._settings.layout, self._ring
        serve_want = WeakMethod(self._serve_want)  # a callback of ctypes is never collected
        self._want = WANT_FUNCTION(lambda state, what: _serve(serve_want(), state, what))
        state = EngineState(
            blocks=layout.blocks,
            elements=layout.elements,
            last_elements=layout.last_elements,
            element_bytes=settings.dtype.element_bytes,
            job_id=settings.job_id,
            epoch=settings.epoch,
            source=settings.city,
            dtype=settings.dtype,
            start_ns=settings.start_ns,
            timeout_ns=settings.timeout_ns,
            sets=rows // settings.ways,
            ways=settings.ways,
            rows=rows,
            mixes=settings.hashing == "mix",
            policy=Policy[settings.collision.upper().replace("-", "_")],
            holds=settings.memory_model == "hold",
            ordered=settings.ordered,
            oldest=NONE,
            newest=NONE,
            pitch=pitch,
            next_seq=ring.next_seq,
            sent_seq=ring.sent_seq,
            ring_rows=ring.rows,
            row_bytes=ring.row_bytes,
            send_at=min(settings.burst_datagrams, ring.rows),
            takes_sums=settings.takes_sums,
            want=self._want,
        )
        for name, array in self._arrays.items():
            setattr(state, name, array.ctypes.data)
        return state

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the kernel, with the ring's numbers and the recorder's chunk lent to it."""
        state, ring = self._state, self._ring
        state.next_seq, state.sent_seq = ring.next_seq, ring.sent_seq
        self._lend_events(0)
        result = function(self._at, *arguments)
        self._recorder.written(state.events_used * EVENT_DTYPE.itemsize)
        ring.next_seq, ring.sent_seq = state.next_seq, state.sent_seq
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return result

    def _serve_want(self, _state: int, what: int) -> None:
        """Do what the kernel wants amid a call; it cannot hand on exceptions, `_call` does."""
        state, ring = self._state, self._ring
        try:
            if what == Want.EVENTS:
                self._recorder.written(state.events_used * EVENT_DTYPE.itemsize)
                self._lend_events(1)
            else:
                ring.next_seq, ring.sent_seq = state.next_seq, state.sent_seq
                self._send()
                state.sent_seq = ring.sent_seq
        except BaseException as failure:
            self._failure = self._failure or failure
            state.events_used = 0  # whatever comes now is lost with the call
            state.sent_seq = state.next_seq

    def _lend_events(self, least: int) -> None:
        """Let the kernel write into the recorder's chunk."""
        chunk, used = self._recorder.page(least)
        state, size = self._state, EVENT_DTYPE.itemsize
        if chunk is not self._chunk:
            self._chunk = chunk
            state.events = ctypes.addressof(ctypes.c_char.from_buffer(chunk))
            state.events_room = len(chunk) // size
        state.events_used = used // size


def _serve(method: Callable[[int, int], None] | None, state: int, what: int) -> None:
    """Call a method of an engine, which lives as long as the kernel may call back."""
    if method is not None:
        method(state, what)

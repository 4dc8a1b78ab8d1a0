"""The engine in C: the same as the reference, one compiled call for each receive buffer."""

import ctypes
import mmap
import socket
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agents.aggregator.engine import EngineCounters, EngineSpec, Send, Traffic
from agents.aggregator.ring import ResendRing
from agents.bursts import Bytes
from agents.context import Endpoint
from agents.native.layout import (
    LARGEST_BUFFER,
    NONE,
    ROUND_DTYPE,
    SLOT_DTYPE,
    EngineState,
    Kernel,
    Policy,
    Reject,
    Result,
    Sockets,
)
from agents.records import EVENT_DTYPE, Recorder
from agents.wire import ELEMENT_BYTES, Cause, DType

_MAP_NORESERVE: Final = 0x4000
_STEP_EVENTS: Final = 4
"""Events that the kernel wants room for before each step."""


class NativeEngine:
    """See `agents.aggregator.engine.Engine`.

    Raises
    ------
    MachineError
        The kernel cannot be compiled or loaded.
    """

    def __init__(self, spec: EngineSpec, ring: ResendRing, recorder: Recorder, send: Send) -> None:
        self._kernel = Kernel()
        self._spec = spec
        self._ring = ring
        self._recorder = recorder
        self._send = send
        self._chunk: bytearray | None = None
        sets = spec.slots // spec.ways
        self._slots = np.zeros(sets * spec.ways, SLOT_DTYPE)
        self._rounds = np.zeros(len(spec.expectations), ROUND_DTYPE)
        self._rounds["mask"] = [e.mask for e in spec.expectations]
        self._rounds["clique"] = [e.clique for e in spec.expectations]
        self._free_rows = np.zeros(spec.slots, np.uint32)
        arena_bytes = spec.slots * spec.layout.elements * ELEMENT_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._arena = np.frombuffer(mmap.mmap(-1, arena_bytes, flags=flags), np.uint8)
        self._live: dict[int, tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = {}
        self._state = self._initial_state(sets)
        self._at = ctypes.byref(self._state)

    @property
    def occupied(self) -> int:
        """Blocks in memory."""
        return int(self._state.occupied)

    @property
    def high_water(self) -> int:
        """Blocks in memory at most."""
        return int(self._state.high_water)

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""
        return int(self._kernel.next_timeout(self._at))

    def open_round(self, round_index: int) -> None:
        """Accept contributions of a round."""
        blocks = self._spec.layout.blocks
        seen, emitted = np.zeros(blocks, np.uint64), np.zeros(blocks, np.uint64)
        self._live[round_index] = seen, emitted
        self._rounds[round_index]["seen"] = seen.ctypes.data
        self._rounds[round_index]["emitted"] = emitted.ctypes.data

    def close_round(self, round_index: int, now_ns: int) -> None:
        """Let the held sums of a round leave and forget the round."""
        if round_index not in self._live:
            return
        self._state.cursor = self._state.valid_count = 0
        flush = self._kernel.flush_round
        self._call(flush, (round_index, now_ns), flush, (round_index, now_ns))
        self._state.cursor = 0
        self._rounds[round_index]["seen"] = self._rounds[round_index]["emitted"] = 0
        del self._live[round_index]

    def progress(self, round_index: int) -> tuple[int, int]:
        """Contributions taken, and blocks complete, of a round that was opened."""
        state = self._rounds[round_index]
        return int(state["contributions"]), int(state["complete"])

    def traffic(self, round_index: int) -> Traffic:
        """Datagrams that came and went in a round."""
        state = self._rounds[round_index]
        return Traffic(*(int(state[name]) for name in Traffic._fields))

    def take(self, buffer: Bytes, length: int, segment: int, now_ns: int) -> None:
        """Take a receive buffer apart and add what is in it."""
        if not 0 <= length <= min(len(buffer), LARGEST_BUFFER):
            raise ValueError(f"{length} bytes are not in a buffer of {len(buffer)}")
        at = buffer.ctypes.data
        kernel = self._kernel
        self._call(kernel.take, (at, length, max(1, segment), now_ns), kernel.resume, (at, now_ns))

    def expire(self, now_ns: int) -> None:
        """Let sums leave that are due."""
        expire = self._kernel.expire
        self._call(expire, (now_ns,), expire, (now_ns,))

    def flush(self, now_ns: int) -> None:
        """Send all that was built and write its events."""
        self._lend_events()
        self._kernel.end_burst(self._at, now_ns)
        self._return_events()
        self._send_pending()

    def counters(self) -> EngineCounters:
        """What happened so far."""
        state = self._state
        counters = EngineCounters(late=int(state.late), saturated=int(state.saturated))
        for reason in Reject:
            if state.rejects[reason]:
                counters.drops[reason.name.lower()] = int(state.rejects[reason])
        for cause in Cause:
            if state.emitted[cause]:
                counters.emitted[cause.name.lower()] = int(state.emitted[cause])
        return counters

    def serve(self, sockets: Sockets, until_ns: int) -> Result:
        """Receive, take and send until a time, or until nothing has come for a while.

        Parameters
        ----------
        sockets
            As `serving_sockets` makes them.
        until_ns
            CLOCK_MONOTONIC; it is looked at after each buffer.

        Returns
        -------
        Result
            ``DONE``, or ``IDLE`` if a receive ran into its time-out or a signal.

        Raises
        ------
        OSError
            Receiving or sending failed.
        """
        while True:
            self._lend_events()
            result = Result(self._kernel.serve(self._at, ctypes.byref(sockets), until_ns))
            self._return_events()
            if result == Result.FAILED:
                raise OSError(sockets.error, "the aggregator cannot receive or send")
            if result != Result.EVENTS_FULL:
                return result

    def _initial_state(self, sets: int) -> EngineState:
        spec, ring = self._spec, self._ring
        policy = Policy[spec.collision.upper().replace("-", "_")]
        return EngineState(
            rounds=len(self._rounds),
            blocks=spec.layout.blocks,
            elements=spec.layout.elements,
            last_elements=spec.layout.last_elements,
            job_id=spec.job_id,
            epoch=spec.epoch,
            source=spec.city,
            dtype=DType.I32,
            start_ns=spec.start_ns,
            timeout_ns=spec.timeout_ns,
            sets=sets,
            ways=spec.ways,
            rows=spec.slots,
            mixes=spec.hash == "mix",
            policy=policy,
            oldest=NONE,
            newest=NONE,
            slots=self._slots.ctypes.data,
            arena=self._arena.ctypes.data,
            free_rows=self._free_rows.ctypes.data,
            round_of=self._rounds.ctypes.data,
            ring=ring.memory.ctypes.data,
            sizes=ring.sizes.ctypes.data,
            sent_ns=ring.sent_ns.ctypes.data,
            next_seq=ring.next_seq,
            sent_seq=ring.next_seq,
            ring_rows=ring.rows,
            row_bytes=ring.row_bytes,
            burst_limit=spec.burst_datagrams,
        )

    def _call(
        self,
        function: Callable[..., int],
        arguments: tuple[int, ...],
        again: Callable[..., int],
        more: tuple[int, ...],
    ) -> None:
        """Call the kernel, and again with other arguments as often as it runs out of room."""
        self._lend_events()
        result = function(self._at, *arguments)
        self._return_events()
        while result != Result.DONE:
            if result == Result.RING_FULL:
                self._send_pending()
            self._lend_events()
            result = again(self._at, *more)
            self._return_events()

    def _lend_events(self) -> None:
        """Let the kernel write into the recorder's chunk."""
        chunk, used = self._recorder.page(_STEP_EVENTS)
        state, size = self._state, EVENT_DTYPE.itemsize
        if chunk is not self._chunk:
            self._chunk = chunk
            state.events = ctypes.addressof(ctypes.c_char.from_buffer(chunk))
            state.events_room = len(chunk) // size
        state.events_used = used // size

    def _return_events(self) -> None:
        self._recorder.written(self._state.events_used * EVENT_DTYPE.itemsize)
        self._ring.next_seq = self._state.next_seq

    def _send_pending(self) -> None:
        state = self._state
        count = state.next_seq - state.sent_seq
        if count:
            self._send(state.sent_seq, count)
        state.sent_seq = state.next_seq


def serving_sockets(incoming: socket.socket, outgoing: socket.socket, to: Endpoint,
                    most_segments: int, buffer: Any) -> Sockets:
    """What `NativeEngine.serve` needs to know of the sockets.

    Parameters
    ----------
    incoming
        Blocking, with UDP_GRO, and a time-out.
    outgoing
        With UDP_SEGMENT of the ring's full datagram.
    to
        Where the sums go.
    most_segments
        Datagrams that one call may send.
    buffer
        64 kB, uint8; must live as long as the result is used.
    """
    return Sockets(
        incoming=incoming.fileno(),
        outgoing=outgoing.fileno(),
        ip=int.from_bytes(socket.inet_aton(to[0]), "big"),
        port=to[1],
        most_segments=most_segments,
        buffer=buffer.ctypes.data,
    )

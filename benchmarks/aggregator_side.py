"""The measured process of the aggregator's benchmark: an engine, or the bound."""

import ctypes
import mmap
import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from agents.aggregator.engine import Engine, EngineSettings, ReferenceEngine
from agents.aggregator.intake import serving_sockets
from agents.aggregator.native import NativeEngine
from agents.aggregator.ring import ResendRing
from agents.context import Endpoint
from agents.native.build import SOURCES
from agents.native.layout import Served
from agents.records import Recorder
from benchmarks.aggregator_load import JOB_ID, Shape, segments, sending_socket
from testbed.compiled import ensure_library, load

Kind = Literal["bound", "native", "native-calls", "reference"]
KINDS: Final[tuple[Kind, ...]] = ("bound", "native", "native-calls", "reference")
"""``native-calls`` receives and sends in Python, with one call of the kernel a buffer."""

_SLICE_NS: Final = 2_000_000
LIVE_ROUNDS: Final = 4
_SOL_UDP: Final = 17
_UDP_GRO: Final = 104
_TIMEOUT_NS: Final = 10_000_000_000


class Board:
    """Numbers that both processes see.

    Attributes
    ----------
    values
        The phase (0 warms up, 1 is measured, 2 ends), datagrams taken by the bound,
        measured bytes and CPU nanoseconds, refused datagrams,
        and the oldest round that is open.
    """

    PHASE, DONE, BYTES, CPU_NS, REFUSED, ROUND = range(6)

    def __init__(self) -> None:
        self.values: npt.NDArray[np.int64] = np.frombuffer(mmap.mmap(-1, 4096), np.int64)

    def address(self, index: int) -> int:
        """Where a number lies."""
        return self.values.ctypes.data + 8 * index


class _Scratch(Recorder):
    """Keeps one chunk of events and writes over it: a benchmark has no use for them."""

    def page(self, events: int) -> tuple[mmap.mmap, int]:
        chunk, used = super().page(events)
        self._full.clear()
        return chunk, used


def cpu_ns() -> int:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def run_side(
    kind: Kind,
    shape: Shape,
    incoming: socket.socket,
    to: Endpoint,
    board: Board,
    *,
    resend_bytes: int,
) -> None:
    """Serve until the board says stop, and write what was measured to it."""
    if kind == "bound":
        _Bound(shape, incoming, board).run()
    else:
        _Side(kind, shape, incoming, to, board, resend_bytes).run()


class _Meter:
    """Takes the time of the measured phase."""

    def __init__(self, board: Board, taken_bytes: Callable[[], int]) -> None:
        self._board = board
        self._taken_bytes = taken_bytes
        self._phase = 0
        self._begin = (0, 0)

    def look(self) -> bool:
        """Note a change of phase; whether to go on."""
        values = self._board.values
        phase = int(values[Board.PHASE])
        if phase != self._phase:
            if self._phase == 0:
                self._begin = cpu_ns(), self._taken_bytes()
            if phase == 2:
                values[Board.CPU_NS] = cpu_ns() - self._begin[0]
                values[Board.BYTES] = self._taken_bytes() - self._begin[1]
            self._phase = phase
        return phase < 2


class _Side:
    """An engine with its sockets; rounds follow each other as they become complete."""

    def __init__(
        self,
        kind: Kind,
        shape: Shape,
        incoming: socket.socket,
        to: Endpoint,
        board: Board,
        resend_bytes: int,
    ) -> None:
        self._mask = (1 << shape.senders) - 1
        self._kind = kind
        self._shape = shape
        self._board = board
        self._incoming = incoming
        self._outgoing = sending_socket(shape.size)
        self._to = to
        self._ring = ResendRing(
            max(2 * segments(shape.size), resend_bytes // shape.size), shape.size
        )
        own = EngineSettings(
            city=shape.senders,
            job_id=JOB_ID,
            epoch=1,
            start_ns=time.monotonic_ns(),
            layout=shape.layout,
            slots=shape.blocks,
            burst_datagrams=segments(shape.size),
            timeout_ns=_TIMEOUT_NS,
        )
        make = ReferenceEngine if kind == "reference" else NativeEngine
        self._engine: Engine = make(own, self._ring, self._send, _Scratch())
        self._round = 0
        self._closed_bytes = 0
        for k in range(LIVE_ROUNDS):
            self._engine.open_round(k, 0, self._mask)

    def run(self) -> None:
        meter = _Meter(self._board, self._taken_bytes)
        if isinstance(self._engine, NativeEngine) and self._kind == "native":
            buffer = np.zeros(1 << 16, np.uint8)
            sockets = serving_sockets(
                self._incoming, self._outgoing, self._to, segments(self._shape.size), buffer
            )
            while meter.look():
                until_ns = time.monotonic_ns() + _SLICE_NS
                if self._engine.serve(sockets, until_ns) is Served.DUE:
                    self._engine.take(buffer, sockets.length, sockets.segment, until_ns)
                    self._send()
                self._change_rounds()
        else:
            while meter.look():
                self._serve_calls(time.monotonic_ns() + _SLICE_NS)
                self._change_rounds()
        self._board.values[Board.REFUSED] = sum(self._engine.counters.drops.values())

    def _serve_calls(self, until_ns: int) -> None:
        into = [bytearray(1 << 16)]
        buffer = np.frombuffer(into[0], np.uint8)
        now_ns = 0
        while now_ns < until_ns:
            try:
                length, control, _, _ = self._incoming.recvmsg_into(into, 64)
            except BlockingIOError:
                return
            now_ns = time.monotonic_ns()
            segment = length
            for level, name, data in control:
                if level == _SOL_UDP and name == _UDP_GRO:
                    segment = int.from_bytes(data[:4], "little")
            self._engine.take(buffer, length, segment, now_ns)
            self._send()

    def _send(self) -> None:
        ring, most = self._ring, segments(self._shape.size)
        while ring.sent_seq < ring.next_seq:
            count = ring.run(ring.sent_seq, min(ring.next_seq - ring.sent_seq, most))
            self._outgoing.sendto(ring.view(ring.sent_seq, count), self._to)
            ring.sent_seq += count

    def _change_rounds(self) -> None:
        engine = self._engine
        while engine.progress(self._round).complete == self._shape.blocks:
            self._closed_bytes += engine.progress(self._round).datagrams * self._shape.size
            engine.close_round(self._round, time.monotonic_ns())
            engine.open_round(self._round + LIVE_ROUNDS, 0, self._mask)
            self._round += 1
            self._board.values[Board.ROUND] = self._round

    def _taken_bytes(self) -> int:
        live = range(self._round, self._round + LIVE_ROUNDS)
        datagrams = sum(self._engine.progress(k).datagrams for k in live)
        return self._closed_bytes + datagrams * self._shape.size


class _Bound:
    """Receives and adds in C; it looks up at the board after each buffer, too."""

    def __init__(self, shape: Shape, incoming: socket.socket, board: Board) -> None:
        library = load(ensure_library("bound", [Path(__file__).with_name("bound.c")], SOURCES))
        self._receive = library.bound_receive
        pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
        self._receive.argtypes = [
            ctypes.c_int,
            pointer,
            pointer,
            u32,
            u32,
            pointer,
            pointer,
            pointer,
        ]
        self._shape = shape
        self._incoming = incoming
        self._board = board
        self._rows = shape.held_blocks

    def run(self) -> None:
        board, shape = self._board, self._shape
        meter = _Meter(board, lambda: int(board.values[Board.DONE]) * shape.size)
        buffer = np.zeros(1 << 16, np.uint8)
        sums = np.zeros(self._rows * (shape.size - 56), np.uint8)
        phase = np.zeros(1, np.int64)
        while meter.look():
            phase[0] = board.values[Board.PHASE]
            error = self._receive(
                self._incoming.fileno(),
                buffer.ctypes.data,
                sums.ctypes.data,
                self._rows,
                shape.size,
                board.address(Board.DONE),
                board.address(Board.PHASE),
                phase.ctypes.data,
            )
            if error:
                raise OSError(error, os.strerror(error))

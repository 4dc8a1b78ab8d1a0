"""The measured process of the aggregator's benchmark: an engine, or the bound."""

import ctypes
import mmap
import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import numpy as np

from agents.aggregator.engine import Engine, EngineSettings, ReferenceEngine
from agents.aggregator.intake import serving_sockets
from agents.aggregator.native import NativeEngine
from agents.aggregator.ring import ResendRing
from agents.context import Endpoint
from agents.native.build import SOURCES
from agents.native.layout import BATCH, LARGEST_BUFFER
from agents.records import Recorder
from agents.reserve import reserve
from agents.wire import HEADER_BYTES
from benchmarks.aggregator_load import JOB_ID, PARTS, Shape, segments, sending_socket
from testbed.compiled import ensure_library, load

Kind = Literal["bound", "bound-batched", "native", "native-calls", "reference"]
KINDS: Final[tuple[Kind, ...]] = (
    "bound",
    "bound-batched",
    "native",
    "native-calls",
    "reference",
)
"""``bound`` receives a buffer with a call of the system, ``bound-batched`` as many at once as
``native`` does. ``native-calls`` receives and sends in Python, with one call of the kernel a
buffer."""

BOUNDS: Final = ("bound", "bound-batched")
_LONGEST_NS = 10_000_000_000
"""Of a round; and the time-out of its sums."""
_SOL_UDP: Final = 17
_UDP_GRO: Final = 104


class Gate:
    """Where the measured process waits until the beginning of a part lies in its socket.

    The processes must share the object by a fork.
    """

    _PARTS, _CPU_NS, _WAITS = range(3)
    _OPEN, _END = b"o", b"e"

    def __init__(self) -> None:
        self._values = np.frombuffer(mmap.mmap(-1, 4096), np.int64)
        self._read, self._write = os.pipe()

    def wait(self) -> bool:
        """Say that a part is done, and what it took; whether another one comes."""
        self._values[self._CPU_NS] = time.process_time_ns()
        self._values[self._WAITS] = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        self._values[self._PARTS] += 1
        return os.read(self._read, 1) == self._OPEN

    def open(self) -> None:
        """Let the measured process take a part."""
        os.write(self._write, self._OPEN)

    def end(self) -> None:
        """Let it end; the gate cannot be used any more."""
        os.write(self._write, self._END)
        os.close(self._write)
        os.close(self._read)

    def reached(self, parts: int) -> bool:
        """Whether it waits, with so many parts done."""
        return bool(self._values[self._PARTS] > parts)

    @property
    def cpu_ns(self) -> int:
        """User and system time that it had used when it came here."""
        return int(self._values[self._CPU_NS])

    @property
    def waits(self) -> int:
        """How often it had waited for anything until then."""
        return int(self._values[self._WAITS])


class _Scratch(Recorder):
    """Keeps one chunk of events and writes over it: a benchmark has no use for them."""

    def page(self, events: int) -> tuple[mmap.mmap, int]:
        chunk, used = super().page(events)
        self._full.clear()
        return chunk, used


def run_side(
    kind: Kind,
    shape: Shape,
    incoming: socket.socket,
    to: Endpoint,
    gate: Gate,
    *,
    resend_bytes: int,
) -> None:
    """Take part after part until the gate says that there is no more.

    Raises
    ------
    RuntimeError
        A part has not come completely.
    """
    if kind in BOUNDS:
        _Bound(shape, incoming, BATCH if kind == "bound-batched" else 1).run(gate)
    else:
        _Side(kind, shape, incoming, to, resend_bytes).run(gate)


class _Side:
    """An engine with its sockets."""

    def __init__(
        self,
        kind: Kind,
        shape: Shape,
        incoming: socket.socket,
        to: Endpoint,
        resend_bytes: int,
    ) -> None:
        self._mask = (1 << shape.senders) - 1
        self._kind = kind
        self._shape = shape
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
            timeout_ns=_LONGEST_NS,
        )
        make = ReferenceEngine if kind == "reference" else NativeEngine
        self._engine: Engine = make(own, self._ring, self._send, _Scratch())
        self._part = 0
        self._engine.open_round(0, 0, self._mask)

    def run(self, gate: Gate) -> None:
        engine, take = self._engine, self._calls
        if isinstance(engine, NativeEngine) and self._kind == "native":
            take = self._serving(engine)
        while gate.wait():
            take_whole(take, self._complete, self._shape.blocks)
            self._part += 1
            if self._part % PARTS == 0:
                engine.close_round(self._part // PARTS - 1, time.monotonic_ns())
                engine.open_round(self._part // PARTS, 0, self._mask)
        refused = engine.counters.drops
        if refused:
            raise RuntimeError(f"datagrams were refused: {dict(refused)}")

    def _complete(self) -> int:
        before = self._part % PARTS * self._shape.blocks
        return self._engine.progress(self._part // PARTS).complete - before

    def _serving(self, engine: NativeEngine) -> Callable[[], None]:
        """The kernel's own loop; it comes back when nothing is left."""
        sockets = serving_sockets(
            self._incoming, self._outgoing, self._to, segments(self._shape.size)
        )

        def serve() -> None:
            engine.serve(sockets, time.monotonic_ns() + _LONGEST_NS)

        return serve

    def _calls(self) -> None:
        into = [bytearray(1 << 16)]
        buffer = np.frombuffer(into[0], np.uint8)
        with suppress(BlockingIOError):
            while True:
                length, control, _, _ = self._incoming.recvmsg_into(into, 64)
                segment = length
                for level, name, data in control:
                    if level == _SOL_UDP and name == _UDP_GRO:
                        segment = int.from_bytes(data[:4], "little")
                self._engine.take(buffer, length, segment, time.monotonic_ns())
                self._send()

    def _send(self) -> None:
        ring, most = self._ring, segments(self._shape.size)
        while ring.sent_seq < ring.next_seq:
            count = ring.run(ring.sent_seq, min(ring.next_seq - ring.sent_seq, most))
            self._outgoing.sendto(ring.view(ring.sent_seq, count), self._to)
            ring.sent_seq += count


class _Bound:
    """Receives and adds in C."""

    def __init__(self, shape: Shape, incoming: socket.socket, batch: int) -> None:
        library = load(ensure_bound())
        self._receive = library.bound_receive
        pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
        self._receive.argtypes = [ctypes.c_int, pointer, u32, pointer, u32, u32]
        self._receive.restype = ctypes.c_int64
        self._shape = shape
        self._incoming = incoming
        # Of the same kind of memory as the engine's.
        pages = reserve(batch * LARGEST_BUFFER)
        self._buffers = np.frombuffer(pages, np.uint8).reshape(batch, LARGEST_BUFFER)
        rows, row_bytes = shape.held_blocks, shape.size - HEADER_BYTES
        self._sums = np.frombuffer(reserve(rows * row_bytes), np.uint8).reshape(rows, row_bytes)
        self._taken = 0

    def run(self, gate: Gate) -> None:
        while gate.wait():
            self._taken = 0
            take_whole(self._take, lambda: self._taken, self._shape.datagrams)

    def _take(self) -> None:
        taken = self._receive(
            self._incoming.fileno(),
            self._buffers.ctypes.data,
            len(self._buffers),
            self._sums.ctypes.data,
            len(self._sums),
            self._shape.size,
        )
        if taken < 0:
            raise OSError(-taken, os.strerror(-taken))
        self._taken += taken


def ensure_bound() -> Path:
    """The bound's library, compiled first if the cache does not hold it."""
    return ensure_library("bound", [Path(__file__).with_name("bound.c")], SOURCES)


def take_whole(
    take: Callable[[], None], came: Callable[[], int], sent: int, longest_s: float = 5.0
) -> None:
    """Take until all of a part has come: the senders may have been kept from sending.

    Raises
    ------
    RuntimeError
        Not all has come in time.
    """
    end = time.monotonic() + longest_s
    while True:
        take()
        if came() >= sent:
            return
        if time.monotonic() > end:
            raise RuntimeError(
                f"{came()} of {sent} of a part have come: the socket's buffer is too small; "
                "run as root, or with --buffers less"
            )

"""The structs of ``cq.h``, name by name, and the library's functions with their types."""

import ctypes
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np

from agents.bursts import Bytes
from agents.native.build import ensure_kernel_library
from agents.reserve import reserve
from agents.wire import HEADER_BYTES, MAX_SOURCES, Cause
from testbed.compiled import load
from testbed.errors import MachineError

_I64, _U64, _U32 = ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32
_POINTER: Final = ctypes.c_void_p
LIVE_ROUNDS: Final = 16
NONE: Final = 0xFFFFFFFF
LARGEST_BUFFER: Final = 1 << 16
BATCH: Final = 16
VECTOR_BYTES: Final = (64, 32)
"""What `Kernel.passes` knows."""
_MOST_DATAGRAMS: Final = LARGEST_BUFFER // HEADER_BYTES + 1


class Reject(IntEnum):
    """``enum cq_reject``: the names in lower case are the reasons."""

    SHORT = 0
    MAGIC = 1
    VERSION = 2
    TYPE = 3
    DTYPE = 4
    JOB = 5
    LENGTH = 6
    CRC = 7
    EPOCH = 8
    ROUND = 9
    BLOCK = 10
    CLIQUE = 11
    CONTRIBUTOR = 12
    DUPLICATE = 13
    OVERLAP = 14
    TRUNCATED = 15


class Policy(IntEnum):
    """``enum cq_policy``."""

    EVICT_OLD = 0
    FORWARD_NEW = 1
    PRIORITY = 2


class Want(IntEnum):
    """``enum cq_want``."""

    SENT = 0
    EVENTS = 1


class Served(IntEnum):
    """``enum cq_served``: why `Kernel.serve` came back."""

    DUE = 0
    """Buffers came when the time was over; they have not been taken."""
    IDLE = 1
    """Nothing came for a while, or a signal did."""
    FAILED = 2


SLOT_DTYPE = np.dtype(
    [
        ("first_ns", "<i8"),
        ("round", "<u4"),
        ("block", "<u4"),
        ("kept", "<u4"),
        ("first_row", "<u4"),
        ("last_row", "<u4"),
        ("older", "<u4"),
        ("newer", "<u4"),
        ("unused", "<u4"),
    ]
)
"""``struct cq_slot``."""

ROW_DTYPE = np.dtype(
    [("bitmap", "<u8"), ("next", "<u4"), ("exponent", "<i2"), ("flags", "u1"), ("unused", "u1")]
)
"""``struct cq_row``."""


class Round(ctypes.Structure):
    """``struct cq_round``."""

    _fields_ = (
        *((name, _POINTER) for name in ("seen", "emitted")),
        *((name, _U64) for name in ("mask", "contributions", "complete")),
        *((name, _U64) for name in ("datagrams", "wire_bytes")),
        *((name, _U64) for name in ("sent_datagrams", "sent_bytes")),
        *((name, _U32) for name in ("index", "clique")),
    )


class Burst(ctypes.Structure):
    """``struct cq_burst``."""

    _fields_ = (
        ("bitmap", _U64),
        *((name, _U32) for name in ("round", "block", "count", "cause")),
    )


WANT_FUNCTION: Final = ctypes.CFUNCTYPE(None, _POINTER, ctypes.c_int)


class EngineState(ctypes.Structure):
    """``struct cq_engine``."""

    _fields_ = (
        *((name, _U32) for name in ("blocks", "elements", "last_elements", "element_bytes")),
        *((name, _U32) for name in ("job_id", "epoch", "source", "dtype")),
        *((name, _I64) for name in ("start_ns", "timeout_ns")),
        *((name, _U32) for name in ("sets", "ways", "rows", "mixes", "policy")),
        *((name, _U32) for name in ("holds", "ordered")),
        *((name, _U32) for name in ("occupied", "high_water", "untouched", "freed")),
        *((name, _U32) for name in ("oldest", "newest", "pitch")),
        *((name, _POINTER) for name in ("slots", "row", "memory", "free_rows", "scratch")),
        ("passes", _POINTER),
        ("live", Round * LIVE_ROUNDS),
        ("epoch_known", _U64),
        ("epoch_of", _U32 * MAX_SOURCES),
        *((name, _POINTER) for name in ("ring", "sizes", "sent_ns")),
        *((name, _U64) for name in ("next_seq", "sent_seq")),
        *((name, _U32) for name in ("ring_rows", "row_bytes", "send_at", "takes_sums")),
        ("want", WANT_FUNCTION),
        *((name, _POINTER) for name in ("wants", "events")),
        *((name, _U32) for name in ("events_used", "events_room")),
        ("burst", Burst),
        ("rejects", _U64 * len(Reject)),
        ("emitted", _U64 * len(Cause)),
        *((name, _U64) for name in ("late", "saturated", "nonfinite")),
        *((name, _U32 * _MOST_DATAGRAMS) for name in ("valid", "valid_size")),
    )


class Received(ctypes.Structure):
    """``struct cq_received``."""

    _fields_ = tuple((name, _U32) for name in ("buffer", "length", "segment"))


class Sockets(ctypes.Structure):
    """``struct cq_sockets``, with its buffers."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("incoming", "outgoing")),
        *((name, _U32) for name in ("ip", "port", "most_segments", "overflow")),
        ("error", ctypes.c_int32),
        ("count", _U32),
        ("received", Received * BATCH),
        ("buffers", _POINTER),
    )

    def __init__(self, **fields: int) -> None:
        super().__init__(**fields)
        # Whole pages: the kernel copies faster to where a line of the cache begins.
        memory = np.frombuffer(reserve(BATCH * LARGEST_BUFFER), np.uint8)
        self.memory = memory.reshape(BATCH, LARGEST_BUFFER)
        self.buffers = self.memory.ctypes.data

    def left(self) -> list[tuple[Bytes, int, int]]:
        """The buffers that are left to the caller: each with its length and its segments'."""
        return [
            (self.memory[came.buffer], came.length, came.segment)
            for came in self.received[: self.count]
        ]


class Kernel:
    """The compiled functions; built on first use.

    Raises
    ------
    MachineError
        The library cannot be built or loaded, or its struct differs from ours.
    """

    def __init__(self) -> None:
        library = load(ensure_kernel_library())
        state = ctypes.POINTER(EngineState)
        self.take = library.cq_take
        self.take.argtypes = [state, _POINTER, _U32, _U32, _I64]
        self.expire = library.cq_expire
        self.expire.argtypes = [state, _I64]
        self.flush_round = library.cq_flush_round
        self.flush_round.argtypes = [state, _U32, _I64]
        for function in (self.take, self.expire, self.flush_round):
            function.restype = None
        self.next_timeout = library.cq_next_timeout
        self.next_timeout.argtypes = [state]
        self.next_timeout.restype = _I64
        self.serve = library.cq_serve
        self.serve.argtypes = [state, ctypes.POINTER(Sockets), _I64]
        theirs, ours = library.cq_engine_bytes(), ctypes.sizeof(EngineState)
        if theirs != ours:
            raise MachineError(f"the compiled kernel's state has {theirs} bytes, ours {ours}")
        self.passes = library.cq_pass
        self.passes.argtypes = [_U32]
        self.passes.restype = _POINTER
        self.crc32c = library.cq_crc32c
        self.crc32c_by_table = library.cq_crc32c_by_table
        for function in (self.crc32c, self.crc32c_by_table):
            function.argtypes = [_U32, _POINTER, ctypes.c_size_t]
            function.restype = _U32


@cache
def kernel() -> Kernel:
    """The functions, loaded once in a process and those that it forks.

    Raises
    ------
    MachineError
        As `Kernel` does.
    """
    return Kernel()

"""The structs of ``cq.h``, name by name, and the library's functions with their types."""

import ctypes
from enum import IntEnum
from typing import Final

import numpy as np

from agents.native.build import ensure_kernel_library, load
from testbed.errors import MachineError

_I64, _U64, _U32 = ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32
_POINTER: Final = ctypes.c_void_p
_CAUSES: Final = 6
_MOST_DATAGRAMS: Final = (1 << 16) // 56 + 1
NONE: Final = 0xFFFFFFFF
LARGEST_BUFFER: Final = 1 << 16


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
    ROUND = 8
    BLOCK = 9
    CLIQUE = 10
    CONTRIBUTOR = 11
    DUPLICATE = 12
    OVERLAP = 13
    TRUNCATED = 14


class Result(IntEnum):
    """``enum cq_result``."""

    DONE = 0
    RING_FULL = 1
    EVENTS_FULL = 2
    IDLE = 3
    FAILED = 4


class Policy(IntEnum):
    """``enum cq_policy``."""

    EVICT_OLD = 0
    FORWARD_NEW = 1
    PRIORITY = 2


SLOT_DTYPE = np.dtype(
    [
        ("bitmap", "<u8"),
        ("first_ns", "<i8"),
        ("round", "<u4"),
        ("block", "<u4"),
        ("row", "<u4"),
        ("older", "<u4"),
        ("newer", "<u4"),
        ("exponent", "<i2"),
        ("flags", "u1"),
        ("unused", "u1"),
    ]
)
"""``struct cq_slot``."""

ROUND_DTYPE = np.dtype(
    [
        ("seen", "<u8"),
        ("emitted", "<u8"),
        ("mask", "<u8"),
        ("contributions", "<u8"),
        ("complete", "<u8"),
        ("datagrams_in", "<u8"),
        ("bytes_in", "<u8"),
        ("datagrams_out", "<u8"),
        ("bytes_out", "<u8"),
        ("clique", "<u4"),
        ("unused", "<u4"),
    ]
)
"""``struct cq_round``; ``seen`` and ``emitted`` are addresses."""


class Burst(ctypes.Structure):
    """``struct cq_burst``."""

    _fields_ = (("bitmap", _U64), ("round", _U32), ("block", _U32), ("count", _U32), ("cause", _U32))


class EngineState(ctypes.Structure):
    """``struct cq_engine``."""

    _fields_ = (
        *((name, _U32) for name in ("rounds", "blocks", "elements", "last_elements")),
        *((name, _U32) for name in ("job_id", "epoch", "source", "dtype")),
        *((name, _I64) for name in ("start_ns", "timeout_ns")),
        *((name, _U32) for name in ("sets", "ways", "rows", "mixes", "policy")),
        *((name, _U32) for name in ("occupied", "high_water", "untouched", "freed")),
        *((name, _U32) for name in ("oldest", "newest")),
        *((name, _POINTER) for name in ("slots", "arena", "free_rows", "round_of")),
        *((name, _POINTER) for name in ("ring", "sizes", "sent_ns")),
        *((name, _U64) for name in ("next_seq", "sent_seq")),
        *((name, _U32) for name in ("ring_rows", "row_bytes", "burst_limit")),
        *((name, _U32) for name in ("events_used", "events_room")),
        ("events", _POINTER),
        ("burst", Burst),
        ("rejects", _U64 * len(Reject)),
        ("emitted", _U64 * _CAUSES),
        *((name, _U64) for name in ("late", "saturated", "nonfinite")),
        *((name, _U32) for name in ("cursor", "valid_count", "run_begin", "run_end")),
        ("valid", _U32 * _MOST_DATAGRAMS),
        ("valid_size", _U32 * _MOST_DATAGRAMS),
    )


class Sockets(ctypes.Structure):
    """``struct cq_sockets``."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("incoming", "outgoing")),
        *((name, _U32) for name in ("ip", "port", "most_segments", "overflow")),
        *((name, ctypes.c_int32) for name in ("error", "unused")),
        ("buffers", _U64),
        ("buffer", _POINTER),
    )


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
        self.resume = library.cq_resume
        self.resume.argtypes = [state, _POINTER, _I64]
        self.expire = library.cq_expire
        self.expire.argtypes = [state, _I64]
        self.flush_round = library.cq_flush_round
        self.flush_round.argtypes = [state, _U32, _I64]
        self.end_burst = library.cq_end_burst
        self.end_burst.argtypes = [state, _I64]
        self.end_burst.restype = None
        self.next_timeout = library.cq_next_timeout
        self.next_timeout.argtypes = [state]
        self.next_timeout.restype = _I64
        self.serve = library.cq_serve
        self.serve.argtypes = [state, ctypes.POINTER(Sockets), _I64]
        theirs, ours = library.cq_engine_bytes(), ctypes.sizeof(EngineState)
        if theirs != ours:
            raise MachineError(f"the compiled kernel's state has {theirs} bytes, ours {ours}")
        self.crc32c = library.cq_crc32c
        self.crc32c_by_table = library.cq_crc32c_by_table
        for function in (self.crc32c, self.crc32c_by_table):
            function.argtypes = [_U32, _POINTER, ctypes.c_size_t]
            function.restype = _U32

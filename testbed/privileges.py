"""What a process gives up that it does not need: capabilities(7), prctl(2), capset(2)."""

import ctypes
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from testbed.libc import check, libc

_PR_CAPBSET_READ: Final = 23
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_VERSION_3: Final = 0x20080522


class Capability(IntEnum):
    """The capabilities that something of ours keeps (linux/capability.h)."""

    DAC_OVERRIDE = 1
    """To read and write a run's files whoever owns them: under ``sudo``, the calling user."""
    DAC_READ_SEARCH = 2
    SETPCAP = 8
    """To give up what programs that are started later could gain."""
    NET_ADMIN = 12
    """For socket buffers beyond the system's limit."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def has(capability: Capability) -> bool:
    """Whether this process may do something.

    Raises
    ------
    OSError
        The kernel does not tell.
    """
    _, sets = _read()
    return _holds(sets, capability)


def keep_only(capabilities: Iterable[Capability]) -> None:
    """Give up all other capabilities of this process for good, and those of set-user-ID programs.

    What it does not have is not gained; without privileges only the last part has an effect.
    The process must be single-threaded.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    prctl = libc().prctl
    wanted = sum(1 << capability for capability in set(capabilities))
    check(prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges")
    header, sets = _read()
    if _holds(sets, Capability.SETPCAP):
        number = 0
        while prctl(_PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
            if not wanted >> number & 1:
                check(prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), f"drop capability {number}")
            number += 1
    for i, part in enumerate(sets):
        part.permitted &= wanted >> 32 * i
        part.effective &= part.permitted
        part.inheritable = 0
    check(libc().capset(ctypes.byref(header), sets), "give up capabilities")


def _holds(sets: "ctypes.Array[_Sets]", capability: Capability) -> bool:
    return bool(sets[capability // 32].effective >> capability % 32 & 1)


def _read() -> "tuple[_Header, ctypes.Array[_Sets]]":
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    check(libc().capget(ctypes.byref(header), sets), "read the capabilities")
    return header, sets

"""Calls of the C library that Python has no function for."""

import ctypes
import os


def libc() -> ctypes.CDLL:
    """The C library of this process, with `errno` kept after each call."""
    return ctypes.CDLL(None, use_errno=True)


def check(status: int, what: str) -> None:
    """Look at what the last call returned.

    Raises
    ------
    OSError
        It is not 0: the call failed; ``what`` says which in the message.
    """
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")

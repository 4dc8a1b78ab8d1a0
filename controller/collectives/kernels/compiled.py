"""Compilation of the inner loops: on first call, kept in the user's cache.

The cache's folder is named after the sources of all kernels: numba itself notices a change
of the outermost function's file only.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

from testbed.paths import cache_dir, give_to_caller, make_dir

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Mark a function that is compiled when it is first called."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return _compile(function)(*args)

    return cast(Function, call)


def helper(function: Function) -> Function:
    """Mark a function that kernels call; it is compiled into them."""
    return cast(Function, register_jitable(function))


@functools.cache
def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    folder = make_dir(cache_dir() / "numba" / _fingerprint())
    numba.config.CACHE_DIR = str(folder)
    compiled = numba.njit(cache=True, nogil=True)(function)

    def call(*args: Any) -> Any:
        known = len(compiled.signatures)
        result = compiled(*args)
        if len(compiled.signatures) > known:
            give_to_caller(folder)
        return result

    return call


@functools.cache
def _fingerprint() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]

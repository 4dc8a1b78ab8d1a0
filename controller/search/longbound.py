"""A bound on T (A + ½) for rotations of any length, from what a few rounds in a row can do.

Ours. Let the slowest round of a rotation take T. All its rounds take at most T,
so A is at least what windows of such rounds allow (`controller.search.windows`):
windows of two rounds first, and longer ones where those do not suffice. T is
taken in steps, and each step counts with its lower end.
"""

import time

import numpy as np
import numpy.typing as npt

from controller.search.local import Pool
from controller.search.roundtimes import RoundTimes
from controller.search.windows import Windows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STEP = 1.01
# Window lengths to try, with the most rounds that each is worth trying on.
_LONGER = ((4, 2_000), (5, 1_200), (6, 400))
_PATIENCE_S = 8.0


def bound_long(times: RoundTimes, pool: Pool, known_ms: float, *, deadline: float) -> float:
    """Bound the objective of all rotations from below, in ms.

    Parameters
    ----------
    times, pool
        Round times, and all partitions.
    known_ms
        Objective of the best rotation that is known; the bound is at most that.
    deadline
        Value of the monotonic clock after which only cheap bounds are used.
    """
    lower_ms = pool.lower_ms.copy()
    windows = Windows(pool)
    least_ms = known_ms
    low_ms = float(lower_ms.min())
    while low_ms * 1.5 < least_ms:
        high_ms = low_ms * _STEP
        allowed = np.flatnonzero(lower_ms <= high_ms)
        cap = least_ms / low_ms - 1.5
        if windows.two(allowed) < cap and time.monotonic() < deadline:
            _refine(times, pool, lower_ms, high_ms)
            low_ms = max(low_ms, float(lower_ms[lower_ms >= low_ms].min()))
            high_ms = low_ms * _STEP
            _refine(times, pool, lower_ms, high_ms)
            allowed = np.flatnonzero(lower_ms <= high_ms)
            cap = least_ms / low_ms - 1.5
        left = _least_left(windows, allowed, cap, deadline)
        least_ms = min(least_ms, low_ms * (1.5 + left))
        above = lower_ms[lower_ms > high_ms]
        if not len(above):
            break
        low_ms = float(above.min())
    return least_ms


def _least_left(windows: Windows, allowed: Ints, cap: float, deadline: float) -> float:
    """Bound A − 1 for rotations of some rounds; no further than the cap."""
    if not windows.mixes(allowed):
        return cap
    left = min(windows.two(allowed), cap)
    if left < cap:
        left = windows.three(allowed, cap, deadline)
    for length, most in _LONGER:
        if left < cap and len(allowed) <= most:
            until = min(deadline, time.monotonic() + _PATIENCE_S)
            left = max(left, windows.longer(allowed, length, cap, until))
    return left


def _refine(times: RoundTimes, pool: Pool, lower_ms: Floats, high_ms: float) -> None:
    """Prove of as many rounds as possible that they take longer than a time."""
    for index in np.flatnonzero(lower_ms <= high_ms).tolist():
        found = times.evaluate(pool.row(index), limit_ms=high_ms)
        lower_ms[index] = max(lower_ms[index], found.lower_ms)

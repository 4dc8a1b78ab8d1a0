"""A bound on T (A + ½) for rotations of any length, from what three rounds in a row can do.

Ours. Let the slowest round of a rotation take T. All its rounds take at most T,
and A − 1 ≥ mean over s of S₁(s) + S₂(s) + S₃(s), where S_n(s) is what n rounds
from round s on leave of a disagreement. Spread evenly over the windows of three
successive rounds i, j, k, the mean is at least the least over all windows of
(S₁(i) + S₁(j) + S₁(k)) / 3 + (S₂(ij) + S₂(jk)) / 2 + S₃(ijk). A coarser round at
either end of a window never leaves more, so the ends need only be rounds that
no other round in time is coarser than. T is taken in steps.
"""

import math
import time

import numpy as np
import numpy.typing as npt

from controller.search.local import Pool
from controller.search.roundtimes import RoundTimes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STEP = 1.015
_CHUNK = 500


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
    windows = _Windows(pool)
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
        left = windows.two(allowed)
        if left < cap:
            left = windows.three(allowed, cap, deadline)
            least_ms = min(least_ms, low_ms * (1.5 + max(left, 0.0)))
        above = lower_ms[lower_ms > high_ms]
        if not len(above):
            break
        low_ms = float(above.min())
    return least_ms


def _refine(times: RoundTimes, pool: Pool, lower_ms: Floats, high_ms: float) -> None:
    """Prove of as many rounds as possible that they take longer than a time."""
    for index in np.flatnonzero(lower_ms <= high_ms).tolist():
        found = times.evaluate(pool.row(index), limit_ms=high_ms)
        lower_ms[index] = max(lower_ms[index], found.lower_ms)


class _Windows:
    """What is left of a disagreement after windows of two and three rounds."""

    def __init__(self, pool: Pool) -> None:
        self.islands = pool.labels.shape[1]
        self.scale = math.sqrt(self.islands - 1)
        self.flat = pool.flat
        self.same = (pool.flat > 0).astype(np.float32)
        self.size = self.same.sum(axis=1)
        trace = pool.flat[:, :: self.islands + 1].sum(axis=1)
        self.once = np.sqrt(np.maximum(trace - 1, 0.0)) / self.scale

    def coarsest(self, allowed: Ints) -> Ints:
        """Rounds that no other allowed one is coarser than."""
        kept: list[Ints] = []
        order = allowed[np.argsort(-self.size[allowed], kind="stable")]
        for start in range(0, len(order), _CHUNK):
            fresh = order[start : start + _CHUNK]
            rivals = np.concatenate([*kept, fresh])
            inside = self.same[fresh] @ self.same[rivals].T == self.size[fresh][:, None]
            covered = (inside & (self.size[rivals] > self.size[fresh][:, None])).any(axis=1)
            kept.append(fresh[~covered])
        return np.concatenate(kept)

    def two(self, allowed: Ints) -> float:
        """Least of S₁ + S₂ over windows of two rounds."""
        ends = self.coarsest(allowed)
        least = math.inf
        for start in range(0, len(ends), _CHUNK):
            rows = ends[start : start + _CHUNK]
            means = (self.once[rows][:, None] + self.once[ends][None, :]) / 2
            least = min(least, float((means + self._left(self.flat[rows], ends)).min()))
        return least

    def three(self, allowed: Ints, cap: float, deadline: float) -> float:
        """Least of S₁ + S₂ + S₃ over windows of three rounds, or the cap if that is less."""
        ends = self.coarsest(allowed)
        shape = (-1, self.islands, self.islands)
        least = cap
        for start in range(0, len(allowed), _CHUNK):
            middles = allowed[start : start + _CHUNK]
            sides = self._left(self.flat[middles], ends) / 2 + self.once[ends] / 3
            nearest = sides.min(axis=1)
            for row, middle in enumerate(middles.tolist()):
                own = self.once[middle] / 3
                near = sides[row] + nearest[row] + own < least
                if not near.any():
                    continue
                if time.monotonic() > deadline:
                    return min(least, self.two(allowed))
                side = sides[row][near]
                matrix = self.flat[middle].reshape(self.islands, self.islands)
                turned = matrix @ self.flat[ends[near]].reshape(shape) @ matrix
                left = self._left(turned.reshape(len(turned), -1), ends[near])
                least = min(least, float((left + side[:, None] + side[None, :]).min() + own))
        return least

    def _left(self, flat: Floats, others: Ints) -> Floats:
        """‖product − J‖ / √(N − 1), from the inner products with other rounds."""
        left: Floats = np.sqrt(np.maximum(flat @ self.flat[others].T - 1, 0.0)) / self.scale
        return left

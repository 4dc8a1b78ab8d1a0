"""What is left of a disagreement after a few rounds in a row: least values over many rounds.

Ours. In a rotation A − 1 = mean over s of Σ_n S_n(s), where S_n(s) is what n
rounds from round s on leave. Spread each S_n evenly over the windows of K
successive rounds that contain them: then A − 1 is at least the least over all
windows of Σ_n (mean of S_n inside the window), n = 1 … K. A coarser round at
either end of a window never leaves more, so the ends need only be rounds that
no other one is coarser than.
"""

import math
import time

import numpy as np
import numpy.typing as npt

from controller.search.local import Pool

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CHUNK = 500
_PREFIXES = 3_000


class Windows:
    """Windows of rounds from a pool.

    Parameters
    ----------
    pool
        All rounds.
    """

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
            least = min(least, float((means + self.left_of(self.flat[rows], ends)).min()))
        return least

    def three(self, allowed: Ints, cap: float, deadline: float) -> float:
        """Least of S₁ + S₂ + S₃ over windows of three rounds, or the cap if that is less."""
        ends = self.coarsest(allowed)
        shape = (-1, self.islands, self.islands)
        least = cap
        for start in range(0, len(allowed), _CHUNK):
            middles = allowed[start : start + _CHUNK]
            sides = self.left_of(self.flat[middles], ends) / 2 + self.once[ends] / 3
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
                left = self.left_of(turned.reshape(len(turned), -1), ends[near])
                least = min(least, float((left + side[:, None] + side[None, :]).min() + own))
        return least

    def left_of(self, flat: Floats, others: Ints) -> Floats:
        """‖product − J‖ / √(N − 1), from the inner products with other rounds."""
        left: Floats = np.sqrt(np.maximum(flat @ self.flat[others].T - 1, 0.0)) / self.scale
        return left

    def mixes(self, allowed: Ints) -> bool:
        """Whether all islands hear of each other through some of the rounds."""
        reach = self.same[allowed].any(axis=0).reshape(self.islands, self.islands)
        for _ in range(self.islands.bit_length()):
            reach = reach @ reach
        return bool(reach.all())

    def longer(self, allowed: Ints, length: int, cap: float, deadline: float) -> float:
        """Least over windows of some length, or the cap if that is less.

        Windows grow round by round; those that cannot stay below the least known
        value are dropped. Past the deadline nothing is known: minus infinity.
        """
        ends = self.coarsest(allowed)
        floor = [float(self.once[ends].min()), 0.0]
        pairs = self.left_of(self.flat[ends], ends)
        floor[1] = float(pairs.min())
        search = _Longer(self, allowed, ends, length, floor, deadline)
        search.least = cap
        products = self.flat[ends].reshape(-1, 1, self.islands, self.islands)
        search.grow(products, self.once[ends] / length)
        return -math.inf if search.stopped else search.least


class _Longer:
    """Depth-first search over windows, many at a time."""

    def __init__(
        self,
        windows: Windows,
        allowed: Ints,
        ends: Ints,
        length: int,
        floor: list[float],
        deadline: float,
    ) -> None:
        self.windows, self.length, self.deadline = windows, length, deadline
        self.steps = [allowed] * (length - 2) + [ends]
        self.floor = floor
        self.least = math.inf
        self.stopped = False

    def grow(self, products: Floats, cost: Floats) -> None:
        """Add one round to windows; ``products[:, n]`` is that of their last n + 1 rounds."""
        done = products.shape[1]
        choices = self.steps[done - 1]
        islands = self.windows.islands
        for start in range(0, len(cost), _CHUNK):
            part = products[start : start + _CHUNK]
            total = cost[start : start + _CHUNK, None] + (
                self.windows.once[choices][None, :] / self.length
            )
            for n in range(done):
                grams = part[:, n] @ part[:, n].transpose(0, 2, 1)
                left = self.windows.left_of(grams.reshape(len(part), -1), choices)
                total = total + left / (self.length - n - 1)
            if done + 1 == self.length:
                self.least = min(self.least, float(total.min(initial=math.inf)))
                continue
            rows, columns = np.nonzero(total + self._rest(done + 1) < self.least)
            order = np.argsort(total[rows, columns], kind="stable")
            for first in range(0, len(order), _PREFIXES):
                if self.stopped or time.monotonic() > self.deadline:
                    self.stopped = True
                    return
                some = order[first : first + _PREFIXES]
                added = self.windows.flat[choices[columns[some]]].reshape(-1, 1, islands, islands)
                grown = np.concatenate([added, added @ part[rows[some]]], axis=1)
                self.grow(grown, total[rows[some], columns[some]])

    def _rest(self, done: int) -> float:
        """Least that the rounds still to come add: terms of one and two rounds."""
        missing = self.length - done
        return missing * (self.floor[0] / self.length + self.floor[1] / (self.length - 1))

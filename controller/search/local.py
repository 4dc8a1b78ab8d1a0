"""Local search over rotations: one round at a time, bounds before exact values.

Ours. A rotation is improved by exchanging one round for the best of a pool: all
partitions for up to nine islands, neighbours of the present round and of other
rounds beyond that. Three sieves come before the exact round time: the cut bound
on T with the first two terms of A, then A itself, then whether the round can
end in time at all.

Everything is a function of the start and the seed. Caches only save time, so
the answer does not depend on which process has seen what before.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.search.candidates import relabel
from controller.search.front import Point, pareto
from controller.search.lifetimes import rms_lifetimes
from controller.search.partitions import Labels, all_partitions, averaging_stack, neighbours
from controller.search.roundtimes import RoundTimes

Floats = npt.NDArray[np.float64]

MAX_POOLED = 9
"""Up to so many islands all partitions are tried."""

_MAX_LIFETIME = 60.0
_WIDTH = 400
_NEIGHBOURS = 120
_TRIES = 40
_KEPT = 200
_SWAPS = 40


@dataclass(frozen=True)
class Pool:
    """Rounds to choose from.

    Attributes
    ----------
    labels
        Shape (rounds, islands).
    lower_ms
        Bound on the time of each.
    flat
        Averaging matrices, one a row.
    """

    labels: npt.NDArray[np.int8]
    lower_ms: Floats
    flat: Floats

    def row(self, index: int) -> Labels:
        """Labels of one round."""
        return tuple(self.labels[index].tolist())


class Searcher:
    """Improves rotations on one network.

    Parameters
    ----------
    times
        Round times of the network.
    pool
        All rounds there are, or ``None`` if they are too many.
    weight
        c of the objective T (A + c); ½ is the paper's.
    deadline
        Value of the monotonic clock at which to stop.
    """

    def __init__(
        self, times: RoundTimes, pool: Pool | None, *, weight: float, deadline: float
    ) -> None:
        self.times, self.pool = times, pool
        self.weight, self.deadline = weight, deadline
        self.count = len(times.topology.cities)
        self.points: dict[tuple[Labels, ...], Point] = {}

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.deadline

    def cost_ms(self, point: Point) -> float:
        """T (A + c)."""
        return point.t_ms * (point.lifetime + self.weight)

    def measure(self, rounds: tuple[Labels, ...]) -> Point:
        """Find T and A of a rotation, and remember it for the front."""
        t_ms = max(self.times.evaluate(labels).t_ms for labels in rounds)
        stack = averaging_stack(np.array(rounds, dtype=np.int8))[None]
        point = Point(t_ms, float(rms_lifetimes(stack, _MAX_LIFETIME)[0]), rounds)
        self._keep(point)
        return point

    def front(self) -> list[Point]:
        """What is worth reporting: the points that no other one beats."""
        finite = [p for p in self.points.values() if math.isfinite(p.t_ms * p.lifetime)]
        return list(pareto(finite))

    def assign(self, point: Point, rng: np.random.Generator) -> Point:
        """Exchange two cities in all rounds for as long as that makes T smaller."""
        swaps = [(i, j) for i in range(self.count) for j in range(i)]
        improved = True
        while improved:
            improved = False
            # Of many exchanges only some can be tried in each pass.
            for k in rng.permutation(len(swaps))[:_SWAPS].tolist():
                if self.late:
                    return point
                better = self._swapped(point, *swaps[k])
                improved = improved or better is not point
                point = better
        return point

    def _swapped(self, point: Point, i: int, j: int) -> Point:
        """Rotation with two cities exchanged, if it is faster; else the same object."""
        order = list(range(self.count))
        order[i], order[j] = j, i
        rounds = tuple(relabel(labels, order) for labels in point.rounds)
        if max(self.times.lower_ms(labels) for labels in rounds) >= point.t_ms - 1e-6:
            return point
        t_ms = self._time_within(rounds, point.t_ms)
        if t_ms >= point.t_ms - 1e-6:
            return point
        found = Point(t_ms, point.lifetime, rounds)
        self._keep(found)
        return found

    def improve(self, point: Point, rng: np.random.Generator) -> Point:
        """Exchange round after round for a better one until none is better."""
        # A single round that is repeated only mixes if all take part in it.
        unchanged, position = 0 if len(point.rounds) > 1 else 1, 0
        while unchanged < len(point.rounds) and not self.late:
            better = self._exchange(point, position, self._pool(point, position, rng))
            unchanged = 0 if better is not point else unchanged + 1
            point, position = better, (position + 1) % len(point.rounds)
        return point

    def _exchange(self, point: Point, position: int, pool: Pool) -> Point:
        """Best rotation that differs in one round; the same object if none is better."""
        rest = [labels for s, labels in enumerate(point.rounds) if s != position]
        rest_ms = max((self.times.evaluate(labels).t_ms for labels in rest), default=0.0)
        lower_ms = np.maximum(pool.lower_ms, rest_ms)
        limit_ms = self.cost_ms(point) if math.isfinite(point.lifetime) else math.inf
        bound = lower_ms * (self._first_terms(point, position, pool) + self.weight)
        order = np.argsort(bound, kind="stable")[:_WIDTH]
        order = order[bound[order] < limit_ms - 1e-6]
        if not len(order):
            return point
        stacks = self._with_each(point, position, pool, order)
        most = min(_MAX_LIFETIME, limit_ms / max(float(lower_ms[order].min()), 1e-9) - self.weight)
        lifetimes = rms_lifetimes(stacks, most)
        cost = lower_ms[order] * (lifetimes + self.weight)
        best = point
        for k in np.argsort(cost, kind="stable")[:_TRIES].tolist():
            if cost[k] >= limit_ms - 1e-6 or self.late:
                break
            labels = pool.row(int(order[k]))
            allowed_ms = limit_ms / (lifetimes[k] + self.weight)
            t_ms = max(rest_ms, self.times.evaluate(labels, limit_ms=allowed_ms).t_ms)
            rounds = (*point.rounds[:position], labels, *point.rounds[position + 1 :])
            found = Point(t_ms, float(lifetimes[k]), rounds)
            if math.isfinite(t_ms):
                self._keep(found)
            if self.cost_ms(found) < limit_ms - 1e-6:
                best, limit_ms = found, self.cost_ms(found)
        return best

    def _first_terms(self, point: Point, position: int, pool: Pool) -> Floats:
        """1 + S(1) + S(2) with each round of the pool in the place of one."""
        period = len(point.rounds)
        matrices = averaging_stack(np.array(point.rounds, dtype=np.int8))
        matrices = matrices.reshape(period, -1)
        trace = pool.flat.reshape(-1, self.count, self.count).trace(axis1=1, axis2=2)
        once = np.sqrt(np.maximum(trace - 1, 0.0))
        twice = np.zeros(len(trace))
        for s in range(period):
            after = (s + 1) % period
            if s != position:
                own = matrices[s].reshape(self.count, self.count).trace()
                once = once + math.sqrt(max(own - 1, 0.0))
            if period == 1:
                together = trace
            elif position in (s, after):
                together = pool.flat @ matrices[after if s == position else s]
            else:
                together = np.full(len(trace), matrices[s] @ matrices[after])
            twice = twice + np.sqrt(np.maximum(together - 1, 0.0))
        terms: Floats = 1 + (once + twice) / (period * math.sqrt(self.count - 1))
        return terms

    def _with_each(
        self, point: Point, position: int, pool: Pool, order: npt.NDArray[np.int64]
    ) -> Floats:
        own = averaging_stack(np.array(point.rounds, dtype=np.int8))
        stacks = np.repeat(own[None], len(order), axis=0)
        stacks[:, position] = pool.flat[order].reshape(-1, self.count, self.count)
        return stacks

    def _pool(self, point: Point, position: int, rng: np.random.Generator) -> Pool:
        if self.pool is not None:
            return self.pool
        near = list(neighbours(point.rounds[position], rng, _NEIGHBOURS))
        for labels in point.rounds:
            near += neighbours(labels, rng, _NEIGHBOURS // 4)
        return make_pool(self.times, np.array(near, dtype=np.int8))

    def _time_within(self, rounds: Sequence[Labels], limit_ms: float) -> float:
        worst_ms = 0.0
        for labels in rounds:
            worst_ms = max(worst_ms, self.times.evaluate(labels, limit_ms=limit_ms).t_ms)
            if worst_ms >= limit_ms:
                break
        return worst_ms

    def _keep(self, point: Point) -> None:
        self.points[point.rounds] = point
        if len(self.points) > _KEPT:
            self.points = {p.rounds: p for p in self.front()}


def make_pool(times: RoundTimes, labels: npt.NDArray[np.int8]) -> Pool:
    """Prepare rounds for the search."""
    stack = averaging_stack(labels)
    return Pool(labels, times.cuts.lower_ms(labels), stack.reshape(len(labels), -1))


def full_pool(times: RoundTimes) -> Pool | None:
    """All partitions of the islands, or ``None`` if they are too many."""
    count = len(times.topology.cities)
    return make_pool(times, all_partitions(count)) if count <= MAX_POOLED else None

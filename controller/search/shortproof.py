"""Proof for rotations of one and two rounds: all of them are gone through.

Ours. For up to nine islands all partitions are listed. Pairs of rounds whose
bounds on T and A already make T (A + ½) too large are dropped unseen; the rest
is settled with exact values. It holds for one tree per stream and one constant
rate per stream.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.search.lifetimes import rms_lifetimes, two_round_bounds
from controller.search.local import Pool
from controller.search.partitions import Labels
from controller.search.roundtimes import GAP_MS, RoundTimes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CHUNK = 250
_BATCH = 4_000
_STEPS = (400, 4_000, 40_000)
# Relative: below this two objectives count as equal.
_SAME = 1e-4


@dataclass(frozen=True)
class ShortProof:
    """Outcome for rotations of one or two rounds.

    Attributes
    ----------
    lower_ms
        No such rotation has a smaller T (A + ½).
    rounds
        The best of them, if one was found below the known objective.
    objective_ms
        Its objective, or the known one.
    proved
        Whether bound and objective agree.
    pairs, survivors, unsettled
        Rotations in all, those that the bounds let through, and those that are
        still open at the end.
    """

    lower_ms: float
    rounds: tuple[Labels, ...]
    objective_ms: float
    proved: bool
    pairs: int
    survivors: int
    unsettled: int


def prove_short(times: RoundTimes, pool: Pool, known_ms: float, *, deadline: float) -> ShortProof:
    """Go through all rotations of one or two rounds.

    Parameters
    ----------
    times, pool
        Round times, and all partitions.
    known_ms
        Objective of the best rotation that is known, of any length.
    deadline
        Value of the monotonic clock at which to stop.
    """
    limit_ms = known_ms * (1 - _SAME)
    order = np.argsort(pool.lower_ms, kind="stable")
    order = order[pool.lower_ms[order] * 1.5 < limit_ms]
    first, second, _, complete = _candidates(pool, order, limit_ms, deadline)
    survivors = len(first)
    lifetimes = _exact_lifetimes(pool, first, second, deadline)
    # Out of time: the pairs that were not looked at are covered by the bound on everything.
    complete = complete and len(lifetimes) == survivors
    first, second = first[: len(lifetimes)], second[: len(lifetimes)]
    lower = np.maximum(pool.lower_ms[first], pool.lower_ms[second])
    keep = lower * (lifetimes + 0.5) < limit_ms
    first, second, lifetimes = first[keep], second[keep], lifetimes[keep]
    state = _Settling(times, pool, first, second, lifetimes, limit_ms)
    for nodes in _STEPS:
        state.settle(nodes, deadline)
    count = len(pool.labels)
    best_ms, rounds = state.best()
    objective_ms = min(best_ms, known_ms)
    open_ms = state.open_ms()
    lower_ms = min(objective_ms * (1 - _SAME), float(open_ms.min(initial=math.inf)))
    if not complete:
        lower_ms = min(lower_ms, float(pool.lower_ms.min()) * 1.5)
    return ShortProof(
        lower_ms=lower_ms,
        rounds=rounds,
        objective_ms=objective_ms,
        proved=complete and not len(open_ms),
        pairs=count * (count + 1) // 2,
        survivors=survivors,
        unsettled=len(open_ms),
    )


def _candidates(
    pool: Pool, order: Ints, limit_ms: float, deadline: float
) -> tuple[Ints, Ints, Floats, bool]:
    """Pairs of rounds that the bounds on T and A let through, the slower one first."""
    islands = pool.labels.shape[1]
    cliques = pool.labels.max(axis=1) + 1
    found: list[tuple[Ints, Ints, Floats]] = []
    complete = True
    for start in range(0, len(order), _CHUNK):
        if time.monotonic() > deadline:
            complete = False
            break
        rows = order[start : start + _CHUNK]
        columns = order[: start + len(rows)]
        most = limit_ms / pool.lower_ms[rows[0]] - 0.5
        # What S(1) alone allows: 1 + √(k − 1) / 2√(N − 1) with the other round at best.
        within = 1 + np.sqrt(cliques - 1) / (2 * math.sqrt(islands - 1)) < most
        rows, columns = rows[within[rows]], columns[within[columns]]
        if not len(rows) or not len(columns):
            continue
        shape = (-1, islands, islands)
        bound = two_round_bounds(pool.flat[rows].reshape(shape), pool.flat[columns].reshape(shape))
        slower = np.maximum(pool.lower_ms[rows][:, None], pool.lower_ms[columns][None, :])
        i, j = np.nonzero(slower * (bound + 0.5) < limit_ms)
        found.append((rows[i], columns[j], bound[i, j]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), complete
    a, b, c = (np.concatenate(part) for part in zip(*found, strict=True))
    return a, b, c, complete


def _exact_lifetimes(pool: Pool, first: Ints, second: Ints, deadline: float) -> Floats:
    """A of each pair, of as many from the first on as there is time for."""
    islands = pool.labels.shape[1]
    parts = [np.zeros(0)]
    for start in range(0, len(first), _BATCH):
        if time.monotonic() > deadline:
            break
        both = np.stack([first[start : start + _BATCH], second[start : start + _BATCH]], axis=1)
        stacks = pool.flat[both].reshape(-1, 2, islands, islands)
        parts.append(rms_lifetimes(stacks, 60.0))
    return np.concatenate(parts)


class _Settling:
    """Pairs of rounds whose times are still to be found."""

    def __init__(
        self,
        times: RoundTimes,
        pool: Pool,
        first: Ints,
        second: Ints,
        lifetimes: Floats,
        limit_ms: float,
    ) -> None:
        self.times, self.pool, self.limit_ms = times, pool, limit_ms
        self.first, self.second, self.lifetimes = first, second, lifetimes
        self.lower_ms = pool.lower_ms.copy()
        self.t_ms = np.full(len(pool.lower_ms), np.inf)
        self._best_ms, self._best = math.inf, (-1, -1)

    def settle(self, nodes: int, deadline: float) -> None:
        """Find the times of all rounds that matter, with some effort each."""
        allowed = self.limit_ms / (self.lifetimes + 0.5)
        most_ms = np.zeros(len(self.lower_ms))
        np.maximum.at(most_ms, self.first, allowed)
        np.maximum.at(most_ms, self.second, allowed)
        for index in np.argsort(self.lower_ms, kind="stable").tolist():
            if time.monotonic() > deadline:
                return
            settled = self.t_ms[index] <= self.lower_ms[index] + GAP_MS
            if settled or self.lower_ms[index] >= most_ms[index]:
                continue
            limit_ms = float(most_ms[index])
            found = self.times.evaluate(self.pool.row(index), limit_ms=limit_ms, nodes=nodes)
            self.lower_ms[index] = max(self.lower_ms[index], found.lower_ms)
            self.t_ms[index] = found.t_ms
        self._drop()

    def _drop(self) -> None:
        """Forget the pairs that are settled, and remember the best of them."""
        t_ms = np.maximum(self.t_ms[self.first], self.t_ms[self.second])
        objective = t_ms * (self.lifetimes + 0.5)
        if objective.min(initial=math.inf) < self.limit_ms:
            k = int(np.argmin(objective))
            self._best_ms, self._best = (
                float(objective[k]),
                (int(self.first[k]), int(self.second[k])),
            )
            self.limit_ms = min(self.limit_ms, self._best_ms * (1 - _SAME))
        keep = self.open_ms(everything=True) < self.limit_ms
        self.first, self.second = self.first[keep], self.second[keep]
        self.lifetimes = self.lifetimes[keep]

    def open_ms(self, *, everything: bool = False) -> Floats:
        """Bound on the objective of each pair that is still open."""
        lower_ms = np.maximum(self.lower_ms[self.first], self.lower_ms[self.second])
        bound: Floats = lower_ms * (self.lifetimes + 0.5)
        return bound if everything else bound[bound < self.limit_ms]

    def best(self) -> tuple[float, tuple[Labels, ...]]:
        """Best pair that was seen below the limit."""
        if self._best[0] < 0:
            return math.inf, ()
        return self._best_ms, tuple(self.pool.row(index) for index in sorted(set(self._best)))

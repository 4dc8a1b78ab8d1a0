"""Least round time over the choice of trees and rates: who takes which links.

Ours. A stream with latency L (offset plus largest delay) that must end by T has
T − L for its payload, so at each link it takes P / C_e / (T − L) of the
capacity. Given T the rates follow, and what is left is a packing problem: one
choice per group of streams such that no link direction is asked for more than
it has. A group is a sender where streams are independent, or a clique whose
streams have to be aligned (without memory).

The packing problem is decided exactly by depth-first search with the most
constrained group first; T by bisection between a bound and the best answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FULL = 1 + 1e-9
_SWEEPS = 6
_POWERS = (4.0, 8.0, 20.0, 6.0, 12.0)
_AMBITION = 0.97
_ROOT_STEPS = 60


@dataclass(frozen=True)
class Group:
    """Choices of one group of streams.

    Attributes
    ----------
    load_ms
        Shape (choices, edges): time of a link that the streams of the group
        take, P / C_e for each copy.
    latency_ms
        Shape (choices,): when the last stream starts to arrive at the latest.
    floor_ms
        Least duration that the access links of the group allow.
    """

    load_ms: Floats
    latency_ms: Floats
    floor_ms: float


@dataclass(frozen=True)
class Packing:
    """An answer: the choice of each group, and how good it is.

    Attributes
    ----------
    t_ms
        Round time of the choices.
    lower_ms
        No choice at all has a smaller round time.
    picks
        Choice of each group.
    """

    t_ms: float
    lower_ms: float
    picks: tuple[int, ...]


def assignment_time_ms(groups: Sequence[Group], picks: Sequence[int]) -> float:
    """Least T of given choices, in ms: the root of Σ P / C_e / (T − L) = 1 on the worst link."""
    load_ms = np.array([group.load_ms[k] for group, k in zip(groups, picks, strict=True)])
    latency_ms = np.array([group.latency_ms[k] for group, k in zip(groups, picks, strict=True)])
    floors_ms = np.array([group.floor_ms for group in groups])
    used = load_ms.any(axis=0)
    load_ms = load_ms[:, used]
    start = (np.where(load_ms > 0, latency_ms[:, None] + load_ms, 0.0)).max(axis=0)
    t_ms = start
    # The sum is convex and falling, so Newton from the left never overshoots.
    for _ in range(_ROOT_STEPS):
        room = np.maximum(t_ms[None, :] - latency_ms[:, None], 1e-12)
        shares = np.where(load_ms > 0, load_ms / room, 0.0)
        step = (shares.sum(axis=0) - 1) / (shares / room).sum(axis=0)
        t_ms = t_ms + np.maximum(step, 0.0)
        if step.max(initial=0.0) < 1e-10:
            break
    return float(max(t_ms.max(initial=0.0), (latency_ms + floors_ms).max()))


def pack(groups: Sequence[Group], *, lower_ms: float, gap_ms: float, nodes: int) -> Packing:
    """Find the choices with the least round time.

    Parameters
    ----------
    groups
        Choices of each group.
    lower_ms
        A bound that is known already.
    gap_ms
        How near the optimum is near enough.
    nodes
        Effort limit of one exact decision; 0 leaves it at the heuristic.

    Returns
    -------
    Packing
        Optimal within ``gap_ms`` if ``t_ms − lower_ms`` says so.
    """
    solver = _Solver(groups)
    floor_ms = max(lower_ms, solver.floor_ms)
    picks, t_ms = solver.descend()
    best = Packing(t_ms, floor_ms, picks)
    probe_ms = min(floor_ms * (1 + 1e-9) + 1e-6, t_ms)
    while nodes and best.t_ms - best.lower_ms > gap_ms:
        found = solver.decide(probe_ms, nodes)
        if found is None:
            break
        if found:
            t_ms = assignment_time_ms(groups, found)
            best = Packing(min(t_ms, best.t_ms), best.lower_ms, found)
        else:
            best = Packing(best.t_ms, max(best.lower_ms, probe_ms), best.picks)
        probe_ms = (best.t_ms + best.lower_ms) / 2
    return best


def cannot_pack(groups: Sequence[Group], t_ms: float, nodes: int) -> bool:
    """Whether it is proved, within an effort, that no choices end by T."""
    return _Solver(groups).decide(t_ms, nodes) == ()


class _Solver:
    """All choices of all groups as one table."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.load_ms = np.concatenate([group.load_ms for group in groups])
        self.latency_ms = np.concatenate([group.latency_ms for group in groups])
        self.ready_ms = self.latency_ms + np.concatenate(
            [np.full(len(group.latency_ms), group.floor_ms) for group in groups]
        )
        sizes = [len(group.latency_ms) for group in groups]
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.owner = np.repeat(np.arange(len(groups)), sizes)
        alone_ms = np.maximum(self.ready_ms, self.latency_ms + self.load_ms.max(axis=1))
        self.floor_ms = float(np.minimum.reduceat(alone_ms, self.starts).max())
        self.first = tuple(
            int(np.argmin(alone_ms[start : start + size]))
            for start, size in zip(self.starts, sizes, strict=True)
        )

    def descend(self) -> tuple[tuple[int, ...], float]:
        """Improve the fastest trees group by group, for as long as that helps."""
        best = self.first
        best_ms = assignment_time_ms(self.groups, best)
        for power in _POWERS:
            picks = best
            for _ in range(_SWEEPS):
                picks = self._sweep(picks, best_ms * _AMBITION, power)
                t_ms = assignment_time_ms(self.groups, picks)
                if t_ms >= best_ms - 1e-6:
                    break
                best, best_ms = picks, t_ms
        return best, best_ms

    def _sweep(self, picks: tuple[int, ...], t_ms: float, power: float) -> tuple[int, ...]:
        """Lead each group anew, given the others, with overloads priced steeply."""
        room_ms = np.maximum(t_ms - self.latency_ms, 1e-3)
        shares = self.load_ms / room_ms[:, None]
        late = np.where(self.ready_ms > t_ms, np.inf, 0.0)
        chosen = list(picks)
        total = shares[self.starts + np.array(chosen)].sum(axis=0)
        for _ in range(2):
            for g, group in enumerate(self.groups):
                rows = slice(int(self.starts[g]), int(self.starts[g]) + len(group.latency_ms))
                others = total - shares[self.starts[g] + chosen[g]]
                cost = ((others + shares[rows]) ** power).sum(axis=1) + late[rows]
                if cost.min() < cost[chosen[g]]:
                    chosen[g] = int(np.argmin(cost))
                total = others + shares[self.starts[g] + chosen[g]]
        return tuple(chosen)

    def decide(self, t_ms: float, nodes: int) -> tuple[int, ...] | tuple[()] | None:
        """Whether the round can end by T: choices, none at all, or out of effort."""
        in_time = np.flatnonzero((self.ready_ms <= t_ms + 1e-9) & (self.latency_ms < t_ms))
        shares = self.load_ms[in_time] / (t_ms - self.latency_ms[in_time])[:, None]
        found = decide_rows(shares, self.owner[in_time], len(self.groups), nodes)
        if not found:
            return found
        return tuple(int(in_time[row] - self.starts[g]) for g, row in enumerate(found))


def decide_rows(
    shares: Floats, owner: npt.NDArray[np.int64], groups: int, nodes: int
) -> tuple[int, ...] | tuple[()] | None:
    """Choose one row of each owner such that no column's sum exceeds one.

    Parameters
    ----------
    shares
        Shape (rows, columns), 0 or more.
    owner
        Shape (rows,): 0 to ``groups`` − 1.
    groups
        Number of owners.
    nodes
        Effort limit.

    Returns
    -------
    tuple of int or None
        Row of each owner; empty if there is no such choice, ``None`` if the
        effort did not suffice to tell.
    """
    search = _Search(shares, owner, groups, nodes)
    found = search.run()
    if found is None or not found:
        return None if search.exhausted else ()
    return tuple(found[group] for group in range(groups))


class _Search:
    """Depth-first search for one row of each owner whose sum stays within one."""

    def __init__(
        self, shares: Floats, owner: npt.NDArray[np.int64], groups: int, nodes: int
    ) -> None:
        self.shares, self.owner, self.groups = shares, owner, groups
        self.nodes = nodes
        self.exhausted = False

    def run(self) -> dict[int, int] | None:
        """Return owner to row, or ``None``."""
        everything = np.arange(len(self.owner))
        return self._extend({}, everything, np.full(self.shares.shape[1], _FULL))

    def _extend(
        self, taken: dict[int, int], rows: npt.NDArray[np.int64], room: Floats
    ) -> dict[int, int] | None:
        if len(taken) == self.groups:
            return taken
        self.nodes -= 1
        if self.nodes < 0:
            self.exhausted = True
            return None
        rows = rows[(self.shares[rows] <= room).all(axis=1)]
        left = np.bincount(self.owner[rows], minlength=self.groups)
        left[list(taken)] = len(self.owner) + 1
        group = int(np.argmin(left))
        if left[group] == 0 or self._overfull(rows, taken, room):
            return None
        mine = rows[self.owner[rows] == group]
        rest = rows[self.owner[rows] != group]
        # Least first of what is scarce: links that are nearly full cost more.
        price = self.shares[mine] @ (1 / np.maximum(room, 1e-3))
        for row in mine[np.argsort(price, kind="stable")].tolist():
            found = self._extend({**taken, group: row}, rest, room - self.shares[row])
            if found is not None or self.exhausted:
                return found
        return None

    def _overfull(self, rows: npt.NDArray[np.int64], taken: dict[int, int], room: Floats) -> bool:
        """Whether all open groups at their least already ask for more than all links have."""
        order = rows[np.argsort(self.owner[rows], kind="stable")]
        owners, starts = np.unique(self.owner[order], return_index=True)
        least = np.minimum.reduceat(self.shares[order].sum(axis=1), starts)
        return bool(least.sum() > room.sum() and len(owners) + len(taken) >= self.groups)

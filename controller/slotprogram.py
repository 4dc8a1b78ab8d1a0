"""The time-indexed linear program behind rates that change over time.

Ours. Columns are the cumulative amounts that sender j has sent by the
boundaries of its time slots, in payloads; in between they are linear, so the
rates are piecewise constant. A link sees stream j later by the delay of the way
to it. So between two neighbouring moments at which some stream on the link
changes its slot, the sum of the slots' rates is within the capacity: exact at
all times. With queues, each shared link has columns of its own for each stream
on it, at the same boundaries plus the delay, and lets through at most what has
come: what waits in front of a link no longer holds up the other branches of its
tree. The memory is watched at every moment at which some stream at the receiver
changes its slot, since the bytes held are linear between: exact along the whole
timeline.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from controller.demand import Demand
from controller.linear import LinearProgram
from controller.multicast import Tree, link_time_ms
from controller.roundtiming import RoundTiming
from testbed.topology import Topology

Vector: TypeAlias = npt.NDArray[np.float64]

_SAME_MS = 1e-7
_ROUNDING_MS = 1e-6
_WAITING = 1e-5


class SlotProgram:
    """The program for one T: amounts sent, let through by links, λ, levels held.

    ``first[j, e]`` is the column of stream j's amount at its first boundary, as
    link e lets it through; e = −1 as the sender sends it.
    """

    def __init__(
        self,
        topology: Topology,
        trees: Sequence[Tree],
        demand: Demand,
        constant: RoundTiming,
        t_ms: float,
        slot_ms: float,
        *,
        queues: bool,
    ) -> None:
        self.topology, self.trees, self.demand, self.t_ms = topology, trees, demand, t_ms
        most = max(len(tree.receivers) for tree in trees)
        self.binding = demand.memory_binds(most, topology.fastest_access_gbps)
        self.moments = self._boundaries(constant, t_ms, slot_ms)
        self.program = LinearProgram()
        self.first: dict[tuple[int, int], int] = {
            (j, -1): self.program.columns(len(moments)) for j, moments in enumerate(self.moments)
        }
        self.share = self.program.columns(1)
        self.users = self._users()
        self.waiting: list[tuple[int, int, int]] = []
        self._ways(queues=queues)
        self._streams()
        self._links()
        if self.binding:
            self._memory()

    def solve(self) -> tuple[float, list[tuple[Vector, Vector]]]:
        """Largest λ, and each stream's boundaries with the amounts sent by them."""
        size = self.program.size
        cost, lower, upper = np.zeros(size), np.zeros(size), np.full(size, np.inf)
        cost[self.share] = -1.0
        for first in self.first.values():
            upper[first] = 0.0
        # Among equals, as little waiting as possible.
        for before, after, count in self.waiting:
            cost[before : before + count] += _WAITING / len(self.waiting)
            cost[after : after + count] -= _WAITING / len(self.waiting)
        found = self.program.solve(cost, lower, upper, interior=True)
        if found is None:
            return 0.0, []
        share = float(found.values[self.share])
        # Nothing asks for more than λ, but nothing forbids it either.
        amounts = [
            (
                moments,
                np.minimum(
                    np.maximum.accumulate(found.values[first : first + len(moments)]), share
                ),
            )
            for moments, first in ((m, self.first[j, -1]) for j, m in enumerate(self.moments))
        ]
        return share, amounts

    def _boundaries(self, constant: RoundTiming, t_ms: float, slot_ms: float) -> list[Vector]:
        """Slots of each sender, laid so that aligned streams change slots together."""
        ends_ms = [t_ms - max(tree.delays_ms.values()) for tree in self.trees]
        delays_ms = [np.array(list(tree.delays_ms.values())) for tree in self.trees]
        together: dict[int, float] = {}
        for tree, end_ms in zip(self.trees, ends_ms, strict=True):
            length_ms = end_ms - constant.offsets_ms[tree.sender]
            together[tree.clique] = min(together.get(tree.clique, np.inf), length_ms)
        boundaries = []
        for tree, ways_ms in zip(self.trees, delays_ms, strict=True):
            end_ms = t_ms - ways_ms.min()
            offset_ms = constant.offsets_ms[tree.sender]
            steps = np.arange(-np.ceil(offset_ms / slot_ms), np.ceil(end_ms / slot_ms) + 1)
            inner = offset_ms + steps * slot_ms
            # With its constant end among the boundaries, the constant rates are a solution.
            end_constant_ms = offset_ms + constant.durations_ms[tree.sender]
            aligned = np.array([0.0, offset_ms + together[tree.clique], end_constant_ms])
            moments: Vector = np.concatenate([aligned, t_ms - ways_ms, inner])
            boundaries.append(np.unique(np.round(moments[(moments >= 0) & (moments <= end_ms)], 6)))
        return boundaries

    def _users(self) -> dict[int, list[tuple[int, float]]]:
        """Edge to the streams on it, by position, each with the delay of the way to it."""
        users: dict[int, list[tuple[int, float]]] = {}
        for j, tree in enumerate(self.trees):
            seen: set[int] = set()
            for path in tree.paths.values():
                behind_ms = 0.0
                for edge in path:
                    if not self.demand.multicast or edge not in seen:
                        users.setdefault(edge, []).append((j, behind_ms))
                    seen.add(edge)
                    behind_ms += self.topology.edges[edge].delay_ms
        return users

    def _ways(self, *, queues: bool) -> None:
        """Give streams columns of their own on shared links, or those of the link before."""
        for j, tree in enumerate(self.trees):
            count = len(self.moments[j])
            for path in tree.paths.values():
                before = self.first[j, -1]
                for edge in path:
                    if (j, edge) not in self.first:
                        own = queues and len(self.users[edge]) > 1
                        self.first[j, edge] = self.program.columns(count) if own else before
                        if own:
                            self._queue(before, self.first[j, edge], count)
                    before = self.first[j, edge]

    def _queue(self, before: int, after: int, count: int) -> None:
        """A link lets through no more than has come, and never takes back."""
        self.waiting.append((before, after, count))
        for k in range(count):
            self.program.add({after + k: 1.0, before + k: -1.0}, 0.0)
            if k:
                self.program.add({after + k - 1: 1.0, after + k: -1.0}, 0.0)

    def _streams(self) -> None:
        """Amounts grow no faster than access links allow, and to λ at least."""
        aggregated = self.demand.aggregation
        for j, (tree, moments) in enumerate(zip(self.trees, self.moments, strict=True)):
            copies = 1 if self.demand.multicast else len(tree.receivers)
            rates = [self.topology.cities[tree.sender].access_rate_gbps / copies]
            if aggregated:
                rates += [self.topology.cities[city].access_rate_gbps for city in tree.receivers]
            alone_ms = link_time_ms(self.demand.payload_bytes, min(rates))
            for k, length_ms in enumerate(np.diff(moments), start=self.first[j, -1]):
                self.program.add({k: 1.0, k + 1: -1.0}, 0.0)
                self.program.add({k + 1: 1.0, k: -1.0}, float(length_ms) / alone_ms)
            for city, path in tree.paths.items():
                due = int(np.searchsorted(moments, self.t_ms - tree.delays_ms[city] - _ROUNDING_MS))
                self.program.add({self.share: 1.0, self.first[j, path[-1]] + due: -1.0}, 0.0)

    def _links(self) -> None:
        """Sums of the delayed rates on each shared link, and into hosts that add up themselves."""
        for edge, users in self.users.items():
            ways = [(j, edge, behind_ms) for j, behind_ms in users]
            self._within(ways, self.topology.edges[edge].rate_gbps)
        if not self.demand.aggregation:
            for city in range(len(self.topology.cities)):
                entering = [
                    (j, tree.paths[city][-1], tree.delays_ms[city])
                    for j, tree in enumerate(self.trees)
                    if city in tree.paths
                ]
                if entering:
                    self._within(entering, self.topology.cities[city].access_rate_gbps)

    def _within(self, users: Sequence[tuple[int, int, float]], rate_gbps: float) -> None:
        """Keep the sum of delayed rates within a capacity, wherever some slot changes."""
        per_ms = 1 / link_time_ms(self.demand.payload_bytes, rate_gbps)
        changes = np.unique(np.concatenate([self.moments[j] + behind for j, _, behind in users]))
        for begin, end in itertools.pairwise(changes):
            if end - begin <= _SAME_MS:
                continue
            terms: dict[int, float] = {}
            for j, edge, behind_ms in users:
                moments = self.moments[j]
                slot = int(np.searchsorted(moments, (begin + end) / 2 - behind_ms)) - 1
                if 0 <= slot < len(moments) - 1:
                    per_length = 1 / float(moments[slot + 1] - moments[slot])
                    column = self.first[j, edge] + slot
                    terms[column + 1] = terms.get(column + 1, 0.0) + per_length
                    terms[column] = terms.get(column, 0.0) - per_length
            if terms:
                self.program.add(terms, per_ms)

    def _memory(self) -> None:
        share = self.demand.memory_bytes / self.demand.payload_bytes
        arriving: dict[int, list[int]] = {}
        for j, tree in enumerate(self.trees):
            for city in tree.receivers:
                arriving.setdefault(city, []).append(j)
        for city, senders in arriving.items():
            if len(senders) < 2:
                continue
            delays = {j: self.trees[j].delays_ms[city] for j in senders}
            changes = np.concatenate([self.moments[j] + delays[j] for j in senders])
            changes = np.unique(changes)
            changes = changes[np.concatenate([[True], np.diff(changes) > _SAME_MS])]
            for moment in changes:
                arrived = [self._arrived(j, city, float(moment) - delays[j]) for j in senders]
                self._held(arrived, share)

    def _held(self, arrived: Sequence[Mapping[int, float]], share: float) -> None:
        """Each stream, or all leads together, at most the memory ahead of each other one."""
        level = self.program.columns(1)
        for terms in arrived:
            if self.demand.memory_model == "hold":
                held = {column: -len(arrived) * value for column, value in terms.items()}
                self.program.add({**held, level: 1.0}, share)
            else:
                self.program.add({**terms, level: -1.0}, 0.0)
                behind = {column: -value for column, value in terms.items()}
                self.program.add({**behind, level: 1.0}, share)
        if self.demand.memory_model == "hold":
            total: dict[int, float] = {level: -1.0}
            for terms in arrived:
                for column, value in terms.items():
                    total[column] = total.get(column, 0.0) + value
            self.program.add(total, 0.0)

    def _arrived(self, j: int, city: int, sent_ms: float) -> dict[int, float]:
        """Amount let through by some moment, as a mixture of the two boundaries around it."""
        moments, first = self.moments[j], self.first[j, self.trees[j].paths[city][-1]]
        if sent_ms <= moments[0] + _SAME_MS:
            return {first: 1.0}
        if sent_ms >= moments[-1] - _SAME_MS:
            return {first + len(moments) - 1: 1.0}
        slot = int(np.searchsorted(moments, sent_ms, side="right")) - 1
        part = (sent_ms - moments[slot]) / (moments[slot + 1] - moments[slot])
        if part < 1e-9:
            return {first + slot: 1.0}
        return {first + slot: 1 - float(part), first + slot + 1: float(part)}

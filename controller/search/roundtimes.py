"""Round times of candidate rounds: bounds first, exact answers where they matter.

Two regimes have exact answers over all trees of the table and all constant
rates, one rate per stream: memory for a whole payload (streams are
independent), and no memory at all (the streams of a clique are aligned).
Between them the answer is the best of what the linear program makes of the
trees of both, and the bound is that of ample memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.choose import TreeChooser
from controller.demand import Demand
from controller.multicast import Tree, make_tree, shortest_path_trees
from controller.roundtiming import RoundTiming
from controller.search.alignment import AlignedChoices, aligned_choices
from controller.search.cutbound import CutBound
from controller.search.packing import Group, Packing, cannot_pack, pack
from controller.search.partitions import Cliques, Labels, cliques_of
from controller.search.treetable import TreeTable
from controller.timing import time_round
from testbed.routing import route
from testbed.topology import Topology

GAP_MS = 0.01
"""A round time is called exact when it is proved to this."""

_EXACT_SENDERS = 12


@dataclass(frozen=True)
class RoundTime:
    """Round time of one round: the best found, and a bound below all others.

    Attributes
    ----------
    t_ms
        Infinite if the round cannot be done.
    lower_ms
        Proved bound; infinite if it is proved that the round cannot be done.
    trees
        One per sender, in the order of the cliques.
    """

    t_ms: float
    lower_ms: float
    trees: tuple[Tree, ...]

    @property
    def exact(self) -> bool:
        """Whether bound and answer agree."""
        return self.t_ms == self.lower_ms or self.t_ms - self.lower_ms <= GAP_MS


class RoundTimes:
    """Evaluates rounds on one network, and remembers the answers.

    Parameters
    ----------
    topology
        The network.
    payload_bytes, memory_bytes
        Bytes of one stream on the wire, and of one city's memory.
    nodes
        Effort of one exact decision; the heuristic's answer stands beyond it.
    """

    def __init__(
        self, topology: Topology, *, payload_bytes: float, memory_bytes: float, nodes: int = 60
    ) -> None:
        self.topology = topology
        self.payload_bytes, self.memory_bytes = payload_bytes, memory_bytes
        self.nodes = nodes
        self.table = TreeTable(topology)
        self.cuts = CutBound(topology, payload_bytes)
        self.copy_ms = np.array([payload_bytes * 8e-6 / edge.rate_gbps for edge in topology.edges])
        self._known: dict[Labels, RoundTime] = {}
        self._bounds: dict[Labels, float] = {}
        self._planned: dict[Labels, float] = {}
        self._proved: dict[Labels, float] = {}
        self._aligned: dict[tuple[int, ...], AlignedChoices] = {}

    def lower_ms(self, labels: Labels) -> float:
        """Bound the time of a round cheaply."""
        if labels not in self._bounds:
            row = np.array([labels], dtype=np.int8)
            self._bounds[labels] = float(self.cuts.lower_ms(row)[0])
        return self._bounds[labels]

    def evaluate(
        self, labels: Labels, *, limit_ms: float = np.inf, nodes: int | None = None
    ) -> RoundTime:
        """Find the time of a round.

        Parameters
        ----------
        labels
            The round.
        limit_ms
            Above this only the bound is wanted; the answer then is infinite.
        nodes
            Another effort than usual.
        """
        known = self._known.get(labels)
        if known is not None and (nodes is None or nodes <= self.nodes or known.exact):
            return known
        lower_ms = max(self.lower_ms(labels), self._proved.get(labels, 0.0))
        cliques = cliques_of(labels)
        if lower_ms <= limit_ms < np.inf and self._exceeds(cliques, limit_ms):
            lower_ms = self._proved[labels] = float(np.nextafter(limit_ms, np.inf))
        if lower_ms > limit_ms:
            return RoundTime(np.inf, lower_ms, ())
        # Not from what was proved before, so that the answer has no history.
        known = self._solve(cliques, self.lower_ms(labels), nodes or self.nodes)
        self._known[labels] = known
        return known

    def planned_ms(self, labels: Labels) -> float:
        """Round time on the trees that the planner would choose, which takes seconds."""
        if labels not in self._planned:
            demand = Demand(self.payload_bytes, self.memory_bytes, multicast=True, aggregation=True)
            chooser = TreeChooser(route(self.topology), demand, "best", exact=False)
            timing = self._timing(chooser.choose(cliques_of(labels)).trees)
            self._planned[labels] = timing.t_ms if timing.shortfall is None else np.inf
        return self._planned[labels]

    def _exceeds(self, cliques: Cliques, limit_ms: float) -> bool:
        """Whether it is easily proved that a round takes longer, whatever the memory."""
        if self._effort(cliques, self.nodes) == 0:
            return False
        groups = [self._sender_group(sender, clique) for clique in cliques for sender in clique]
        return cannot_pack(groups, limit_ms, self.nodes)

    def _effort(self, cliques: Cliques, nodes: int) -> int:
        senders = sum(len(clique) for clique in cliques)
        return nodes if self.table.complete and senders <= _EXACT_SENDERS else 0

    def _solve(self, cliques: Cliques, lower_ms: float, nodes: int) -> RoundTime:
        effort = self._effort(cliques, nodes)
        if self.memory_bytes >= self.payload_bytes:
            return self._ample(cliques, lower_ms, effort)
        aligned = self._without_memory(cliques, lower_ms, effort)
        if self.memory_bytes == 0:
            return aligned
        return self._between(cliques, self._ample(cliques, lower_ms, effort), aligned)

    def _ample(self, cliques: Cliques, lower_ms: float, nodes: int) -> RoundTime:
        groups, senders = [], []
        for clique in cliques:
            for sender in clique:
                groups.append(self._sender_group(sender, clique))
                senders.append((sender, clique))
        packing = pack(groups, lower_ms=lower_ms, gap_ms=GAP_MS, nodes=nodes)
        picks = dict(zip([sender for sender, _ in senders], packing.picks, strict=True))
        return self._answer(packing, cliques, picks)

    def _without_memory(self, cliques: Cliques, lower_ms: float, nodes: int) -> RoundTime:
        groups: list[Group] = []
        members: list[tuple[int, ...]] = []
        complete = self.table.complete
        for clique in cliques:
            if len(clique) == 2:
                groups += [self._sender_group(sender, clique) for sender in clique]
                members += [(sender,) for sender in clique]
                continue
            choices = self._aligned_choices(clique)
            complete = complete and choices.complete
            if not len(choices.latency_ms):
                return RoundTime(np.inf, np.inf if complete else lower_ms, ())
            load_ms = choices.copies * self.copy_ms
            groups.append(Group(load_ms, choices.latency_ms, self._floor_ms(clique)))
            members.append(clique)
        packing = pack(groups, lower_ms=lower_ms, gap_ms=GAP_MS, nodes=nodes if complete else 0)
        picks: dict[int, int] = {}
        for group, pick in zip(members, packing.picks, strict=True):
            if len(group) == 1:
                picks[group[0]] = pick
            else:
                joint = self._aligned[group].picks[pick]
                picks.update(zip(group, joint.tolist(), strict=True))
        return self._answer(packing, cliques, picks)

    def _between(self, cliques: Cliques, ample: RoundTime, aligned: RoundTime) -> RoundTime:
        """Best of what the linear program makes of several sets of trees."""
        best = RoundTime(aligned.t_ms, ample.lower_ms, aligned.trees)
        shortest = shortest_path_trees(route(self.topology), cliques)
        for trees in (ample.trees, aligned.trees, shortest):
            if not trees:
                continue
            timing = self._timing(trees)
            if timing.shortfall is None and timing.t_ms < best.t_ms:
                best = RoundTime(timing.t_ms, min(ample.lower_ms, timing.t_ms), trees)
        return best

    def _timing(self, trees: tuple[Tree, ...]) -> RoundTiming:
        return time_round(
            self.topology,
            trees,
            payload_bytes=self.payload_bytes,
            memory_bytes=self.memory_bytes,
            multicast=True,
            aggregation=True,
            rates="per-stream",
        )

    def _sender_group(self, sender: int, clique: Sequence[int]) -> Group:
        choice = self.table.choose(sender, [city for city in clique if city != sender])
        return Group(choice.usage * self.copy_ms, choice.latency_ms, self._floor_ms(clique))

    def _floor_ms(self, clique: Sequence[int]) -> float:
        """One stream leaves and one sum enters each access link of a clique."""
        slowest = min(self.topology.cities[city].access_rate_gbps for city in clique)
        return self.payload_bytes * 8e-6 / slowest

    def _aligned_choices(self, clique: tuple[int, ...]) -> AlignedChoices:
        if clique not in self._aligned:
            self._aligned[clique] = aligned_choices(self.table, clique)
        return self._aligned[clique]

    def _answer(self, packing: Packing, cliques: Cliques, picks: dict[int, int]) -> RoundTime:
        """Turn choices in the table into trees."""
        trees = []
        free = self.memory_bytes >= self.payload_bytes
        for number, clique in enumerate(cliques):
            for sender in clique:
                others = [city for city in clique if city != sender]
                keep_all = not free and len(clique) > 2
                choice = self.table.choose(sender, others, keep_all=keep_all)
                spanning = int(choice.spanning[picks[sender]])
                paths = {city: self.table.path(sender, spanning, city) for city in others}
                trees.append(make_tree(self.topology, sender, number, paths))
        return RoundTime(packing.t_ms, min(packing.lower_ms, packing.t_ms), tuple(trees))

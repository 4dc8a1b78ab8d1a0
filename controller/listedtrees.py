"""Trees of whole rounds from lists of all choices, where an integer program would take long.

Ours. Without memory the streams of a clique have to arrive together, which few
joint choices of their trees allow; all of these are listed
(`controller.search.alignment`). At a common rate T is the largest latency of
the chosen plus the busiest link's time D, and D is one of few numbers: n copies
on some link. For each D, from the least on, a bisection over the latencies finds
the least that still packs, each question decided exactly by depth-first search.
That takes milliseconds where an integer program over single trees takes a
second. At rates of their own the same choices are packed by
`controller.search.packing`, for no memory or for more than can ever be held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from controller.jointtrees import JointTrees
from controller.multicast import Tree, make_tree
from controller.search.alignment import aligned_choices
from controller.search.packing import Group, decide_rows, pack
from controller.search.treetable import TreeTable
from testbed.topology import Topology

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NODES = 2_000
_PACKING_NODES = 200
_GAP_MS = 0.01
_EQUAL_MS = 1e-9


@dataclass(frozen=True)
class _Choices:
    """Choices of one group of senders, a row each.

    Attributes
    ----------
    senders, clique
        City indices that choose together, and all of their clique.
    copies, latency_ms
        Streams on each edge; when the last one starts to arrive at the latest.
    picks
        Each sender's choice in the table.
    """

    senders: tuple[int, ...]
    clique: tuple[int, ...]
    copies: Floats
    latency_ms: Floats
    picks: Ints


class ListedTrees:
    """Chooses trees of rounds on one network.

    Parameters
    ----------
    topology
        A network whose trees can all be listed.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    @cached_property
    def _table(self) -> TreeTable:
        """Built when it is first needed: most rounds have memory."""
        return TreeTable(self.topology)

    def aligned(
        self,
        cliques: Sequence[Sequence[int]],
        payload_bytes: float,
        *,
        access_ms: float,
        floor_ms: float,
        below_ms: float,
    ) -> JointTrees | None:
        """Choose trees for no memory and a common rate; ``None`` if that is out of reach.

        Parameters
        ----------
        cliques
            Disjoint cliques of city indices.
        payload_bytes
            Of one stream on the wire.
        access_ms
            Duration that the access links ask for.
        floor_ms, below_ms
            A known lower bound of T; only a smaller T than the other is of interest.
        """
        groups = self._groups(cliques, aligned=True)
        if groups is None:
            return None
        if not all(len(group.latency_ms) for group in groups):
            return JointTrees(None, below_ms)
        search = _Least(groups, self._copy_ms(payload_bytes), access_ms)
        search.run(below_ms)
        if search.exhausted:
            return None
        if search.rows is None:
            return JointTrees(None, below_ms)
        picked = list(zip(groups, search.rows, strict=True))
        return JointTrees(self._trees(cliques, picked), max(floor_ms, search.t_ms))

    def packed(
        self, cliques: Sequence[Sequence[int]], payload_bytes: float, *, aligned: bool
    ) -> tuple[Tree, ...] | None:
        """Choose trees for a rate of its own for each stream; ``None`` if there are none.

        Parameters
        ----------
        cliques
            Disjoint cliques of city indices.
        payload_bytes
            Of one stream on the wire.
        aligned
            Whether there is no memory; without, there is more than enough.
        """
        groups = self._groups(cliques, aligned=aligned)
        if groups is None or not all(len(group.latency_ms) for group in groups):
            return None
        copy_ms = self._copy_ms(payload_bytes)
        cities = self.topology.cities
        found = pack(
            [
                Group(
                    group.copies * copy_ms,
                    group.latency_ms,
                    payload_bytes * 8e-6 / min(cities[i].access_rate_gbps for i in group.clique),
                )
                for group in groups
            ],
            lower_ms=0.0,
            gap_ms=_GAP_MS,
            nodes=_PACKING_NODES,
        )
        return self._trees(cliques, list(zip(groups, found.picks, strict=True)))

    def _copy_ms(self, payload_bytes: float) -> Floats:
        return np.array([payload_bytes * 8e-6 / edge.rate_gbps for edge in self.topology.edges])

    def _groups(self, cliques: Sequence[Sequence[int]], *, aligned: bool) -> list[_Choices] | None:
        """Cliques that have to be aligned as a whole, else each sender by itself."""
        if not self._table.complete:
            return None
        groups: list[_Choices] = []
        for clique in map(tuple, cliques):
            if aligned and len(clique) > 2:
                joint = aligned_choices(self._table, clique)
                if not joint.complete:
                    return None
                picks = joint.picks
                groups.append(_Choices(clique, clique, joint.copies, joint.latency_ms, picks))
                continue
            for sender in clique:
                own = self._table.choose(sender, [city for city in clique if city != sender])
                picks = np.arange(len(own.spanning))[:, None]
                copies = own.usage.astype(np.float64)
                groups.append(_Choices((sender,), clique, copies, own.latency_ms, picks))
        return groups

    def _trees(
        self, cliques: Sequence[Sequence[int]], picked: Sequence[tuple[_Choices, int]]
    ) -> tuple[Tree, ...]:
        """Write the choices as trees, in the order of the cliques."""
        spanning: dict[int, int] = {}
        for group, row in picked:
            for sender, pick in zip(group.senders, group.picks[row].tolist(), strict=True):
                others = [city for city in group.clique if city != sender]
                choice = self._table.choose(sender, others, keep_all=len(group.senders) > 1)
                spanning[sender] = int(choice.spanning[pick])
        return tuple(
            make_tree(
                self.topology,
                sender,
                number,
                {
                    city: self._table.path(sender, spanning[sender], city)
                    for city in clique
                    if city != sender
                },
            )
            for number, clique in enumerate(cliques)
            for sender in clique
        )


class _Least:
    """The search over D and latency."""

    def __init__(self, groups: Sequence[_Choices], copy_ms: Floats, access_ms: float) -> None:
        self.copies = np.concatenate([group.copies for group in groups])
        self.load_ms = self.copies * copy_ms
        self.latency_ms = np.concatenate([group.latency_ms for group in groups])
        sizes = [len(group.latency_ms) for group in groups]
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.owner = np.repeat(np.arange(len(groups)), sizes)
        self.groups = len(groups)
        senders = sum(len(group.senders) for group in groups)
        times = np.unique(np.outer(np.arange(1, senders + 1), copy_ms))
        self.durations_ms = np.unique(np.maximum(times, access_ms))
        self.t_ms = np.inf
        self.rows: tuple[int, ...] | None = None
        self.exhausted = False

    def run(self, below_ms: float) -> None:
        """Find the least T below a limit: `t_ms` and `rows`, or neither."""
        self.t_ms = below_ms
        for duration_ms in self.durations_ms.tolist():
            levels_ms = np.unique(self.latency_ms)
            levels_ms = levels_ms[levels_ms + duration_ms < self.t_ms - _EQUAL_MS]
            if not len(levels_ms):
                break
            self._bisect(levels_ms, duration_ms)
            if self.exhausted:
                return

    def _bisect(self, levels_ms: Floats, duration_ms: float) -> None:
        """Least latency with which the choices fit into D."""
        low, high = 0, len(levels_ms)
        while low < high and not self.exhausted:
            # The last first: often nothing at all fits.
            middle = (low + high) // 2 if high < len(levels_ms) else high - 1
            if self._fits(float(levels_ms[middle]), duration_ms):
                high = middle
            elif high == len(levels_ms):
                return
            else:
                low = middle + 1

    def _fits(self, latency_ms: float, duration_ms: float) -> bool:
        rows = np.flatnonzero(self.latency_ms <= latency_ms + _EQUAL_MS)
        shares = self.load_ms[rows] / duration_ms
        found = decide_rows(shares, self.owner[rows], self.groups, _NODES)
        if found is None:
            self.exhausted = True
        elif found:
            chosen = rows[list(found)]
            self.rows = tuple((chosen - self.starts).tolist())
            self.t_ms = float(self.latency_ms[chosen].max()) + duration_ms
        return bool(found)

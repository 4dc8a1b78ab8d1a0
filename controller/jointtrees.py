"""Trees, offsets and a common duration together, for any cliques and a memory that binds.

Ours. An integer program with one 0/1 column y per candidate tree. The delay of
a sender's stream to a receiver is Σ y · delay, so arrivals stay linear in trees
and offsets together and no big constants are needed. Columns: y, offsets t_j,
first and last start at each receiver, the busiest link's streams L, the
duration D, T.

- one tree per sender: Σ y = 1;
- links: (Σ y over the trees that use e) · P / C_e ≤ D; if all links have the
  same capacity, Σ y ≤ L, a whole number, and L · P / C ≤ D;
- completion: t_j + Σ y d + D ≤ T;
- memory: last − first ≤ m D (``accumulate``), or the sum of (last − start) ≤ m D
  (``hold``), with m P what a resend buffer leaves of the memory.

Candidates are all trees of the network. Without them being fewer than they are
the program would be hopeless for large cliques; two senders' trees can only
serve together if what they differ by between any two receivers agrees to within
what the memory evens out, and trees that find no partner are left out first. If
the memory does not bind, so are trees that another one beats in links and delays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import le

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from controller.demand import Demand
from controller.multicast import Tree, link_time_ms
from controller.treeset import TreeCatalogue
from testbed.topology import Topology

# Nodes, not seconds: the same plan on a busy machine. A node costs about the
# square of the candidates.
_NODES_TIMES_SQUARED_CANDIDATES = 5e7
_ROUNDING_MS = 1e-6
_MOST_HOLDING_CANDIDATES = 1_000
# Small against any difference of two delays, so that it only decides ties.
_TIE_BREAK = 1e-7


@dataclass(frozen=True)
class JointTrees:
    """Chosen trees, or ``None`` if there are none below the limit; ``bound_ms`` is of any T."""

    trees: tuple[Tree, ...] | None
    bound_ms: float


def joint_trees(
    catalogue: TreeCatalogue,
    cliques: Sequence[Sequence[int]],
    demand: Demand,
    *,
    access_ms: float,
    floor_ms: float,
    below_ms: float,
    most: int = 3_000,
) -> JointTrees:
    """Choose the trees of all senders of a round for the least T under a memory.

    Parameters
    ----------
    catalogue
        All trees of the network.
    cliques
        Disjoint cliques of city indices.
    demand
        Payload, memory and its model; with multicast and aggregation.
    access_ms
        Duration that the access links ask for.
    floor_ms
        A known lower bound of T.
    below_ms
        Only trees with a smaller T are of interest; finite if the memory binds.
    most
        Candidate trees; more are too many.

    Returns
    -------
    JointTrees
        With the bound that was proved, at most ``below_ms``; without trees and
        with the floor as bound if the candidates are too many.
    """
    fastest_gbps = catalogue.topology.fastest_access_gbps
    binding = demand.memory_binds(max(map(len, cliques)) - 1, fastest_gbps)
    candidates = [
        list(catalogue.trees(sender, number, [city for city in clique if city != sender]))
        for number, clique in enumerate(cliques)
        for sender in clique
    ]
    if not binding:
        candidates = [_undominated(trees) for trees in candidates]
    holding = binding and demand.memory_model == "hold"
    if sum(map(len, candidates)) > (min(most, _MOST_HOLDING_CANDIDATES) if holding else most):
        return JointTrees(None, floor_ms)
    candidates = [
        [tree for tree in trees if max(tree.delays_ms.values()) + access_ms < below_ms]
        for trees in candidates
    ]
    if binding:
        share = demand.memory_bytes / demand.payload_bytes
        reach = len(candidates) if holding else 2
        evened_ms = reach * share * (below_ms - access_ms) if share else 0.0
        candidates = _with_partners(candidates, evened_ms + _ROUNDING_MS)
    if not all(candidates):
        return JointTrees(None, below_ms)
    program = _Program(catalogue.topology, candidates, demand, access_ms, binding=binding)
    return program.solve(floor_ms, below_ms)


def _undominated(trees: Sequence[Tree]) -> list[Tree]:
    """Leave out trees that use all edges of another one and are nowhere faster."""
    kept: list[Tree] = []
    known: list[tuple[int, tuple[float, ...]]] = []
    for tree in sorted(trees, key=lambda tree: (len(tree.edges), sum(tree.delays_ms.values()))):
        edges, delays_ms = sum(1 << edge for edge in tree.edges), tuple(tree.delays_ms.values())
        beaten = any(
            other & ~edges == 0 and all(map(le, others_ms, delays_ms)) for other, others_ms in known
        )
        if not beaten:
            kept.append(tree)
            known.append((edges, delays_ms))
    return kept


def _with_partners(candidates: list[list[Tree]], evened_ms: float) -> list[list[Tree]]:
    """Leave out trees whose delays to two receivers fit no tree of some other sender."""
    changed = True
    while changed and all(candidates):
        changed = False
        for s, trees in enumerate(candidates):
            kept = trees
            for other, partners in enumerate(candidates):
                if other != s and partners and partners[0].clique == trees[0].clique:
                    kept = _fitting(kept, partners, evened_ms)
            changed = changed or len(kept) < len(trees)
            candidates[s] = kept
    return candidates


def _fitting(trees: list[Tree], partners: list[Tree], evened_ms: float) -> list[Tree]:
    """Keep the trees with a fitting partner at every pair of their common receivers."""
    if not trees:
        return trees
    common = [city for city in trees[0].receivers if city in partners[0].delays_ms]
    mine = np.array([[tree.delays_ms[city] for city in common] for tree in trees])
    others = np.array([[tree.delays_ms[city] for city in common] for tree in partners])
    fits = np.ones(len(trees), dtype=bool)
    for i in range(len(common)):
        for k in range(i):
            differences = np.sort(others[:, i] - others[:, k])
            wanted = mine[:, i] - mine[:, k]
            above = np.searchsorted(differences, wanted - evened_ms)
            nearest = differences[np.minimum(above, len(differences) - 1)]
            fits &= np.abs(nearest - wanted) <= evened_ms
    return [tree for tree, good in zip(trees, fits, strict=True) if good]


class _Program:
    """Columns: trees of sender 0, 1, …; offsets; first and last start by receiver; L; D; T."""

    def __init__(
        self,
        topology: Topology,
        candidates: Sequence[Sequence[Tree]],
        demand: Demand,
        access_ms: float,
        *,
        binding: bool,
    ) -> None:
        self.topology, self.candidates, self.demand = topology, candidates, demand
        self.access_ms, self.binding = access_ms, binding
        self.start = np.concatenate([[0], np.cumsum([len(trees) for trees in candidates])])
        self.trees = int(self.start[-1])
        receivers = sorted({city for trees in candidates for city in trees[0].receivers})
        self.offset = self.trees
        self.first = {city: self.offset + len(candidates) + i for i, city in enumerate(receivers)}
        self.last = {city: column + len(receivers) for city, column in self.first.items()}
        self.load = self.offset + len(candidates) + 2 * len(receivers)
        self.duration = self.load + 1
        self.t = self.duration + 1
        self.size = self.t + 1
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def solve(self, floor_ms: float, below_ms: float) -> JointTrees:
        """Solve it, or come as near as the node limit allows."""
        self._build()
        cost, integral = np.zeros(self.size), np.zeros(self.size)
        cost[self.t] = 1.0
        for s, trees in enumerate(self.candidates):
            for column, tree in enumerate(trees, start=int(self.start[s])):
                cost[column] = _TIE_BREAK * (sum(tree.delays_ms.values()) + len(tree.edges))
        integral[: self.trees] = integral[self.load] = 1
        lower, upper = np.zeros(self.size), np.full(self.size, np.inf)
        upper[: self.trees] = 1
        lower[self.duration], lower[self.t] = self.access_ms, floor_ms
        upper[self.t] = below_ms
        entries = [(r, c, v) for r, (terms, _, _) in enumerate(self.rows) for c, v in terms.items()]
        at, on, value = zip(*entries, strict=True)
        matrix = coo_matrix((value, (at, on)), shape=(len(self.rows), self.size)).tocsr()
        nodes = int(_NODES_TIMES_SQUARED_CANDIDATES / self.trees**2) + 1
        result = milp(
            cost,
            constraints=LinearConstraint(
                matrix, [limits[1] for limits in self.rows], [limits[2] for limits in self.rows]
            ),
            integrality=integral,
            bounds=Bounds(lower, upper),
            options={"node_limit": nodes, "mip_rel_gap": 5e-4},
        )
        if result.status == 2:
            return JointTrees(None, below_ms)
        bound_ms = floor_ms if result.mip_dual_bound is None else float(result.mip_dual_bound)
        if result.x is None:
            return JointTrees(None, min(max(bound_ms, floor_ms), below_ms))
        bound_ms -= float(cost[: self.trees] @ result.x[: self.trees])
        bound_ms = min(max(bound_ms, floor_ms), below_ms)
        chosen = tuple(
            trees[int(np.argmax(result.x[self.start[s] : self.start[s + 1]]))]
            for s, trees in enumerate(self.candidates)
        )
        return JointTrees(chosen, bound_ms)

    def _build(self) -> None:
        loads: dict[int, dict[int, float]] = {}
        arriving: dict[int, list[dict[int, float]]] = {}
        for s, trees in enumerate(self.candidates):
            columns = range(int(self.start[s]), int(self.start[s + 1]))
            self.rows.append((dict.fromkeys(columns, 1.0), 1.0, 1.0))
            for column, tree in zip(columns, trees, strict=True):
                for edge in tree.edges:
                    loads.setdefault(edge, {})[column] = 1.0
            for city in trees[0].receivers:
                begin = {c: tree.delays_ms[city] for c, tree in zip(columns, trees, strict=True)}
                begin[self.offset + s] = 1.0
                end = {**begin, self.duration: 1.0, self.t: -1.0}
                self.rows.append((end, -np.inf, 0.0))
                arriving.setdefault(city, []).append(begin)
        rates = {edge.rate_gbps for edge in self.topology.edges}
        if len(rates) == 1:
            alone_ms = link_time_ms(self.demand.payload_bytes, rates.pop())
            self.rows.append(({self.load: alone_ms, self.duration: -1.0}, -np.inf, 0.0))
            for load in loads.values():
                self.rows.append(({**load, self.load: -1.0}, -np.inf, 0.0))
        else:
            self._uneven(loads)
        if self.binding:
            for city, begins in arriving.items():
                self._memory(city, begins)

    def _uneven(self, loads: dict[int, dict[int, float]]) -> None:
        payload_bytes = self.demand.payload_bytes
        for edge, load in loads.items():
            alone_ms = link_time_ms(payload_bytes, self.topology.edges[edge].rate_gbps)
            shares = dict.fromkeys(load, alone_ms)
            self.rows.append(({**shares, self.duration: -1.0}, -np.inf, 0.0))

    def _memory(self, city: int, begins: Sequence[dict[int, float]]) -> None:
        first, last = self.first[city], self.last[city]
        access_gbps = self.topology.cities[city].access_rate_gbps
        share = self.demand.room_bytes(access_gbps) / self.demand.payload_bytes
        for begin in begins:
            self.rows.append(({**begin, last: -1.0}, -np.inf, 0.0))
            self.rows.append(({**begin, first: -1.0}, 0.0, np.inf))
        if self.demand.memory_model == "hold":
            held = {last: float(len(begins)), self.duration: -share}
            for begin in begins:
                for column, value in begin.items():
                    held[column] = held.get(column, 0.0) - value
        else:
            held = {last: 1.0, first: -1.0, self.duration: -share}
        self.rows.append((held, -np.inf, 0.0))

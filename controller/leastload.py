"""Trees that trade link load against delay: least T at one common stream duration.

Ours. With memory to spare and all streams of a round equally long, the round
time is (largest delay) + (busiest link's streams × payload / capacity). Both
depend on the trees, and the trees of all senders share the links, so they are
chosen together: exactly, as an integer program, for small networks; by a
heuristic for large ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from controller.loadaware import load_aware_trees
from controller.multicast import Tree, link_time_ms, make_tree, round_cost_ms, walk_back
from testbed.routing import Routing

_MAX_VARIABLES = 8_000
# Nodes, not seconds: the same plan on a busy machine.
_NODE_LIMIT = 200
# Small against any difference of two delays, so that it only decides ties.
_TIE_BREAK = 1e-6


@dataclass(frozen=True)
class LeastLoad:
    """Chosen trees; ``note`` says why they are not proved optimal, or is empty."""

    trees: tuple[Tree, ...]
    note: str


def least_load_trees(
    routing: Routing, cliques: Sequence[Sequence[int]], payload_bytes: float
) -> LeastLoad:
    """Choose the trees of all senders of a round together.

    Parameters
    ----------
    routing
        Shortest paths of the network; a bound on every delay.
    cliques
        Disjoint cliques of city indices.
    payload_bytes
        Bytes of one stream on the wire: the price of load in terms of delay.

    Returns
    -------
    LeastLoad
        Trees in the order of `shortest_path_trees`.

    """
    size = len(routing.topology.edges) * sum(len(clique) ** 2 for clique in cliques)
    if size > _MAX_VARIABLES:
        note = f"heuristic: {size} variables are too many for the exact method"
        return LeastLoad(load_aware_trees(routing, cliques, payload_bytes), note)
    exact = _Program(routing, cliques, payload_bytes).solve()
    if exact is not None and not exact.note:
        return exact
    near = load_aware_trees(routing, cliques, payload_bytes)
    if exact is None:
        return LeastLoad(near, f"heuristic: no exact answer within {_NODE_LIMIT} nodes")
    topology = routing.topology
    near_ms = round_cost_ms(topology, near, payload_bytes)
    # The heuristic's answer is within the gap of the worse one, too.
    if near_ms < round_cost_ms(topology, exact.trees, payload_bytes):
        return LeastLoad(near, exact.note)
    return exact


class _Program:
    """The integer program: one unit of flow from each sender to each receiver.

    ``x[s, e]`` (0 or 1): edge e is in the tree of sender s. ``f[s, i, e]``: the
    way to receiver i uses it; at most x. Each city is entered at most once per
    tree, so the flows are paths. Two more variables are what is minimised: the
    largest delay and the busiest link's time in units of the fastest link's.
    """

    def __init__(
        self, routing: Routing, cliques: Sequence[Sequence[int]], payload_bytes: float
    ) -> None:
        self.routing = routing
        self.topology = topology = routing.topology
        self.members = [
            (sender, number, [city for city in clique if city != sender])
            for number, clique in enumerate(cliques)
            for sender in clique
        ]
        self.src = [topology.index(edge.src) for edge in topology.edges]
        self.dst = [topology.index(edge.dst) for edge in topology.edges]
        self.unit_gbps = max(edge.rate_gbps for edge in topology.edges)
        self.unit_ms = link_time_ms(payload_bytes, self.unit_gbps)
        self.x: dict[tuple[int, int], int] = {}
        self.f: dict[tuple[int, int, int], int] = {}
        every_edge = range(len(topology.edges))
        for s, (sender, _, receivers) in enumerate(self.members):
            for e in every_edge:
                if self.dst[e] != sender:
                    self.x[s, e] = len(self.x)
            for i in receivers:
                for e in every_edge:
                    if self.dst[e] != sender and self.src[e] != i:
                        self.f[s, i, e] = len(self.f)
        for key in self.f:
            self.f[key] += len(self.x)
        self.delay = len(self.x) + len(self.f)
        self.load = self.delay + 1
        self.size = self.load + 1

    def solve(self) -> LeastLoad | None:
        """Solve it, or come as near as the node limit allows; ``None`` if that is nowhere."""
        edges = self.topology.edges
        cost = np.zeros(self.size)
        for (_, e), column in self.x.items():
            cost[column] = _TIE_BREAK * (edges[e].delay_ms + 1e-3)
        cost[self.delay], cost[self.load] = 1.0, self.unit_ms
        integral = np.zeros(self.size)
        integral[: len(self.x)] = 1
        # Streams are whole, so with equal links the load is a whole number too.
        integral[self.load] = all(edge.rate_gbps == self.unit_gbps for edge in edges)
        lower, upper = np.zeros(self.size), np.ones(self.size)
        upper[[self.delay, self.load]] = np.inf
        delays_ms = self.routing.delays_ms()
        lower[self.delay] = max(
            delays_ms[sender, city] for sender, _, receivers in self.members for city in receivers
        )
        result = milp(
            cost,
            constraints=self._constraints(),
            integrality=integral,
            bounds=Bounds(lower, upper),
            options={"node_limit": _NODE_LIMIT, "mip_rel_gap": 0.0},
        )
        if result.x is None:
            return None
        note = "" if result.status == 0 else f"within {result.mip_gap:.1%} of the optimum"
        return LeastLoad(self._trees(result.x), note)

    def _constraints(self) -> LinearConstraint:
        rows: list[tuple[dict[int, float], float, float]] = []
        edges = self.topology.edges
        for (s, _, e), column in self.f.items():
            rows.append(({column: 1.0, self.x[s, e]: -1.0}, -np.inf, 0.0))
        for s, (sender, _, receivers) in enumerate(self.members):
            for city in range(len(self.topology.cities)):
                if city != sender:
                    entering = [
                        c
                        for e, to in enumerate(self.dst)
                        if to == city
                        if (c := self.x.get((s, e))) is not None
                    ]
                    rows.append((dict.fromkeys(entering, 1.0), -np.inf, 1.0))
            for receiver in receivers:
                rows.extend(self._way(s, sender, receiver))
        for e, edge in enumerate(edges):
            weight = self.unit_gbps / edge.rate_gbps
            using = {
                c: weight for s in range(len(self.members)) if (c := self.x.get((s, e))) is not None
            }
            rows.append(({**using, self.load: -1.0}, -np.inf, 0.0))
        return _linear(rows, self.size)

    def _way(
        self, s: int, sender: int, receiver: int
    ) -> list[tuple[dict[int, float], float, float]]:
        """Flow conservation of one unit to one receiver, and its delay."""
        balance: list[dict[int, float]] = [{} for _ in self.topology.cities]
        delay: dict[int, float] = {self.delay: -1.0}
        for e, edge in enumerate(self.topology.edges):
            column = self.f.get((s, receiver, e))
            if column is not None:
                balance[self.dst[e]][column] = 1.0
                balance[self.src[e]][column] = -1.0
                delay[column] = edge.delay_ms
        rows = [(delay, -np.inf, 0.0)]
        for city, terms in enumerate(balance):
            wanted = float((city == receiver) - (city == sender))
            rows.append((terms, wanted, wanted))
        return rows

    def _trees(self, values: Sequence[float]) -> tuple[Tree, ...]:
        """Walk back from each receiver along the one edge that enters each city."""
        trees = []
        for s, (sender, number, receivers) in enumerate(self.members):
            into = {
                self.dst[e]: e
                for e in range(len(self.dst))
                if (s, e) in self.x and values[self.x[s, e]] > 0.5
            }
            paths = {city: walk_back(into, self.src, sender, city) for city in receivers}
            trees.append(make_tree(self.topology, sender, number, paths))
        return tuple(trees)


def _linear(rows: Sequence[tuple[dict[int, float], float, float]], size: int) -> LinearConstraint:
    """Rows of (column to coefficient, least, most) as one sparse constraint."""
    entries = [(r, c, v) for r, (terms, _, _) in enumerate(rows) for c, v in terms.items()]
    row, column, value = zip(*entries, strict=True)
    matrix = coo_matrix((value, (row, column)), shape=(len(rows), size)).tocsr()
    return LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows])

"""Load-aware trees for networks that are too large for the integer program.

Ours. Along a path delays add up, load does not: what a stream costs a link does
not depend on the links before it. So a tree grows from its sender by the edge
with the smallest (delay from the sender) + (price of that edge alone), which
lies between Dijkstra's shortest paths and Prim's lightest tree. The price of an
edge rises steeply with the streams that it carries already. Each sender is led
again and again, given the trees of the others, for several prices.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

from controller.multicast import (
    Tree,
    edge_copies,
    link_time_ms,
    make_tree,
    round_cost_ms,
    shortest_path_trees,
    walk_back,
)
from testbed.routing import Routing
from testbed.topology import Topology

_PRICES = (0.1, 0.5, 2.0)
_STEEPNESS = (2, 4, 8)
_SWEEPS = 3


def load_aware_trees(
    routing: Routing, cliques: Sequence[Sequence[int]], payload_bytes: float
) -> tuple[Tree, ...]:
    """Choose trees for all senders of a round; never worse than shortest paths.

    Parameters
    ----------
    routing
        Shortest paths of the network, the start of the search.
    cliques
        Disjoint cliques of city indices.
    payload_bytes
        Bytes of one stream on the wire: the price of load in terms of delay.

    Returns
    -------
    tuple of Tree
        In the order of `shortest_path_trees`; the best by `round_cost_ms` of
        all that were seen.
    """
    topology = routing.topology
    start = shortest_path_trees(routing, cliques)
    best, best_ms = start, round_cost_ms(topology, start, payload_bytes)
    for steepness in _STEEPNESS:
        for price in _PRICES:
            for trees in _sweeps(topology, start, payload_bytes * price, steepness):
                cost_ms = round_cost_ms(topology, trees, payload_bytes)
                if cost_ms < best_ms - 1e-9:
                    best, best_ms = tuple(trees), cost_ms
    return best


def _sweeps(
    topology: Topology, start: Sequence[Tree], priced_bytes: float, steepness: int
) -> Iterator[list[Tree]]:
    """Lead one sender after the other; yields the trees after each step."""
    trees = list(start)
    copies = Counter(edge_copies(trees, multicast=True))
    edge_ms = [link_time_ms(priced_bytes, edge.rate_gbps) for edge in topology.edges]
    grow = _Grower(topology)
    for step in range(_SWEEPS * len(trees)):
        position = step % len(trees)
        copies.subtract(trees[position].edges)
        peak = max(copies.values())
        prices_ms = [
            whole_ms * peak * ((copies[e] + 1) / (peak + 1)) ** steepness
            for e, whole_ms in enumerate(edge_ms)
        ]
        trees[position] = grow.tree(trees[position], prices_ms)
        copies.update(trees[position].edges)
        yield trees


class _Grower:
    """Grows trees edge by edge on one topology."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.src = [topology.index(edge.src) for edge in topology.edges]
        self.dst = [topology.index(edge.dst) for edge in topology.edges]
        self.out: list[list[int]] = [[] for _ in topology.cities]
        for e, city in enumerate(self.src):
            self.out[city].append(e)

    def tree(self, old: Tree, prices_ms: Sequence[float]) -> Tree:
        """Lead the stream of a tree anew, by delay so far plus price of the next edge."""
        into: dict[int, int] = {}
        queue = [(0.0, -1, 0.0, old.sender)]
        done: set[int] = set()
        while queue:
            _, entered_by, so_far_ms, city = heapq.heappop(queue)
            if city in done:
                continue
            done.add(city)
            into[city] = entered_by
            for e in self.out[city]:
                if self.dst[e] not in done:
                    delay_ms = so_far_ms + self.topology.edges[e].delay_ms
                    heapq.heappush(queue, (delay_ms + prices_ms[e], e, delay_ms, self.dst[e]))
        paths = {city: walk_back(into, self.src, old.sender, city) for city in old.receivers}
        return make_tree(self.topology, old.sender, old.clique, paths)

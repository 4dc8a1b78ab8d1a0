"""All trees of a small network: the candidates that the joint choice picks from.

Ours. Every multicast tree is part of a spanning tree whose links are directed
away from the sender, so the spanning trees of the network, cut back to what
the receivers need, are all the trees there are. Their number comes from
Kirchhoff's theorem before any is built; parallel links count as links of their
own, and the two directions of a link may differ in delay.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from controller.multicast import Tree, make_tree, walk_back
from testbed.topology import Topology


def count_spanning_trees(topology: Topology) -> float:
    """How many spanning trees the links form (Kirchhoff's matrix-tree theorem)."""
    count = len(topology.cities)
    laplacian = np.zeros((count, count))
    for link in topology.links:
        a, b = topology.index(link.a), topology.index(link.b)
        laplacian[[a, b], [a, b]] += 1
        laplacian[[a, b], [b, a]] -= 1
    sign, logarithm = np.linalg.slogdet(laplacian[1:, 1:])
    return float(sign * np.exp(min(logarithm, 700.0)))


def spanning_trees(topology: Topology) -> Iterator[tuple[int, ...]]:
    """Every spanning tree, as link indices in ascending order.

    Branches on the links in order: contract a link or leave it out. A branch
    that cannot span any more ends at once.
    """
    ends = [(topology.index(link.a), topology.index(link.b)) for link in topology.links]
    count = len(topology.cities)

    def spans(labels: Sequence[int], start: int) -> bool:
        """Whether the links from ``start`` on can still join all parts."""
        part = list(labels)
        for a, b in ends[start:]:
            old, new = part[a], part[b]
            if old != new:
                part = [new if value == old else value for value in part]
        return len(set(part)) == 1

    def branch(labels: list[int], start: int, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == count - 1:
            yield chosen
            return
        if start == len(ends) or not spans(labels, start):
            return
        old, new = (labels[city] for city in ends[start])
        if old != new:
            joined = [new if value == old else value for value in labels]
            yield from branch(joined, start + 1, (*chosen, start))
        yield from branch(labels, start + 1, chosen)

    yield from branch(list(range(count)), 0, ())


class TreeCatalogue:
    """The trees of one topology, built once and cut back for each question.

    Parameters
    ----------
    topology
        A network with few enough spanning trees; see `count_spanning_trees`.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._src = [topology.index(edge.src) for edge in topology.edges]
        self._dst = [topology.index(edge.dst) for edge in topology.edges]
        self._spanning = tuple(spanning_trees(topology))
        self._into: dict[int, list[dict[int, int]]] = {}
        self._trees: dict[tuple[int, int, tuple[int, ...]], tuple[Tree, ...]] = {}

    def trees(self, sender: int, clique: int, receivers: Sequence[int]) -> tuple[Tree, ...]:
        """List all trees from a sender to its receivers, each once."""
        key = (sender, clique, tuple(receivers))
        if key not in self._trees:
            self._trees[key] = self._cut_back(*key)
        return self._trees[key]

    def _cut_back(self, sender: int, clique: int, receivers: tuple[int, ...]) -> tuple[Tree, ...]:
        if sender not in self._into:
            self._into[sender] = [self._rooted(links, sender) for links in self._spanning]
        ways: dict[tuple[tuple[int, ...], ...], None] = {}
        for into in self._into[sender]:
            paths = tuple(walk_back(into, self._src, sender, city) for city in receivers)
            ways.setdefault(paths)
        return tuple(
            make_tree(self.topology, sender, clique, dict(zip(receivers, paths, strict=True)))
            for paths in ways
        )

    def _rooted(self, links: Sequence[int], root: int) -> dict[int, int]:
        """City to the edge that enters it, with all links directed away from the root."""
        touching: dict[int, list[int]] = {}
        for link in links:
            for edge in (2 * link, 2 * link + 1):
                touching.setdefault(self._src[edge], []).append(edge)
        into: dict[int, int] = {}
        frontier = [root]
        while frontier:
            for edge in touching.get(frontier.pop(), ()):
                city = self._dst[edge]
                if city != root and city not in into:
                    into[city] = edge
                    frontier.append(city)
        return into

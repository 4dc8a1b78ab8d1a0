"""All trees that a stream can take, tabulated once for a network.

Ours. Each multicast tree is a spanning tree of the network, cut back to the
ways that its receivers need. A small network has few spanning trees (the nine
cities some hundreds), so all are listed and whoever chooses from the table
chooses from every tree there is. A large network has too many; the table then
holds a sample for each sender: the shortest paths, and trees grown with links
made dearer at random.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.routing import route
from testbed.topology import Topology

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_MAX_TREES = 4_000
_SAMPLES = 10
# A random price of up to this many times the longest link bends a tree as far
# as a load of a few streams would.
_PRICE_SCALES = (0.25, 1.0, 3.0)
_WORD_BITS = 63


@dataclass(frozen=True)
class TreeChoice:
    """The trees that lead from one sender to its receivers.

    Attributes
    ----------
    usage
        Shape (choices, edges): whether a tree uses an edge.
    delays_ms
        Shape (choices, receivers), in the order of the receivers.
    spanning
        Shape (choices,): the spanning tree in the table that each is cut from.
    """

    usage: Flags
    delays_ms: Floats
    spanning: npt.NDArray[np.int64]

    @property
    def latency_ms(self) -> Floats:
        """Largest delay of each tree."""
        latest: Floats = self.delays_ms.max(axis=1)
        return latest


class TreeTable:
    """Spanning trees of a network, as ways from each root.

    Parameters
    ----------
    topology
        The network.
    seed
        Of the sample, for a network with too many spanning trees.

    Attributes
    ----------
    complete
        Whether all trees are in it.
    """

    def __init__(self, topology: Topology, seed: int = 0) -> None:
        self.topology = topology
        self.ends = [(topology.index(e.src), topology.index(e.dst)) for e in topology.edges]
        count = len(topology.cities)
        self.complete = count_spanning_trees(topology) <= _MAX_TREES
        self._choices: dict[tuple[int, tuple[int, ...], bool], TreeChoice] = {}
        self._ways: list[tuple[Flags, Floats]] = []
        if self.complete:
            trees = list(_spanning_trees(count, self.ends[0::2]))
            for root in range(count):
                entering = [_root_tree(root, links, self.ends) for links in trees]
                self._ways.append(self._expand(root, entering))
        else:
            rng = np.random.default_rng(seed)
            shortest = route(topology).last_edges
            for root in range(count):
                sample = [list(shortest[root]), *self._sampled(root, rng)]
                self._ways.append(self._expand(root, sample))

    def choose(
        self, sender: int, receivers: Sequence[int], *, keep_all: bool = False
    ) -> TreeChoice:
        """List the trees from a sender to its receivers.

        Parameters
        ----------
        sender, receivers
            City indices.
        keep_all
            Also list trees that use more edges than another one and are no
            faster (they matter where delays have to match).
        """
        key = (sender, tuple(receivers), keep_all)
        if key not in self._choices:
            usage, delays_ms = self._ways[sender]
            merged: Flags = np.any(usage[:, list(receivers), :], axis=1)
            wanted = delays_ms[:, list(receivers)]
            kept = _distinct(merged) if keep_all else _useful(merged, wanted.max(axis=1))
            self._choices[key] = TreeChoice(merged[kept], wanted[kept], kept)
        return self._choices[key]

    def path(self, sender: int, spanning: int, receiver: int) -> tuple[int, ...]:
        """Edges from a sender to a receiver along one of its spanning trees, in order."""
        left = set(np.flatnonzero(self._ways[sender][0][spanning, receiver]).tolist())
        leaving = {self.ends[edge][0]: edge for edge in left}
        path: list[int] = []
        city = sender
        while city != receiver:
            path.append(leaving[city])
            city = self.ends[leaving[city]][1]
        return tuple(path)

    def _expand(self, root: int, entering: Sequence[Sequence[int]]) -> tuple[Flags, Floats]:
        """Ways from the root to each city: edges used, and the delay."""
        count, edges = len(self.topology.cities), self.topology.edges
        usage = np.zeros((len(entering), count, len(edges)), dtype=np.bool_)
        delays_ms = np.zeros((len(entering), count))
        for tree, into in enumerate(entering):
            for city in _outward(root, into, self.ends):
                edge = into[city]
                before = self.ends[edge][0]
                usage[tree, city] = usage[tree, before]
                usage[tree, city, edge] = True
                delays_ms[tree, city] = delays_ms[tree, before] + edges[edge].delay_ms
        return usage, delays_ms

    def _sampled(self, root: int, rng: np.random.Generator) -> Iterator[list[int]]:
        """Grow trees by (delay so far) + (random price of the next edge)."""
        edges = self.topology.edges
        longest_ms = max(edge.delay_ms for edge in edges)
        for number in range(_SAMPLES - 1):
            scale_ms = longest_ms * _PRICE_SCALES[number % len(_PRICE_SCALES)]
            prices_ms = rng.random(len(edges)) * scale_ms
            yield self._grow(root, prices_ms.tolist())

    def _grow(self, root: int, prices_ms: Sequence[float]) -> list[int]:
        into = [-1] * len(self.topology.cities)
        done: set[int] = set()
        queue = [(0.0, -1, 0.0, root)]
        while queue:
            _, entered_by, so_far_ms, city = heapq.heappop(queue)
            if city in done:
                continue
            done.add(city)
            into[city] = entered_by
            for edge, (src, dst) in enumerate(self.ends):
                if src == city and dst not in done:
                    delay_ms = so_far_ms + self.topology.edges[edge].delay_ms
                    heapq.heappush(queue, (delay_ms + prices_ms[edge], edge, delay_ms, dst))
        return into


def count_spanning_trees(topology: Topology) -> float:
    """Count the spanning trees of a network (Kirchhoff's theorem), parallel links apart."""
    count = len(topology.cities)
    laplacian = np.zeros((count, count))
    for link in topology.links:
        a, b = topology.index(link.a), topology.index(link.b)
        laplacian[[a, b], [a, b]] += 1
        laplacian[[a, b], [b, a]] -= 1
    return float(np.rint(np.linalg.det(laplacian[1:, 1:])))


def _spanning_trees(count: int, links: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """List the link sets that are spanning trees: take or leave one link after the other."""

    def extend(first: int, part: tuple[int, ...], taken: list[int]) -> Iterator[list[int]]:
        if len(taken) == count - 1:
            yield taken
            return
        if len(links) - first < count - 1 - len(taken):
            return
        a, b = part[links[first][0]], part[links[first][1]]
        if a != b:
            merged = tuple(a if p == b else p for p in part)
            yield from extend(first + 1, merged, [*taken, first])
        yield from extend(first + 1, part, taken)

    return extend(0, tuple(range(count)), [])


def _root_tree(root: int, links: Sequence[int], ends: Sequence[tuple[int, int]]) -> list[int]:
    """Direct the links of a tree away from a root: the edge that enters each city."""
    into = [-1] * (len(links) + 1)
    frontier, seen = [root], {root}
    while frontier:
        city = frontier.pop()
        for link in links:
            for edge in (2 * link, 2 * link + 1):
                src, dst = ends[edge]
                if src == city and dst not in seen:
                    into[dst] = edge
                    seen.add(dst)
                    frontier.append(dst)
    return into


def _outward(root: int, into: Sequence[int], ends: Sequence[tuple[int, int]]) -> Iterator[int]:
    """All cities but the root, each after the one before it on its way."""
    done = {root}
    pending = [city for city in range(len(into)) if city != root]
    while pending:
        ready = [city for city in pending if ends[into[city]][0] in done]
        yield from ready
        done.update(ready)
        pending = [city for city in pending if city not in done]


def _distinct(usage: Flags) -> npt.NDArray[np.int64]:
    """Rows without repetition, the first of each, in order."""
    _, first = np.unique(usage, axis=0, return_index=True)
    return np.sort(first).astype(np.int64)


def _useful(usage: Flags, latency_ms: Floats) -> npt.NDArray[np.int64]:
    """Rows that no other row beats: no more edges and no later. Fastest first."""
    rows = _distinct(usage)
    rows = rows[np.lexsort((usage[rows].sum(axis=1), latency_ms[rows]))]
    if usage.shape[1] > _WORD_BITS:
        return rows
    bits = usage[rows] @ (1 << np.arange(usage.shape[1], dtype=np.int64))
    # Rows are in order of latency, so only an earlier one, or an equal one, beats.
    inside = (bits[None, :] & ~bits[:, None]) == 0
    early = latency_ms[rows][None, :] <= latency_ms[rows][:, None] + 1e-9
    beaten = (inside & early & ~np.eye(len(rows), dtype=np.bool_)).any(axis=1)
    useful: npt.NDArray[np.int64] = rows[~beaten]
    return useful

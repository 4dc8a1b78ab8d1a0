"""Routes: the templates of sends. A route says which links a send occupies, and when."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from controller.collectives.network import Floats, Ints, Network


@dataclass(frozen=True)
class Table:
    """Rows of different lengths: row i is ``values[first[i] : first[i + 1]]``."""

    first: Ints
    values: Ints

    def row(self, index: int) -> Ints:
        """One row."""
        return self.values[self.first[index] : self.first[index + 1]]

    @property
    def lengths(self) -> Ints:
        """Length of each row."""
        return np.diff(self.first)


@dataclass(frozen=True, eq=False)
class Routes:
    """Ways of a chunk from its sources to its targets.

    A send on a route at time t begins at each source at t + its offset, occupies each hop from
    t + the hop's offset, and the first byte is at a target at t + the target's offset. All hops
    carry the same stream, at the rate of the slowest one.

    Attributes
    ----------
    sources, source_ps
        Nodes whose values are sent, or added up on the way, and their offsets.
    targets, target_ps
        Nodes that receive it.
    hops, hop_ps
        Links.
    byte_ps
        Time that a further byte takes, shape (routes,).
    """

    sources: Table
    source_ps: Ints
    targets: Table
    target_ps: Ints
    hops: Table
    hop_ps: Ints
    byte_ps: Floats

    @property
    def count(self) -> int:
        """Number of routes."""
        return len(self.byte_ps)

    @property
    def source(self) -> Ints:
        """First source of each route: the only one of a plain route."""
        return self.sources.values[self.sources.first[:-1]]

    @property
    def target(self) -> Ints:
        """First target of each route: the only one of a plain route."""
        return self.targets.values[self.targets.first[:-1]]

    @property
    def latency_ps(self) -> Ints:
        """Time until the first byte is at the last target, shape (routes,)."""
        return np.maximum.reduceat(self.target_ps, self.targets.first[:-1])

    @property
    def single(self) -> bool:
        """Whether every route is one link, and each link has one route at most."""
        return len(self.hops.values) == self.count and len(set(self.hops.values)) == self.count


@dataclass(frozen=True)
class Way:
    """One route, as it is put together.

    Attributes
    ----------
    sources, targets, hops
        Pairs of a node or link and its offset in picoseconds.
    """

    sources: tuple[tuple[int, int], ...]
    targets: tuple[tuple[int, int], ...]
    hops: tuple[tuple[int, int], ...]


def link_routes(network: Network) -> Routes:
    """One route for each link, with the link's number."""
    count = network.links
    zero, each = np.zeros(count, dtype=np.int64), np.arange(count + 1, dtype=np.int64)
    return Routes(
        Table(each, network.src),
        zero,
        Table(each, network.dst),
        network.latency_ps,
        Table(each, np.arange(count, dtype=np.int64)),
        zero,
        network.byte_ps,
    )


def collect(network: Network, ways: Sequence[Way]) -> Routes:
    """Routes of ways, in their order."""
    parts = [[way.sources for way in ways], [way.targets for way in ways], [w.hops for w in ways]]
    tables, offsets = [], []
    for part in parts:
        first = np.cumsum([0, *(len(row) for row in part)], dtype=np.int64)
        flat = np.array([pair for row in part for pair in row], dtype=np.int64).reshape(-1, 2)
        tables.append(Table(first, flat[:, 0].copy()))
        offsets.append(flat[:, 1].copy())
    slowest = [max(network.byte_ps[link] for link, _ in way.hops) for way in ways]
    return Routes(
        tables[0],
        offsets[0],
        tables[1],
        offsets[1],
        tables[2],
        offsets[2],
        np.array(slowest, dtype=np.float64),
    )


def path_way(network: Network, links: Sequence[int]) -> Way:
    """The way along a path of links."""
    offset = 0
    hops = []
    for link in links:
        hops.append((int(link), offset))
        offset += int(network.latency_ps[link])
    source, target = int(network.src[links[0]]), int(network.dst[links[-1]])
    return Way(((source, 0),), ((target, offset),), tuple(hops))


def lightest_links(network: Network, weights: Floats) -> Ints:
    """The lightest one of the links between each two nodes that have any."""
    order = np.lexsort((weights, network.dst, network.src))
    src, dst = network.src[order], network.dst[order]
    new = np.r_[True, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])]
    return order[new]


def shortest_paths(
    network: Network, weights: Floats, sources: Sequence[int]
) -> list[list[list[int]]]:
    """Links of the lightest paths from each source to every node; empty to itself.

    Parameters
    ----------
    network
        The graph.
    weights
        Of each link, above 0.
    sources
        Node numbers.
    """
    links = lightest_links(network, weights)
    src, dst = network.src[links], network.dst[links]
    best = dict(zip(zip(src.tolist(), dst.tolist(), strict=True), links.tolist(), strict=True))
    count = len(network.nodes)
    graph = csr_array((weights[links], (src, dst)), shape=(count, count))
    _, before = dijkstra(graph, indices=list(sources), return_predecessors=True)
    paths = []
    for row, source in zip(np.atleast_2d(before), sources, strict=True):
        found: list[list[int]] = []
        for node in range(count):
            path: list[int] = []
            while node != source:
                previous = int(row[node])
                path.append(best[previous, node])
                node = previous
            found.append(path[::-1])
        paths.append(found)
    return paths


def send_weights(network: Network, chunk_bytes: float) -> Floats:
    """Time of one chunk on each link, in picoseconds: latency and transmission."""
    weights: Floats = network.latency_ps + chunk_bytes * network.byte_ps + 1e-3
    return weights


def reverse_routes(network: Network, routes: Routes) -> Routes:
    """The same routes run backwards: on the reversed network, from targets to sources.

    Parameters
    ----------
    network
        The one that the routes were made for; either direction will do.
    routes
        What to reverse.
    """
    latency = routes.latency_ps
    hop_total = np.repeat(latency, routes.hops.lengths)
    return Routes(
        routes.targets,
        np.repeat(latency, routes.targets.lengths) - routes.target_ps,
        routes.sources,
        np.repeat(latency, routes.sources.lengths) - routes.source_ps,
        routes.hops,
        hop_total - routes.hop_ps - network.latency_ps[routes.hops.values],
        routes.byte_ps,
    )


def join_routes(first: Routes, second: Routes) -> Routes:
    """The routes of both; the numbers of the second ones begin after those of the first."""

    def joined(a: Table, b: Table) -> Table:
        starts = np.concatenate([a.first, b.first[1:] + a.first[-1]])
        return Table(starts, np.concatenate([a.values, b.values]))

    return Routes(
        joined(first.sources, second.sources),
        np.concatenate([first.source_ps, second.source_ps]),
        joined(first.targets, second.targets),
        np.concatenate([first.target_ps, second.target_ps]),
        joined(first.hops, second.hops),
        np.concatenate([first.hop_ps, second.hop_ps]),
        np.concatenate([first.byte_ps, second.byte_ps]),
    )

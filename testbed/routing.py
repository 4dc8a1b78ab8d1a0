"""Shortest paths by one-way delay, the same ones for trees and next-hop tables.

Ties are broken so that there is exactly one shortest path for each ordered
pair of cities: least delay, then fewest links, then the set of edges with the
smallest indices. Therefore each part of a shortest path is the shortest path
between its ends, a tree from a sender is a tree, and following next hops
towards a destination gives the sender's path.
"""

import heapq
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.topology import Topology

_TICKS_PER_MS = 10**9
_HOP_BITS = 8


@dataclass(frozen=True)
class Routing:
    """All shortest paths of a topology.

    Attributes
    ----------
    topology
        The network that they lead through.
    last_edges
        ``last_edges[s][v]``: the edge that enters city ``v`` on the way from
        ``s``, or −1 where ``v`` is ``s`` or cannot be reached.
    """

    topology: Topology
    last_edges: tuple[tuple[int, ...], ...]

    def reaches(self, src: int, dst: int) -> bool:
        """Whether there is a way between two city indices."""
        return src == dst or self.last_edges[src][dst] >= 0

    def path(self, src: int, dst: int) -> tuple[int, ...]:
        """Edges of the shortest path between two city indices, in order; there has to be one."""
        edges: list[int] = []
        city = dst
        while city != src:
            edge = self.last_edges[src][city]
            edges.append(edge)
            city = self.topology.index(self.topology.edges[edge].src)
        return tuple(reversed(edges))

    def delays_ms(self) -> npt.NDArray[np.float64]:
        """One-way delays along the shortest paths, shape (cities, cities), in ms."""
        count = len(self.topology.cities)
        return np.array(
            [
                [path_delay_ms(self.topology, self.path(src, dst)) for dst in range(count)]
                for src in range(count)
            ]
        )

    def unicast(self) -> dict[str, dict[str, int]]:
        """Next-hop table: destination city to (city to the edge that leads on)."""
        codes = self.topology.codes
        return {
            dst: {src: self.path(i, j)[0] for i, src in enumerate(codes) if i != j}
            for j, dst in enumerate(codes)
        }


def path_delay_ms(topology: Topology, edges: tuple[int, ...]) -> float:
    """Sum of the one-way delays of a path's edges, in ms."""
    return sum(topology.edges[edge].delay_ms for edge in edges)


def route(topology: Topology, *, without: Collection[int] = ()) -> Routing:
    """Find all shortest paths of a topology (Dijkstra, exact integers).

    Parameters
    ----------
    topology
        A connected network.
    without
        Indices of links that no path may take.

    Returns
    -------
    Routing
        One path for each ordered pair of cities that are still connected.
    """
    edges = topology.edges
    # Delay, hops and edge set in one integer: sums compare in that order, and
    # two different simple paths never weigh the same.
    bits = len(edges)
    weights = [
        round(edge.delay_ms * _TICKS_PER_MS) << (bits + _HOP_BITS) | 1 << bits | 1 << edge.index
        for edge in edges
    ]
    out_edges: list[list[tuple[int, int]]] = [[] for _ in topology.cities]
    for edge in (edge for edge in edges if edge.link not in without):
        out_edges[topology.index(edge.src)].append((edge.index, topology.index(edge.dst)))
    return Routing(
        topology,
        tuple(_last_edges(src, out_edges, weights) for src in range(len(topology.cities))),
    )


def _last_edges(
    src: int, out_edges: list[list[tuple[int, int]]], weights: list[int]
) -> tuple[int, ...]:
    """Dijkstra from one city: the edge that enters each other city."""
    last = [-1] * len(out_edges)
    best: list[int | None] = [None] * len(out_edges)
    best[src] = 0
    queue = [(0, src)]
    while queue:
        cost, city = heapq.heappop(queue)
        if cost != best[city]:
            continue
        for edge, neighbour in out_edges[city]:
            through = cost + weights[edge]
            known = best[neighbour]
            if known is None or through < known:
                best[neighbour] = through
                last[neighbour] = edge
                heapq.heappush(queue, (through, neighbour))
    return tuple(last)

"""Striping a payload over several trees: what that could gain, at planning level.

Ours. Each sender splits its payload over any of its trees; stripe c of sender j
carries the share z_jc at the rate z_jc P / D, so that all stripes last equally
long. T is the largest delay of any tree that is used plus D. For a limit on the
delays a linear program finds the least D: Σ z = 1 per sender, and on each link
Σ z · P / C ≤ D; the limit is then searched over all delays that occur. With
memory to spare only: stripes on different trees arrive at different times.
Packets do not run stripes; the figure says what they would be worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.bounds import access_duration_ms
from controller.demand import Demand
from controller.linear import LinearProgram
from controller.multicast import Tree, link_time_ms
from controller.treeset import TreeCatalogue

_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Striping:
    """The least round time with stripes.

    Attributes
    ----------
    t_ms
        Round time: exact over all trees of the network.
    delay_ms, duration_ms
        Its two parts.
    stripes
        Sender to its trees with their shares of the payload.
    """

    t_ms: float
    delay_ms: float
    duration_ms: float
    stripes: Mapping[int, Sequence[tuple[Tree, float]]]


def stripe(catalogue: TreeCatalogue, cliques: Sequence[Sequence[int]], demand: Demand) -> Striping:
    """Split all payloads of a round over trees for the least T.

    Parameters
    ----------
    catalogue
        All trees of the network.
    cliques
        Disjoint cliques of city indices.
    demand
        Payload and rules, with multicast; the memory is taken to be ample.
    """
    topology = catalogue.topology
    candidates = [
        sorted(
            catalogue.trees(sender, number, [city for city in clique if city != sender]),
            key=lambda tree: max(tree.delays_ms.values()),
        )
        for number, clique in enumerate(cliques)
        for sender in clique
    ]
    access_ms = access_duration_ms(topology, cliques, demand)
    alone_ms = [link_time_ms(demand.payload_bytes, edge.rate_gbps) for edge in topology.edges]
    longest = [[max(tree.delays_ms.values()) for tree in trees] for trees in candidates]
    limits_ms = sorted({round(ms, 6) for delays in longest for ms in delays})
    # Below, some sender has no tree at all.
    first_ms = max(delays[0] for delays in longest)
    limits_ms = [ms for ms in limits_ms if ms >= first_ms - 1e-6]
    _, floor_ms = _least_duration(candidates, alone_ms, access_ms)
    best: Striping | None = None
    low = 0
    while low < len(limits_ms):
        limit_ms = limits_ms[low]
        if best is not None and limit_ms + floor_ms >= best.t_ms:
            break
        allowed = [
            [tree for tree, ms in zip(trees, delays, strict=True) if ms <= limit_ms + 1e-6]
            for trees, delays in zip(candidates, longest, strict=True)
        ]
        shares, duration_ms = _least_duration(allowed, alone_ms, access_ms)
        if best is None or limit_ms + duration_ms < best.t_ms - 1e-9:
            best = _striping(allowed, shares, duration_ms)
        low += 1
    if best is None:
        raise ValueError("a connected network has trees")
    return best


def _least_duration(
    candidates: Sequence[Sequence[Tree]], alone_ms: Sequence[float], access_ms: float
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], float]:
    """Shares by candidate, in order, and the least common duration."""
    program = LinearProgram()
    program.columns(sum(map(len, candidates)))
    duration = program.columns(1)
    loads: dict[int, dict[int, float]] = {}
    column = 0
    for trees in candidates:
        own = range(column, column + len(trees))
        program.add(dict.fromkeys(own, -1.0), -1.0)
        for tree in trees:
            for edge in tree.edges:
                loads.setdefault(edge, {})[column] = alone_ms[edge]
            column += 1
    for load in loads.values():
        program.add({**load, duration: -1.0}, 0.0)
    cost, lower = np.zeros(program.size), np.zeros(program.size)
    cost[duration], lower[duration] = 1.0, access_ms
    found = program.solve(cost, lower, np.full(program.size, np.inf))
    if found is None:
        raise ValueError("every sender has a tree")
    return found.values[:-1], float(found.values[duration])


def _striping(
    candidates: Sequence[Sequence[Tree]],
    shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    duration_ms: float,
) -> Striping:
    stripes: dict[int, list[tuple[Tree, float]]] = {}
    column = 0
    delay_ms = 0.0
    for trees in candidates:
        own = shares[column : column + len(trees)]
        column += len(trees)
        used = [
            (tree, float(share / own.sum()))
            for tree, share in zip(trees, own, strict=True)
            if share > _LEAST_SHARE
        ]
        stripes[trees[0].sender] = used
        delay_ms = max([delay_ms, *(max(tree.delays_ms.values()) for tree, _ in used)])
    return Striping(delay_ms + duration_ms, delay_ms, duration_ms, stripes)

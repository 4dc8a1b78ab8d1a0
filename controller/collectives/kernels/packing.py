"""Pairs of trees, one in which sums gather at a root and one in which copies leave it.

Each pair is grown where links are cheap, and makes the links that it uses dearer: an
approximation of the packing of trees in which the busiest link is least busy, after Garg and
Könemann (1998). Trees are grown as by Prim, along directed links, which is not always the
least tree.
"""

import numpy as np

from controller.collectives.kernels.bits import random_step
from controller.collectives.kernels.compiled import helper, kernel
from controller.collectives.kernels.lanes import Lanes
from controller.collectives.network import Floats, Ints


@helper
def grow(
    price: Floats, ends: Ints, offsets: Ints, lanes: Ints, root: int, nodes: int, link: Ints
) -> float:
    """Grow a tree from a root along links out of it; return its price.

    Parameters
    ----------
    price
        Of each link.
    ends
        The far end of each link.
    offsets, lanes
        Links by their near end.
    root, nodes
        Where it begins, and how many nodes there are.
    link
        Filled: the link that reaches each node, −1 for the root.
    """
    least = np.full(nodes, np.inf)
    reached = np.zeros(nodes, dtype=np.bool_)
    least[root] = 0.0
    link[:] = -1
    total = 0.0
    for _ in range(nodes):
        node = -1
        for other in range(nodes):
            if not reached[other] and (node < 0 or least[other] < least[node]):
                node = other
        reached[node] = True
        total += least[node]
        for j in range(offsets[node], offsets[node + 1]):
            lane = lanes[j]
            end = ends[lane]
            if not reached[end] and price[lane] < least[end]:
                least[end] = price[lane]
                link[end] = lane
    return total


@kernel
def pack_trees(
    lanes: Lanes,
    busy: Floats,
    steepness: float,
    tries: int,
    seed: int,
    root: Ints,
    up: Ints,
    down: Ints,
) -> None:
    """Choose pairs of trees one after the other.

    Parameters
    ----------
    lanes
        The links.
    busy
        Time that a chunk takes on each link, relative to the slowest.
    steepness
        By which share the slowest link becomes dearer when it is used.
    tries
        Roots that are tried for each pair; with at least as many as there are nodes, all.
    seed
        Of the roots that are tried, above 0.
    root, up, down
        Filled, a row per pair: the root; per node the link by which its sum leaves, and the one
        by which its copy comes, −1 at the root.
    """
    pairs, nodes = up.shape
    dice = np.array([seed], dtype=np.uint64)
    price = np.ones(len(busy))
    sums = np.zeros(nodes, dtype=np.int64)
    copies = np.zeros(nodes, dtype=np.int64)
    for pair in range(pairs):
        cost = busy * price
        best = np.inf
        for turn in range(min(tries, nodes)):
            start = turn if tries >= nodes else random_step(dice, nodes)
            total = grow(cost, lanes[0], lanes[2], lanes[3], start, nodes, sums)
            total += grow(cost, lanes[1], lanes[4], lanes[5], start, nodes, copies)
            if total < best:
                best = total
                root[pair] = start
                up[pair] = sums
                down[pair] = copies
        for node in range(nodes):
            if node != root[pair]:
                price[up[pair, node]] *= 1 + steepness * busy[up[pair, node]]
                price[down[pair, node]] *= 1 + steepness * busy[down[pair, node]]
        # Only relations between prices matter, and they must stay within range.
        price /= price.max()

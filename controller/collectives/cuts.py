"""Cuts of the network by maximum flow: what must cross them bounds every schedule."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from controller.collectives.network import Floats, Ints, Network

Members = npt.NDArray[np.bool_]

_SCALE = 1 << 22
_MAX_STEPS = 32


def source_side(
    network: Network, capacity: Floats, supply: Floats, target: int
) -> tuple[float, Members]:
    """Least cut between a super-source that feeds some nodes, and a target.

    Parameters
    ----------
    network
        The graph.
    capacity
        Of each link, above 0.
    supply
        What the super-source can feed into each node, shape (nodes,); it may be infinite.
    target
        Node number.

    Returns
    -------
    tuple
        Flow, and the nodes on the source's side. Capacities are rounded for the flow, so
        evaluate the cut itself where exactness matters.
    """
    count = len(network.nodes)
    finite = np.minimum(supply, capacity.sum() + 1.0)
    fed = np.flatnonzero(finite > 0)
    src = np.concatenate([network.src, np.full(len(fed), count)])
    dst = np.concatenate([network.dst, fed])
    flows = np.concatenate([capacity, finite[fed]])
    scale = _SCALE * 64 / max(float(flows.sum()), 1e-300)
    whole = np.maximum(np.rint(flows * scale), 1).astype(np.int32)
    graph = csr_array((whole, (src, dst)), shape=(count + 1, count + 1))
    graph.sum_duplicates()
    result = maximum_flow(graph, count, target)
    residual = graph - result.flow
    residual.data[residual.data < 0] = 0
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, count, return_predecessors=False)
    side = np.zeros(count + 1, dtype=np.bool_)
    side[reached] = True
    return float(result.flow_value) / scale, side[:count]


def crossing(network: Network, side: Members) -> float:
    """Bytes per µs that the links out of a set of nodes carry."""
    leaving = side[network.src] & ~side[network.dst]
    return float(network.bytes_per_us[leaving].sum())


def worst_gather(network: Network, targets: Ints) -> float:
    """Largest |S ∩ workers| / B⁺(S) over sets S without a target, in µs per byte of a part.

    Every worker's part must leave each set that lacks a worker. Newton's iteration on the
    ratio (Dinkelbach 1967): each step's least cut either improves it or proves it.

    Parameters
    ----------
    network
        The graph.
    targets
        Workers that the sets are to miss; the more, the tighter.
    """
    worker = np.zeros(len(network.nodes))
    worker[network.workers] = 1.0
    best = 0.0
    for target in targets.tolist():
        side = np.ones(len(network.nodes), dtype=np.bool_)
        side[target] = False
        best = max(best, worker[side].sum() / crossing(network, side))
        supply = worker.copy()
        supply[target] = 0.0
        for _ in range(_MAX_STEPS):
            _, side = source_side(network, network.bytes_per_us * best, supply, target)
            if side[target] or not worker[side].any():
                break
            ratio = float(worker[side].sum()) / crossing(network, side)
            if ratio <= best * (1 + 1e-9):
                break
            best = ratio
    return best


def least_cut(network: Network, source: int, targets: Ints) -> float:
    """Least capacity, in bytes per µs, of a cut between a source and any of the targets."""
    supply = np.zeros(len(network.nodes))
    supply[source] = np.inf
    least = np.inf
    for target in targets.tolist():
        if target != source:
            _, side = source_side(network, network.bytes_per_us, supply, target)
            if side[source] and not side[target]:
                least = min(least, crossing(network, side))
    return least


def weakest(network: Network, count: int, *, into: bool) -> Ints:
    """The workers with the least capacity into them, or out of them: at most ``count``."""
    ends = network.dst if into else network.src
    capacity = np.bincount(ends, network.bytes_per_us, len(network.nodes))[network.workers]
    return network.workers[np.argsort(capacity, kind="stable")[:count]]

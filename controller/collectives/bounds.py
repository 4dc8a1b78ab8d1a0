"""Times that no schedule can beat; a schedule is reported relative to the largest of them.

Cut: what must cross a set of links, over their capacity. Ports: the chunks that a worker must
take in, or give out, over its links, counted whole. Latency: the longest shortest path. Host
traffic: without aggregation in the network an all-reduce is a gossip, which takes 2 (N − 1)
receptions of each byte (Harary and Schwenk 1974, one-way). Sites: the same between groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from controller.collectives.cuts import least_cut, weakest, worst_gather
from controller.collectives.network import PS_PER_US, Floats, Ints, Network
from controller.collectives.routes import lightest_links
from controller.collectives.schedule import ROUNDING_PS, Model
from controller.collectives.task import REVERSED, Task

# Cuts tried on networks of at most so many nodes; on larger ones a single one.
_CUTS = ((64, 24), (300, 6))


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the time of a collective, with its number of chunks.

    Attributes
    ----------
    each_us
        By name, in microseconds.
    """

    each_us: Mapping[str, float]

    @property
    def name(self) -> str:
        """Which one is the largest."""
        return max(self.each_us, key=lambda name: self.each_us[name])

    @property
    def us(self) -> float:
        """The largest, in microseconds."""
        return self.each_us[self.name]


def find_bounds(network: Network, task: Task, model: Model) -> Bounds:
    """Work out every bound that applies.

    Cuts are tried around the workers with the least capacity, which keeps the bound valid
    on large networks, if not the tightest.
    """
    if task.collective in REVERSED:
        turned = Task(
            REVERSED[task.collective], task.workers, task.payload_bytes, task.split, task.root
        )
        return find_bounds(network.reversed(), turned, model)
    few = next((cuts for nodes, cuts in _CUTS if len(network.nodes) <= nodes), 1)
    each = {"cut": _cut_us(network, task, few), "latency": _latency_us(network, task)}
    taken = task.chunks // len(task.workers) if task.collective == "all-to-all" else task.chunks
    if task.collective == "all-gather":
        taken = task.chunks - task.split
    each["ports"] = _ports_us(network, task, model, taken)
    if task.collective in ("all-reduce", "all-to-all"):
        each["ports"] = max(each["ports"], _ports_us(network.reversed(), task, model, taken))
    if task.collective == "all-to-all":
        each["volume"] = _volume_us(network, task)
    if task.collective == "all-reduce" and not any(n.aggregates for n in network.nodes):
        each["host traffic"] = _host_traffic_us(network, task)
        sites = _sites_us(network, task)
        if sites:
            each["sites"] = sites
    return Bounds(MappingProxyType(each))


def _cut_us(network: Network, task: Task, few: int) -> float:
    into = weakest(network, few, into=True)
    if task.collective == "all-gather":
        return worst_gather(network, into) * task.payload_bytes / len(task.workers)
    if task.collective == "broadcast":
        return task.payload_bytes / least_cut(network, task.root, into)
    if task.collective == "all-reduce":
        first = int(into[0])
        back = weakest(network, few, into=False)
        rate = min(
            least_cut(network, first, into),
            least_cut(network.reversed(), first, into),
            least_cut(network, int(back[0]), back),
            least_cut(network.reversed(), int(back[0]), back),
        )
        around = _around(network)
        return task.payload_bytes / min(rate, around)
    share = task.payload_bytes / len(task.workers)
    return share * (len(task.workers) - 1) / _around(network)


def _around(network: Network) -> float:
    """Least capacity into or out of a single worker, in bytes per µs."""
    count = len(network.nodes)
    into = np.bincount(network.dst, network.bytes_per_us, count)[network.workers]
    out = np.bincount(network.src, network.bytes_per_us, count)[network.workers]
    return float(min(into.min(), out.min()))


def distances_ps(network: Network) -> Floats:
    """Least latency from each worker to every node, shape (workers, nodes)."""
    # A stored 0 would be no link at all.
    found: Floats = np.floor(_nearest(network, np.add(network.latency_ps, 1e-6, dtype=np.float64)))
    return found


def _nearest(network: Network, weights: Floats) -> Floats:
    """Least sum of weights from each worker to every node, shape (workers, nodes)."""
    best = lightest_links(network, weights)
    graph = csr_array(
        (weights[best], (network.src[best], network.dst[best])), shape=(len(network.nodes),) * 2
    )
    found: Floats = np.atleast_2d(dijkstra(graph, indices=network.workers))
    return found


def _latency_us(network: Network, task: Task) -> float:
    """Longest shortest path from who begins to who ends, with one chunk's transmission."""
    away = distances_ps(network)
    if task.collective == "broadcast":
        away = away[[task.workers.index(task.root)]]
    fastest = float(network.byte_ps.min()) * (task.payload_bytes // (task.parts * task.split))
    return (float(away[:, network.workers].max()) + fastest) / PS_PER_US


def _ports_us(network: Network, task: Task, model: Model, chunks: int) -> float:
    """Least t with Σ ⌊(t − o) / τ⌋ ≥ chunks over the links into a worker; the worst worker."""
    small = task.payload_bytes // (task.parts * task.split)
    # Whole picoseconds, as schedules count them.
    size_ps = np.maximum(np.ceil(network.byte_ps * small - ROUNDING_PS), 1.0)
    first_ps = _first_byte_ps(network)
    step_ps = size_ps + (network.latency_ps if model == "occupancy" else 0)
    offset_ps = first_ps + (0 if model == "occupancy" else network.latency_ps)
    used = np.isin(network.dst, network.workers)
    if task.collective == "broadcast":
        used &= network.dst != task.root
    links = np.flatnonzero(used)
    links = links[np.argsort(network.dst[links], kind="stable")]
    return _fill_ps(step_ps[links], offset_ps[links], network.dst[links], chunks) / PS_PER_US


def _first_byte_ps(network: Network) -> Floats:
    """Earliest time that a byte of any worker can be at the start of each link."""
    is_worker = np.array([node.worker for node in network.nodes])
    earliest = np.zeros(len(network.nodes))
    if network.switched:
        earliest = distances_ps(network).min(axis=0)
    found: Floats = np.where(is_worker[network.src], 0.0, earliest[network.src])
    return found


def _fill_ps(step_ps: Floats, offset_ps: Floats, node: Ints, chunks: int) -> float:
    """Least time at which the links into every node have carried so many chunks."""
    first = np.flatnonzero(np.r_[True, node[1:] != node[:-1]])
    low, high = 0, int(offset_ps.max() + chunks * step_ps.max()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        carried = np.maximum(np.floor((middle - offset_ps) / step_ps), 0)
        full = np.add.reduceat(carried, first).min() >= chunks
        low, high = (low, middle) if full else (middle, high)
    return float(high)


def _volume_us(network: Network, task: Task) -> float:
    """Link time that the shortest ways of all pairs take, over the number of links."""
    reach = np.asarray(_nearest(network, network.byte_ps))[:, network.workers].sum()
    part = task.payload_bytes / len(task.workers)
    return float(reach) * part / network.links / PS_PER_US


def _host_traffic_us(network: Network, task: Task) -> float:
    into = np.isin(network.dst, network.workers)
    rate = float(network.bytes_per_us[into].sum())
    return 2 * (len(task.workers) - 1) * task.payload_bytes / rate


def _sites_us(network: Network, task: Task) -> float:
    """Host traffic between groups; 0 where nodes have none, or a group is not connected."""
    groups: Ints = np.unique([node.group for node in network.nodes], return_inverse=True)[1]
    names = {node.group for node in network.nodes}
    if "" in names or len(names) < 2:
        return 0.0
    between = groups[network.src] != groups[network.dst]
    rate = float(network.bytes_per_us[between].sum())
    return 2 * (len(names) - 1) * task.payload_bytes / rate

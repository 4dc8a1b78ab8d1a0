"""Algorithms that let the network work: multicast copies streams, aggregation adds them up.

Streams that are added up start so that they meet: a source that is nearer starts later. So an
aggregating node holds nothing, and an operation is one send over all links of its trees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from controller.collectives.network import Floats, Network
from controller.collectives.routes import Way, collect, lightest_links, path_way
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task
from controller.collectives.transfers import timed

MULTICAST_AGGREGATION = "multicast-aggregation"
PAPER = "multicast-fpga-all-to-all"

_MAX_TRIES = 64

Row = tuple[Way, int, bool]
"""A way, the chunk that takes it, and whether its targets add it."""


@dataclass(frozen=True)
class SumTree:
    """All workers' sum at a hub and from there back to all.

    Attributes
    ----------
    hub
        Node number.
    up
        From the workers to the hub; streams are added where they meet.
    down
        From the hub to the workers, with offsets that follow on those of `up`.
    """

    hub: int
    up: Way
    down: Way

    @property
    def way(self) -> Way:
        """Both in one."""
        return Way(self.up.sources, self.down.targets, (*self.up.hops, *self.down.hops))


def innetwork_names(network: Network, task: Task) -> tuple[str, ...]:
    """Which of these algorithms the network is able to carry out for a task."""
    multicast = any(node.multicast and not node.worker for node in network.nodes)
    aggregates = any(node.aggregates and not node.worker for node in network.nodes)
    names = []
    if task.collective in ("all-gather", "broadcast") and multicast:
        names.append(MULTICAST_AGGREGATION)
    if task.collective in ("reduce-scatter", "reduce") and aggregates:
        names.append(MULTICAST_AGGREGATION)
    if task.collective == "all-reduce" and (multicast or aggregates):
        names.append(MULTICAST_AGGREGATION)
        if multicast and _edges_add(network):
            names.append(PAPER)
    return tuple(names)


def innetwork_schedules(network: Network, task: Task, model: Model, name: str) -> list[Schedule]:
    """Schedules by one of these algorithms: one for each hub or order worth trying."""
    trees = _Trees(network)
    if name == PAPER:
        both = [_rows_paper(trees, task, nearest_first=near) for near in (True, False)]
        return [_timed(network, task, model, rows, name) for rows in both]
    if task.collective != "all-reduce":
        return [_timed(network, task, model, _rows_rooted(trees, task), name)]
    found = [_timed(network, task, model, _rows_reduce_first(trees, task), name)]
    hubs = sum_trees(network, task.workers)
    found += [sum_schedule(network, task, model, [tree]) for tree in hubs]
    if len(hubs) > 1:
        found.append(sum_schedule(network, task, model, hubs))
    return found


def sum_schedule(network: Network, task: Task, model: Model, trees: Sequence[SumTree]) -> Schedule:
    """All-reduce as sums at hubs, whose trees take turns at the chunks."""
    ways = [tree.way for tree in trees]
    rows = [(ways[chunk % len(ways)], chunk, False) for chunk in range(task.chunks)]
    return _timed(network, task, model, rows, MULTICAST_AGGREGATION)


def sum_trees(network: Network, workers: Sequence[int]) -> list[SumTree]:
    """The trees by which all workers' sum can be had in one, at most one for each hub."""
    trees = _Trees(network)
    hubs = [i for i, node in enumerate(network.nodes) if node.multicast and node.aggregates]
    found = [trees.fused(hub, workers) for hub in hubs[:_MAX_TRIES]]
    return [tree for tree in found if tree is not None]


class _Trees:
    """Trees of least latency through switches; workers are never passed through."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._weights: Floats = network.latency_ps + 1e-3 * network.byte_ps + 1e-3
        self._paths: dict[int, list[list[int]]] = {}

    def path(self, source: int, target: int) -> list[int]:
        """Links of the shortest path."""
        if source not in self._paths:
            self._paths[source] = _through_switches(self.network, self._weights, source)
        return self._paths[source][target]

    def spread(self, source: int, targets: Sequence[int]) -> list[Way]:
        """One multicast to all targets if every branch is able to copy, else a path to each."""
        network = self.network
        begun = {source: 0}
        hops: dict[int, int] = {}
        for target in targets:
            for link in self.path(source, target):
                offset = begun[int(network.src[link])]
                hops[link] = offset
                begun[int(network.dst[link])] = offset + int(network.latency_ps[link])
        branches = np.bincount(network.src[list(hops)], minlength=len(network.nodes))
        keeps = [t for t in targets if branches[t]]
        able = all(network.nodes[b].multicast for b in [*np.flatnonzero(branches > 1), *keeps])
        if not able:
            return [path_way(network, self.path(source, target)) for target in targets]
        ends = tuple((target, begun[target]) for target in targets)
        return [Way(((source, 0),), ends, tuple(hops.items()))]

    def gather(self, sources: Sequence[int], target: int) -> list[Way]:
        """One sum of all sources if every junction is able to add, else a path from each."""
        back = _Trees(self.network.reversed())
        turned = back.spread(target, sources)
        if len(turned) > 1 or not self._adds(turned[0]):
            return [path_way(self.network, self.path(source, target)) for source in sources]
        return [_turn(self.network, turned[0])]

    def _adds(self, turned: Way) -> bool:
        network = self.network
        into = np.bincount(network.dst[[link for link, _ in turned.hops]])
        return all(network.nodes[node].aggregates for node in np.flatnonzero(into > 1))

    def fused(self, hub: int, workers: Sequence[int]) -> SumTree | None:
        """All workers' sum at a hub and from there back to all, in one; ``None`` if unable."""
        up, down = self.gather(workers, hub), self.spread(hub, workers)
        if len(up) > 1 or len(down) > 1:
            return None
        late = up[0].targets[0][1]
        hops = tuple((link, offset + late) for link, offset in down[0].hops)
        targets = tuple((node, offset + late) for node, offset in down[0].targets)
        used = [link for link, _ in (*up[0].hops, *hops)]
        if len(set(used)) < len(used):
            return None
        return SumTree(hub, up[0], Way(((hub, late),), targets, hops))


def _through_switches(network: Network, weights: Floats, source: int) -> list[list[int]]:
    """Shortest paths from a node on which no worker is passed through."""
    is_worker = np.array([node.worker for node in network.nodes])
    usable = ~is_worker[network.src] | (network.src == source)
    kept = np.flatnonzero(usable)
    part = Network(
        network.name,
        network.nodes,
        network.src[kept],
        network.dst[kept],
        network.latency_ps[kept],
        network.byte_ps[kept],
    )
    links = lightest_links(part, weights[kept])
    graph = csr_array(
        (weights[kept][links], (part.src[links], part.dst[links])),
        shape=(len(network.nodes),) * 2,
    )
    _, before = dijkstra(graph, indices=source, return_predecessors=True)
    best = {(int(part.src[k]), int(part.dst[k])): int(kept[k]) for k in links}
    paths = []
    for node in range(len(network.nodes)):
        path: list[int] = []
        while node != source and before[node] >= 0:
            path.append(best[int(before[node]), node])
            node = int(before[node])
        paths.append(path[::-1])
    return paths


def _turn(network: Network, turned: Way) -> Way:
    """A multicast of the reversed network as a sum of this one: all streams meet."""
    last = max(offset for _, offset in turned.targets)
    hops = [(k, last - offset - int(network.latency_ps[k])) for k, offset in turned.hops]
    sources = tuple((node, last - offset) for node, offset in turned.targets)
    return Way(sources, ((turned.sources[0][0], last),), tuple(hops))


def _rows_rooted(trees: _Trees, task: Task) -> list[Row]:
    """Each chunk from its owner to all others, or from all others to its owner."""
    rows: list[Row] = []
    for chunk in _by_turns(task):
        owner = int(task.owner[chunk])
        others = [w for w in task.workers if w != owner]
        ways = trees.gather(others, owner) if task.reduces else trees.spread(owner, others)
        rows += [(way, chunk, task.reduces) for way in ways]
    return rows


def _rows_reduce_first(trees: _Trees, task: Task) -> list[Row]:
    """Each chunk's sum at a worker, then from there to all; by whatever the network can do."""
    rows: list[Row] = []
    for chunk in range(task.chunks):
        root = task.workers[chunk % len(task.workers)]
        others = [w for w in task.workers if w != root]
        rows += [(way, chunk, True) for way in trees.gather(others, root)]
        rows += [(way, chunk, False) for way in trees.spread(root, others)]
    return rows


def _rows_paper(trees: _Trees, task: Task, *, nearest_first: bool) -> list[Row]:
    """Everybody's stream to the edge of all others; each edge hands its island one sum.

    Trees overlap, so workers send one after the other where they do: each its whole stream,
    in the order of how far its farthest edge is.
    """
    edges = _edges(trees.network)
    spread = {
        worker: trees.spread(worker, [edges[w] for w in task.workers if w != worker])
        for worker in task.workers
    }
    reach_ps = {w: max(ps for way in ways for _, ps in way.targets) for w, ways in spread.items()}
    order = sorted(task.workers, key=lambda w: reach_ps[w], reverse=not nearest_first)
    rows: list[Row] = [
        (way, chunk, True) for w in order for chunk in range(task.chunks) for way in spread[w]
    ]
    down = {w: path_way(trees.network, trees.path(edges[w], w)) for w in task.workers}
    rows += [(down[w], chunk, True) for chunk in range(task.chunks) for w in task.workers]
    return rows


def _by_turns(task: Task) -> list[int]:
    """Chunks in an order in which owners take turns."""
    return sorted(range(task.chunks), key=lambda chunk: chunk % task.split)


def _edges(network: Network) -> dict[int, int]:
    """The node next to each worker; empty unless each one has a single, own switch."""
    found: dict[int, int] = {}
    for worker in network.workers.tolist():
        next_to = {int(n) for n in network.dst[network.src == worker]}
        if len(next_to) == 1:
            found[worker] = next_to.pop()
    own = len(set(found.values())) == len(network.workers)
    return found if own and not set(found.values()) & set(found) else {}


def _edges_add(network: Network) -> bool:
    edges = _edges(network).values()
    return bool(edges) and all(network.nodes[switch].aggregates for switch in edges)


def _timed(network: Network, task: Task, model: Model, rows: Sequence[Row], name: str) -> Schedule:
    ways = list(dict.fromkeys(way for way, _, _ in rows))
    number = {way: i for i, way in enumerate(ways)}
    route = np.array([number[way] for way, _, _ in rows], dtype=np.int64)
    chunk = np.array([chunk for _, chunk, _ in rows], dtype=np.int64)
    adds = np.array([add for _, _, add in rows], dtype=np.bool_)
    return timed(network, task, model, collect(network, ways), route, chunk, adds, name)

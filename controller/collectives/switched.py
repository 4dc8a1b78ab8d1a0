"""Synthesis where workers are joined by switches: paths between workers share links."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from networkx import DiGraph, is_strongly_connected
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from controller.collectives.bounds import find_bounds
from controller.collectives.composed import composed_schedule
from controller.collectives.gathering import NO_DEADLINE, SYNTHESISED
from controller.collectives.kernels.bits import pack
from controller.collectives.kernels.lanes import Truths, arrange
from controller.collectives.kernels.ported import late_events, ported
from controller.collectives.network import PS_PER_US, Ints, Network
from controller.collectives.reducing import STYLES, Style
from controller.collectives.routes import (
    Routes,
    Way,
    collect,
    path_way,
    reverse_routes,
    send_weights,
    shortest_paths,
)
from controller.collectives.schedule import Model, Schedule, backwards, chunk_times
from controller.collectives.start import columns
from controller.collectives.synthesis import Effort, Synthesis, search
from controller.collectives.task import REVERSED, Task

_LOOK = 64
_WAVE = 1 << 20
# Packed trees do not know that lanes share links.
_STYLES = tuple(style for style in STYLES if not style.packed)


def synthesise_switched(network: Network, task: Task, model: Model, effort: Effort) -> Synthesis:
    """Synthesise a schedule for a network with switches, with the task's chunks.

    Two sets of paths are tried: between all workers, and only between those with no other
    worker's switch in between, so that workers pass on what others need.
    """
    began = time.process_time()
    bounds = find_bounds(network, task, model)
    bound_ps = int(bounds.us * PS_PER_US + 0.999)
    sets = lane_sets(network, task)

    def attempt(deadline_ps: int, seed: int, turn: int) -> Schedule | None:
        lanes = sets[turn % len(sets)]
        turn = turn // len(sets)

        def make(part: Task, style: Style, latest_ps: int) -> Schedule | None:
            return ported_schedule(
                network, lanes, part, model, style=style, deadline_ps=latest_ps, seed=seed
            )

        if task.collective == "all-reduce" and turn % 2 == 0:
            return composed_schedule(
                network,
                task,
                model,
                lambda part: make(part, _STYLES[0], NO_DEADLINE),
                SYNTHESISED,
            )
        return make(task, _STYLES[turn // 2 % len(_STYLES)], deadline_ps)

    best, tried = search(attempt, bound_ps, effort)
    return Synthesis(best, bounds, tried, time.process_time() - began)


def lane_sets(network: Network, task: Task) -> list[Routes]:
    """Paths between workers: all pairs, and if that is fewer, those that are next to each other."""
    weights = send_weights(network, task.chunk_bytes)
    workers = list(task.workers)
    is_worker = np.zeros(len(network.nodes), dtype=np.bool_)
    is_worker[workers] = True
    local = np.zeros(len(network.nodes), dtype=np.bool_)
    local[network.dst[is_worker[network.src]]] = True
    every, near = [], []
    for source, paths in zip(workers, shortest_paths(network, weights, workers), strict=True):
        for target in workers:
            if target == source:
                continue
            path = paths[target]
            every.append(path_way(network, path))
            between = network.dst[path[1:-2]] if len(path) > 3 else network.dst[:0]
            if not np.any(local[between] | is_worker[between]):
                near.append(every[-1])
    sets = [collect(network, every)]
    if task.collective != "all-to-all" and _joined(near, workers) and len(near) < len(every):
        sets.append(collect(network, near))
    return sets


def _joined(lanes: Sequence[Way], workers: Sequence[int]) -> bool:
    """Whether every worker reaches every other one over these lanes."""
    ends = [(lane.sources[0][0], lane.targets[0][0]) for lane in lanes]
    return is_strongly_connected(DiGraph(ends)) and len({a for a, _ in ends}) == len(workers)


def ported_schedule(
    network: Network,
    lanes: Routes,
    task: Task,
    model: Model,
    *,
    style: Style,
    deadline_ps: int,
    seed: int,
) -> Schedule | None:
    """Synthesise once; ``None`` if the deadline cannot be met this way.

    Parameters
    ----------
    network, lanes
        Lanes are plain paths between workers.
    task, model, style, deadline_ps, seed
        See `joint_schedule`.
    """
    if task.collective in REVERSED:
        turned = replace(task, collective=REVERSED[task.collective])
        back = reverse_routes(network, lanes)
        made = ported_schedule(
            network.reversed(),
            back,
            turned,
            model,
            style=style,
            deadline_ps=deadline_ps,
            seed=seed,
        )
        return backwards(made, network, task) if made else None
    nodes = len(network.nodes)
    start = _start(network, lanes, task, np.random.default_rng(seed))
    taken = pack(start.taken, spare=True)
    size = chunk_times(lanes, task.chunk_bytes)
    lane, chunk, start_ps = (np.zeros(start.sends, dtype=np.int64) for _ in range(3))
    adds = np.zeros(start.sends, dtype=np.bool_)
    finish = ported(
        arrange(lanes.source, lanes.target, nodes),
        (lanes.hops.first, lanes.hops.values, lanes.hop_ps),
        network.latency_ps[lanes.hops.values] * (model == "occupancy"),
        size,
        size + lanes.latency_ps,
        network.links,
        columns([]),
        late_events([]),
        (pack(start.full), pack(start.ready), pack(start.nearer), start.need, start.root),
        taken,
        np.arange(taken.shape[1] * 64) // len(task.workers) * (_WAVE if style.waves else 0),
        style.mode,
        deadline_ps,
        seed + 1,
        _LOOK,
        (lane, chunk, start_ps),
        adds,
    )
    if finish < 0:
        return None
    chunk = start.order[chunk]
    return Schedule(network, task, model, SYNTHESISED, lanes, lane, chunk, start_ps, adds)


@dataclass(frozen=True, eq=False)
class _Start:
    """Where a search begins: see `Partials`; chunks are renumbered by ``order``."""

    order: Ints
    full: Truths
    taken: Truths
    ready: Truths
    nearer: Truths
    need: npt.NDArray[np.int32]
    root: Ints
    sends: int


def _start(network: Network, lanes: Routes, task: Task, rng: np.random.Generator) -> _Start:
    nodes, chunks = len(network.nodes), task.chunks
    none = np.zeros((nodes, chunks), dtype=np.bool_)
    need = np.zeros((nodes, chunks), dtype=np.int32)
    if task.collective != "all-reduce":
        order = rng.permutation(chunks)
        begins, wanted = task.begins(nodes)[:, order], task.ends(nodes)[:, order]
        return _Start(
            order=order,
            full=begins,
            taken=begins | ~wanted,
            ready=none,
            nearer=np.zeros((lanes.count, chunks), dtype=np.bool_),
            need=need,
            root=np.full(chunks, -1, dtype=np.int64),
            sends=int((wanted & ~begins).sum()),
        )
    root = np.concatenate([rng.permutation(task.workers) for _ in range(task.split)])
    nearer = _nearer(lanes, task, root, nodes)
    np.add.at(need, lanes.target, nearer)
    works = np.array([node.worker for node in network.nodes])
    return _Start(
        order=np.arange(chunks),
        full=none,
        taken=np.arange(nodes)[:, None] == root,
        ready=(need == 0) & works[:, None],
        nearer=nearer,
        need=need,
        root=root,
        sends=2 * chunks * (len(task.workers) - 1),
    )


def _nearer(lanes: Routes, task: Task, root: Ints, nodes: int) -> Truths:
    """Whether each lane leads nearer to the root of each chunk, shape (lanes, chunks)."""
    weights = (chunk_times(lanes, task.chunk_bytes) + lanes.latency_ps).astype(np.float64)
    back = csr_array((weights, (lanes.target, lanes.source)), shape=(nodes, nodes))
    away = np.rint(np.atleast_2d(dijkstra(back, indices=list(task.workers)))).T
    away = away[:, np.searchsorted(np.array(task.workers), root)]
    closer: Truths = away[lanes.target] < away[lanes.source]
    return closer

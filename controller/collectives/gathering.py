"""Synthesis of collectives in which every node that wants a chunk receives it once."""

from dataclasses import replace

import numpy as np

from controller.collectives.kernels.bits import pack
from controller.collectives.kernels.gather import gather
from controller.collectives.kernels.lanes import arrange
from controller.collectives.network import Ints, Network
from controller.collectives.relays import relay_nodes
from controller.collectives.routes import Routes
from controller.collectives.schedule import Model, Schedule, backwards, chunk_times
from controller.collectives.task import REVERSED, Task

NO_DEADLINE = 1 << 60
_LOOK = 64
SYNTHESISED = "synthesised"


def delay_classes(routes: Routes, task: Task, model: Model) -> tuple[Ints, Ints, Ints]:
    """Distinct delays; per route, which one holds it and which one a chunk takes to arrive."""
    size = chunk_times(routes, task.chunk_bytes)
    travel = size + routes.latency_ps
    hold = travel if model == "occupancy" else size
    delay, which = np.unique(np.concatenate([hold, travel]), return_inverse=True)
    return delay, which[: len(hold)].copy(), which[len(hold) :].copy()


def gather_schedule(
    network: Network,
    routes: Routes,
    task: Task,
    model: Model,
    *,
    deadline_ps: int = NO_DEADLINE,
    seed: int = 1,
) -> Schedule | None:
    """Synthesise once; ``None`` if the deadline cannot be met this way.

    Parameters
    ----------
    network, routes
        Routes of one link each, and each with links of its own.
    task
        Any but an all-reduce.
    model
        How long a link is held.
    deadline_ps
        No send may arrive later.
    seed
        Of the order among equals.
    """
    if task.collective in REVERSED:
        turned = replace(task, collective=REVERSED[task.collective])
        back = network.reversed()
        turned_routes = replace(routes, sources=routes.targets, targets=routes.sources)
        made = gather_schedule(
            back, turned_routes, turned, model, deadline_ps=deadline_ps, seed=seed
        )
        return backwards(made, network, task) if made else None
    nodes = len(network.nodes)
    order = np.random.default_rng(seed).permutation(task.chunks)
    begins = task.begins(nodes)
    wanted = (
        relay_nodes(network, task, seed) if task.collective == "all-to-all" else (task.ends(nodes))
    )
    have = pack(begins[:, order])
    # Beyond the last chunk there is nothing to wish for.
    taken = pack((begins | ~wanted)[:, order], spare=True)
    sends = int((wanted & ~begins).sum())
    out = tuple(np.zeros(sends, dtype=np.int64) for _ in range(3))
    finish = gather(
        arrange(routes.source, routes.target, nodes),
        delay_classes(routes, task, model),
        have,
        taken,
        deadline_ps,
        seed + 1,
        _LOOK,
        (out[0], out[1], out[2]),
    )
    if finish < 0:
        return None
    return Schedule(
        network=network,
        task=task,
        model=model,
        algorithm=SYNTHESISED,
        routes=routes,
        route=out[0],
        chunk=order[out[1]],
        start_ps=out[2],
        adds=np.zeros(sends, dtype=np.bool_),
    )

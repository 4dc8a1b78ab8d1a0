"""Ordered transfers between workers, routed along shortest paths and timed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.collectives.kernels.timing import time_sends
from controller.collectives.network import Ints, Network
from controller.collectives.routes import (
    Routes,
    collect,
    path_way,
    send_weights,
    shortest_paths,
)
from controller.collectives.schedule import Model, Schedule, chunk_times
from controller.collectives.start import Start, busy_links, columns
from controller.collectives.task import Task


@dataclass(frozen=True, eq=False)
class Transfers:
    """A list of transfers: each passes on what earlier ones brought.

    Attributes
    ----------
    src, dst, chunk
        Nodes and chunk of each, shape (transfers,).
    adds
        Whether the receiver adds it to its own.
    """

    src: Ints
    dst: Ints
    chunk: Ints
    adds: npt.NDArray[np.bool_]


def routed(
    network: Network, task: Task, model: Model, transfers: Transfers, algorithm: str
) -> Schedule:
    """Send each transfer along the shortest path, as early as data and links allow.

    Nodes in between pass the stream on as it comes (cut-through).
    """
    weights = send_weights(network, task.chunk_bytes)
    pairs, route = np.unique(np.stack([transfers.src, transfers.dst]), axis=1, return_inverse=True)
    sources = np.unique(pairs[0]).tolist()
    paths = dict(zip(sources, shortest_paths(network, weights, sources), strict=True))
    routes = collect(network, [path_way(network, paths[a][b]) for a, b in pairs.T.tolist()])
    return timed(
        network, task, model, routes, route.ravel(), transfers.chunk, transfers.adds, algorithm
    )


def timed(
    network: Network,
    task: Task,
    model: Model,
    routes: Routes,
    route: Ints,
    chunk: Ints,
    adds: npt.NDArray[np.bool_],
    algorithm: str,
    begin: Start | None = None,
) -> Schedule:
    """Time sends in their order; see `time_sends`. What flies at the start is waited for."""
    start = np.zeros(len(route), dtype=np.int64)
    held = np.zeros((len(network.nodes), task.chunks), dtype=np.int64)
    for flight in begin.flights if begin else ():
        place = flight.target, flight.chunk
        held[place] = max(held[place], flight.arrival_ps)
    occupancy = model == "occupancy"
    time_sends(
        (routes.sources.first, routes.sources.values, routes.source_ps),
        (routes.targets.first, routes.targets.values, routes.target_ps),
        (routes.hops.first, routes.hops.values, routes.hop_ps),
        network.latency_ps[routes.hops.values] * occupancy,
        chunk_times(routes, task.chunk_bytes),
        network.links,
        columns(busy_links(begin)),
        held,
        route.astype(np.int64),
        chunk.astype(np.int64),
        start,
    )
    return Schedule(network, task, model, algorithm, routes, route, chunk, start, adds, begin)


def retimed(schedule: Schedule, model: Model) -> Schedule:
    """The same sends in the same order under another model, each as early as it can be."""
    order = np.argsort(schedule.start_ps, kind="stable")
    return timed(
        schedule.network,
        schedule.task,
        model,
        schedule.routes,
        schedule.route[order],
        schedule.chunk[order],
        schedule.adds[order],
        schedule.algorithm,
    )

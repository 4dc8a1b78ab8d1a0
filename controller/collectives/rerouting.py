"""What is left of an interrupted schedule, led round what broke."""

from dataclasses import replace

import numpy as np

from controller.collectives.interruption import State
from controller.collectives.network import Network
from controller.collectives.routes import (
    Way,
    collect,
    path_way,
    send_weights,
    shortest_paths,
)
from controller.collectives.schedule import Schedule
from controller.collectives.start import Start
from controller.collectives.transfers import timed
from controller.hostplan import HOLD

REROUTED = "rerouted"


def rerouted(schedule: Schedule, network: Network, state: State) -> Schedule:
    """The sends that are left, in their old order, each as early as it can be.

    Sends whose links have not changed keep their path; others take the shortest one that is left.

    Parameters
    ----------
    schedule
        What was interrupted.
    network
        What is left of its network.
    state
        Where it stands.
    """
    left = np.array(state.left, dtype=np.int64)
    start = Start(
        held=state.held,
        origin=tuple(HOLD * len(row) for row in state.held),
        flights=state.flights,
        first_transfer=state.next_transfer,
    )
    if not len(left):
        return replace(
            schedule,
            network=network,
            algorithm=REROUTED,
            route=left,
            chunk=left,
            start_ps=left,
            adds=np.zeros(0, dtype=np.bool_),
            start=start,
        )
    ways, route = _ways(schedule, network, schedule.route[left])
    return timed(
        network,
        schedule.task,
        schedule.model,
        collect(network, ways),
        route,
        schedule.chunk[left],
        schedule.adds[left],
        REROUTED,
        start,
    )


def _ways(schedule: Schedule, network: Network, used: np.ndarray) -> tuple[list[Way], np.ndarray]:
    """A way for each route in use, and which of them each send takes."""
    routes = schedule.routes
    changed = schedule.network.byte_ps != network.byte_ps
    numbers, which = np.unique(used, return_inverse=True)
    sources = np.unique(routes.source[numbers]).tolist()
    weights = send_weights(network, schedule.task.chunk_bytes)
    paths = dict(zip(sources, shortest_paths(network, weights, sources), strict=True))
    ways = []
    for number in numbers.tolist():
        links = routes.hops.row(number).tolist()
        if changed[links].any():
            links = paths[int(routes.source[number])][int(routes.target[number])]
        ways.append(path_way(network, links))
    return ways, which.ravel()

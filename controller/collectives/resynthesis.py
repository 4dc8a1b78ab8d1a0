"""A new schedule from the state that an interrupted one has reached."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from controller.collectives.check import check_schedule, check_start
from controller.collectives.gathering import NO_DEADLINE
from controller.collectives.interruption import Interruption, State, interrupted
from controller.collectives.network import Network
from controller.collectives.rerouting import rerouted
from controller.collectives.restart import basis, restarted
from controller.collectives.schedule import Schedule
from controller.collectives.switched import lane_sets
from controller.collectives.synthesis import Effort
from testbed.errors import InputError


@dataclass(frozen=True)
class Resynthesis:
    """What takes over.

    Attributes
    ----------
    schedule
        The new one; its time 0 is the moment at which it takes over.
    state
        What it begins from.
    faults
        What the checker says: empty.
    attempts
        Schedules that were made.
    cpu_s
        Processor seconds for all of it but the check.
    """

    schedule: Schedule
    state: State
    faults: tuple[str, ...]
    attempts: int
    cpu_s: float


def changed(
    network: Network, rates: Mapping[int, float], latencies_ps: Mapping[int, int] | None = None
) -> Network:
    """The network with other rates and latencies of some links, which keep their numbers.

    Parameters
    ----------
    network
        As it was.
    rates
        In bytes per µs, by link; 0 for one that is down.
    latencies_ps
        By link.

    Raises
    ------
    InputError
        Without the links that are down some worker cannot reach another one.
    """
    byte_ps = network.byte_ps.copy()
    for link, bytes_per_us in rates.items():
        byte_ps[link] = 1e6 / bytes_per_us if bytes_per_us > 0 else np.inf
    up = np.flatnonzero(np.isfinite(byte_ps))
    count = len(network.nodes)
    graph = csr_array((np.ones(len(up)), (network.src[up], network.dst[up])), shape=(count, count))
    _, label = connected_components(graph, directed=True, connection="strong")
    cut = [w for w in network.workers.tolist() if label[w] != label[network.workers[0]]]
    if cut:
        one, two = network.nodes[network.workers[0]].name, network.nodes[cut[0]].name
        raise InputError(f"{network.name}: with the links that are left {one} and {two} are apart")
    latency_ps = network.latency_ps.copy()
    for link, latency in (latencies_ps or {}).items():
        latency_ps[link] = latency
    return replace(network, byte_ps=byte_ps, latency_ps=latency_ps)


def resynthesise(
    schedule: Schedule, network: Network, event: Interruption, effort: Effort
) -> Resynthesis:
    """Make the schedule that takes over from an interrupted all-reduce.

    Tried are the old transfers that are left, led round what broke, and sums and copies planned
    anew from what workers hold; the fastest is taken.

    Parameters
    ----------
    schedule
        What is interrupted.
    network
        What is left of its network: see `changed`.
    event
        What happens, and when the new schedule takes over.
    effort
        How much is tried.
    """
    if schedule.task.collective != "all-reduce":
        raise InputError(f"only an all-reduce is taken over, not {schedule.task.collective}")
    began = time.process_time()
    state = interrupted(schedule, event)
    sets, found = lane_sets(network, schedule.task), basis(schedule.task, state)
    best = rerouted(schedule, network, state) if state.repeatable else None
    attempts = 0 if best is None else 1
    most = effort.attempts if best is None or best.sends else 0
    while best is None or (attempts < most and time.process_time() - began < effort.budget_s):
        lanes = sets[-1 - attempts % len(sets)]
        seed = effort.seed * 1_000_003 + attempts
        latest_ps = NO_DEADLINE if best is None else best.time_ps - 1
        made = restarted(schedule, network, found, lanes, seed, latest_ps)
        attempts += 1
        if made is not None and (best is None or made.time_ps < best.time_ps):
            best = made
    cpu_s = time.process_time() - began
    faults = check_schedule(best)
    if best.start:
        faults += check_start(best.start, state.held, schedule.task.workers)
    return Resynthesis(best, state, tuple(faults), attempts, cpu_s)

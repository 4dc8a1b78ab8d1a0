"""Search over seeds and deadlines, any time: the best schedule found so far is kept."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from controller.collectives.bounds import Bounds, find_bounds
from controller.collectives.gathering import NO_DEADLINE, gather_schedule
from controller.collectives.network import PS_PER_US, Network
from controller.collectives.routes import link_routes
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task

RELAXATIONS = (0.0, 0.01, 0.03, 0.06, 0.10)
"""Deadlines that are tried, above the lower bound; then none at all."""

DEFAULT_ATTEMPTS = 24


@dataclass(frozen=True)
class Synthesis:
    """What a search found.

    Attributes
    ----------
    schedule
        The fastest one.
    bounds
        Of its task with its number of chunks.
    attempts
        Schedules tried for.
    cpu_s
        Processor time of this process, bounds included, compilation too if it was needed.
    """

    schedule: Schedule
    bounds: Bounds
    attempts: int
    cpu_s: float

    @property
    def over_bound(self) -> float:
        """Time over the largest lower bound: 1 is optimal."""
        return self.schedule.time_us / self.bounds.us


Attempt = Callable[[int, int], Schedule | None]
"""Tries for a schedule, given a deadline in picoseconds and a seed."""


def deadlines(bound_ps: int, seed: int, attempts: int) -> Iterator[tuple[int, int]]:
    """Pairs of deadline and seed, in the order in which they are tried."""
    levels = [round(bound_ps * (1 + relax)) for relax in RELAXATIONS] + [NO_DEADLINE]
    for turn in range(attempts):
        # Two tries at each level, then round again with other seeds.
        yield levels[(turn // 2) % len(levels)], seed * 1_000_003 + turn


def search(
    attempt: Attempt, bound_ps: int, *, seed: int, attempts: int, budget_s: float
) -> tuple[Schedule | None, int]:
    """Try deadline after deadline until the bound is met, or attempts or time are used up.

    Parameters
    ----------
    attempt
        Makes one schedule.
    bound_ps
        Nothing is faster.
    seed, attempts
        Equal ones give equal results, as long as the time does not run out.
    budget_s
        Processor seconds; at least one schedule is made however long it takes.

    Returns
    -------
    tuple
        The best schedule, and how many were tried for.
    """
    best: Schedule | None = None
    tried = 0
    began = time.process_time()
    for deadline, own_seed in deadlines(bound_ps, seed, attempts):
        if best is not None and time.process_time() - began > budget_s:
            break
        if best is not None and deadline >= best.time_ps:
            if deadline != NO_DEADLINE:
                continue
            deadline = best.time_ps - 1
        tried += 1
        made = attempt(deadline, own_seed)
        if made is not None and (best is None or made.time_ps < best.time_ps):
            best = made
        if best is not None and best.time_ps <= bound_ps:
            break
    if best is None:
        best = attempt(NO_DEADLINE, seed)
        tried += 1
    return best, tried


def synthesise_gather(
    network: Network,
    task: Task,
    model: Model,
    *,
    seed: int = 1,
    attempts: int = DEFAULT_ATTEMPTS,
    budget_s: float = float("inf"),
) -> Synthesis:
    """Synthesise any collective but an all-reduce on a network without switches.

    Parameters
    ----------
    network, task, model
        What is to be done on what, and how links are held.
    seed, attempts, budget_s
        See `search`.
    """
    began = time.process_time()
    bounds = find_bounds(network, task, model)
    routes = link_routes(network)

    def attempt(deadline_ps: int, own_seed: int) -> Schedule | None:
        return gather_schedule(network, routes, task, model, deadline_ps=deadline_ps, seed=own_seed)

    bound_ps = int(bounds.us * PS_PER_US + 0.999)
    best, tried = search(attempt, bound_ps, seed=seed, attempts=attempts, budget_s=budget_s)
    if best is None:
        raise RuntimeError("a strongly connected network has a schedule for every collective")
    return Synthesis(best, bounds, tried, time.process_time() - began)

"""Search over seeds, deadlines and styles, any time: the best schedule so far is kept."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from controller.collectives.bounds import Bounds, find_bounds
from controller.collectives.composed import composed_schedule
from controller.collectives.gathering import NO_DEADLINE, SYNTHESISED, gather_schedule
from controller.collectives.network import PS_PER_US, Network
from controller.collectives.reducing import STYLES, joint_schedule
from controller.collectives.routes import link_routes
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task

RELAXATIONS = (0.0, 0.01, 0.03, 0.06, 0.10)
"""Deadlines that are tried, above the lower bound; then none at all."""

DEFAULT_ATTEMPTS = 12


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
    ----------
    seed, attempts
        Equal ones give equal results, as long as the time does not run out.
    budget_s
        Processor seconds; at least one schedule is made however long it takes.
    """

    seed: int = 1
    attempts: int = DEFAULT_ATTEMPTS
    budget_s: float = float("inf")


@dataclass(frozen=True)
class Synthesis:
    """What was found.

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


Attempt = Callable[[int, int, int], Schedule | None]
"""Tries for a schedule, given a deadline in picoseconds, a seed, and the number of the try."""


def synthesise(network: Network, task: Task, model: Model, effort: Effort) -> Synthesis:
    """Synthesise a schedule for a network without switches, with the task's chunks.

    Parameters
    ----------
    network, task, model
        What is to be done on what, and how links are held.
    effort
        How much is tried.
    """
    began = time.process_time()
    bounds = find_bounds(network, task, model)
    bound_ps = int(bounds.us * PS_PER_US + 0.999)
    routes = link_routes(network)

    def gathering(deadline_ps: int, seed: int, _: int) -> Schedule | None:
        return gather_schedule(network, routes, task, model, deadline_ps=deadline_ps, seed=seed)

    def reducing(_: int, seed: int, turn: int) -> Schedule | None:
        style = turn % (len(STYLES) + 1)
        if style < len(STYLES):
            return joint_schedule(network, routes, task, model, style=STYLES[style], seed=seed)
        return composed_schedule(
            network,
            task,
            model,
            lambda part: gather_schedule(network, routes, part, model, seed=seed),
            SYNTHESISED,
        )

    attempt = reducing if task.collective == "all-reduce" else gathering
    best, tried = search(attempt, bound_ps, effort)
    return Synthesis(best, bounds, tried, time.process_time() - began)


def search(attempt: Attempt, bound_ps: int, effort: Effort) -> tuple[Schedule, int]:
    """Try deadline after deadline until the bound is met, or attempts or time are used up."""
    best: Schedule | None = None
    tried = 0
    began = time.process_time()
    for turn, (deadline, seed) in enumerate(_deadlines(bound_ps, effort)):
        if best is not None and time.process_time() - began > effort.budget_s:
            break
        if best is not None and deadline >= best.time_ps:
            if deadline != NO_DEADLINE:
                continue
            deadline = best.time_ps - 1
        tried += 1
        made = attempt(deadline, seed, turn)
        if made is not None and (best is None or made.time_ps < best.time_ps):
            best = made
        if best is not None and best.time_ps <= bound_ps:
            break
    if best is None:
        tried += 1
        best = attempt(NO_DEADLINE, effort.seed, 0)
    if best is None:
        raise RuntimeError("a strongly connected network has a schedule for every collective")
    return best, tried


def _deadlines(bound_ps: int, effort: Effort) -> Iterator[tuple[int, int]]:
    """Pairs of deadline and seed, in the order in which they are tried."""
    levels = [round(bound_ps * (1 + relax)) for relax in RELAXATIONS] + [NO_DEADLINE]
    for turn in range(effort.attempts):
        # Two tries at each level, then round again with other seeds.
        yield levels[(turn // 2) % len(levels)], effort.seed * 1_000_003 + turn

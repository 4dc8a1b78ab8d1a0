"""The optimiser: the rotation of cliques with the least T (A + ½) on a network.

The objective is the paper's; how it is searched is ours. The work is cut into
tasks, each a pure function of its start and seed: families laid out on the
cities and improved, then restarts from random rounds. Tasks run in processes
and are merged in their order, so the answer depends on the seed and on how many
tasks the budget allows, not on the number of workers.
"""

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import Schedule
from controller.search.campaign import Campaign, Progress
from controller.search.certificate import Certificate, certify
from controller.search.front import Point, pareto
from controller.search.partitions import Labels, cliques_of
from controller.search.tasks import prepare_worker, refine_point, trees_of
from testbed.errors import InfeasibleError, InputError
from testbed.topology import Topology

MAX_PERIOD = 6
_RESTARTS = 48
# The plan of the answer takes so many seconds per island squared, out of the same budget.
_PLANNING_S = 3.5e-3
_MOST_PLANNING = 0.4

__all__ = ["MAX_PERIOD", "Candidate", "Optimum", "Progress", "optimize", "to_schedule"]


@dataclass(frozen=True)
class Candidate:
    """A schedule with its figures.

    Attributes
    ----------
    schedule
        Ready for `make_plan`.
    t_ms, lifetime, objective_ms
        T, A (rms) and T (A + ½).
    """

    schedule: Schedule
    t_ms: float
    lifetime: float
    objective_ms: float


@dataclass(frozen=True)
class Optimum:
    """What the optimiser found.

    Attributes
    ----------
    best
        Least T (A + ½).
    front
        Schedules that no other one beats in both T and A, by rising T.
    plan
        The planner's plan for the best.
    certificate
        What is proved, or ``None`` if that was not asked for.
    seconds, tasks_done, tasks
        Time taken, and how much of the work the budget allowed.
    history
        (seconds, objective in ms) each time that the best improved.
    """

    best: Candidate
    front: tuple[Candidate, ...]
    plan: Plan
    certificate: Certificate | None
    seconds: float
    tasks_done: int
    tasks: int
    history: tuple[tuple[float, float], ...]


def optimize(
    topology: Topology,
    *,
    payload_bytes: float,
    memory_bytes: float,
    budget_s: float = 60.0,
    seed: int = 1,
    max_period: int = MAX_PERIOD,
    workers: int | None = None,
    restarts: int = _RESTARTS,
    certificate_s: float = 0.0,
    progress: Callable[[Progress], None] | None = None,
) -> Optimum:
    """Search for the best schedule of a network, with multicast and aggregation.

    Parameters
    ----------
    topology
        The network.
    payload_bytes, memory_bytes
        Bytes of one stream on the wire, and of one city's memory, unscaled.
    budget_s
        Time for search and plan. With enough of it all tasks are done, and the
        answer depends on the seed only.
    seed
        Of the restarts.
    max_period
        Longest rotation to try.
    workers
        Processes; as many as there are cores by default.
    restarts
        How many random starts follow the families.
    certificate_s
        Time for proofs about the answer, after the search; 0 for none.
    progress
        Called after each task.

    Raises
    ------
    InputError
        A value that makes no sense.
    InfeasibleError
        No schedule at all was found to be feasible.
    """
    _check(payload_bytes, memory_bytes, budget_s, max_period, restarts)
    began = time.monotonic()
    planning_s = _PLANNING_S * len(topology.cities) ** 2
    search_s = budget_s - min(planning_s, budget_s * _MOST_PLANNING)
    setting = (topology, payload_bytes, memory_bytes, began + search_s)
    count = workers or os.cpu_count() or 1
    with ProcessPoolExecutor(count, initializer=prepare_worker, initargs=setting) as pool:
        campaign = Campaign(pool, began, progress)
        campaign.run(topology, seed=seed, max_period=max_period, restarts=restarts)
        best, front = _refined(pool, campaign.points)
        known = pool.submit(trees_of, best).result()
        proof = certify(pool, best, certificate_s) if certificate_s > 0 else None
    schedule = to_schedule(topology, "optimised", best.rounds)
    plan = make_plan(
        topology,
        schedule,
        payload_bytes=payload_bytes,
        memory_bytes=memory_bytes,
        rates="per-stream",
        exact=False,
        known=known,
    )
    if plan.feasible and plan.prediction.t_ms < best.t_ms:
        best = Point(plan.prediction.t_ms, best.lifetime, best.rounds)
    return Optimum(
        best=_candidate(topology, "optimised", best),
        front=tuple(
            _candidate(topology, f"front-{number}", point) for number, point in enumerate(front)
        ),
        plan=plan,
        certificate=proof,
        seconds=time.monotonic() - began,
        tasks_done=campaign.done,
        tasks=campaign.total,
        history=tuple(campaign.history),
    )


def to_schedule(topology: Topology, name: str, rounds: tuple[Labels, ...]) -> Schedule:
    """Write labels as city codes."""
    codes = topology.codes
    return Schedule(
        name,
        tuple(
            tuple(tuple(codes[city] for city in clique) for clique in cliques_of(labels))
            for labels in rounds
        ),
    )


def _check(
    payload_bytes: float, memory_bytes: float, budget_s: float, max_period: int, restarts: int
) -> None:
    if not (math.isfinite(payload_bytes) and payload_bytes > 0):
        raise InputError(f"payload must be a number above 0, not {payload_bytes:g}")
    if not (math.isfinite(memory_bytes) and memory_bytes >= 0):
        raise InputError(f"memory must be a number of bytes, 0 or more, not {memory_bytes:g}")
    if not budget_s > 0:
        raise InputError(f"the time budget must be above 0 s, not {budget_s:g}")
    if not 1 <= max_period <= MAX_PERIOD:
        raise InputError(f"the period must be 1 to {MAX_PERIOD} rounds, not {max_period}")
    if restarts < 0:
        raise InputError(f"the number of restarts must be 0 or more, not {restarts}")


def _refined(pool: ProcessPoolExecutor, points: list[Point]) -> tuple[Point, tuple[Point, ...]]:
    """Best point and front, with the round times of the front looked at once more."""
    if not points:
        raise InfeasibleError(
            "no feasible schedule was found; give the search more time, or the cities more memory"
        )
    again = pool.map(refine_point, sorted(pareto(points), key=lambda point: point.rank))
    latest = {point.rounds: point for point in (*points, *again)}
    return min(latest.values(), key=lambda point: point.rank), pareto(latest.values())


def _candidate(topology: Topology, name: str, point: Point) -> Candidate:
    schedule = to_schedule(topology, name, point.rounds)
    return Candidate(schedule, point.t_ms, point.lifetime, point.objective_ms)

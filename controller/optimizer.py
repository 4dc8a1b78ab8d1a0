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
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import Schedule
from controller.search.candidates import Start, starts
from controller.search.certificate import Certificate, certify
from controller.search.front import Point, pareto
from controller.search.partitions import Labels, cliques_of
from controller.search.tasks import Task, TaskResult, prepare_worker, refine_point, run_task
from testbed.errors import InputError
from testbed.topology import Topology

MAX_PERIOD = 6
_RESTARTS = 48
_PAPER_WEIGHT = 0.5
# Other weights of A than the paper's fill the front on both sides of the best.
_FRONT_WEIGHTS = (-0.9, 2.0, 8.0)


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


@dataclass(frozen=True)
class Progress:
    """State of a search, for whoever shows it."""

    done: int
    total: int
    seconds: float
    best_ms: float


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
        Time for the search. With enough of it all tasks are done, and the
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
    CliquenetError
        No schedule at all was found to be feasible.
    """
    _check(payload_bytes, memory_bytes, budget_s, max_period, restarts)
    began = time.monotonic()
    tasks = list(_tasks(topology, seed, max_period, restarts))
    setting = (topology, payload_bytes, memory_bytes, began + budget_s)
    count = min(workers or os.cpu_count() or 1, len(tasks))
    history: list[tuple[float, float]] = []
    results: dict[int, TaskResult] = {}
    with ProcessPoolExecutor(count, initializer=prepare_worker, initargs=setting) as pool:
        for number, result in _run(pool, tasks):
            results[number] = result
            seconds = time.monotonic() - began
            best_ms = min([p.objective_ms for p in result.points], default=math.inf)
            if not history or best_ms < history[-1][1] - 1e-6:
                history.append((seconds, best_ms))
            if progress is not None:
                progress(Progress(len(results), len(tasks), seconds, history[-1][1]))
        points = [point for number in sorted(results) for point in results[number].points]
        points = [
            *points,
            *pool.map(refine_point, sorted(_select(points)[1], key=lambda p: p.rank)),
        ]
        best, front = _select(points)
        proof: Certificate | None = None
        if certificate_s > 0:
            proof = certify(pool, best, certificate_s)
    schedule = to_schedule(topology, "optimised", best.rounds)
    plan = make_plan(
        topology,
        schedule,
        payload_bytes=payload_bytes,
        memory_bytes=memory_bytes,
        rates="per-stream",
    )
    return Optimum(
        best=_candidate(topology, "optimised", best),
        front=tuple(
            _candidate(topology, f"front-{number}", point) for number, point in enumerate(front)
        ),
        plan=plan,
        certificate=proof,
        seconds=time.monotonic() - began,
        tasks_done=sum(result.finished for result in results.values()),
        tasks=len(tasks),
        history=tuple(history),
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


def _tasks(topology: Topology, seed: int, max_period: int, restarts: int) -> Iterator[Task]:
    """List the work: families, the short rotations first as they are quick, then restarts."""
    found = sorted(starts(topology, max_period), key=lambda start: len(start.rounds))
    number = 0
    for start in found:
        yield Task(start, _PAPER_WEIGHT, (seed, number))
        number += 1
    for restart in range(restarts):
        period = min(2 + restart % (MAX_PERIOD - 1), max_period)
        yield Task(Start("random", ((),) * period), _PAPER_WEIGHT, (seed, number))
        number += 1
    for weight in _FRONT_WEIGHTS:
        for start in found:
            yield Task(start, weight, (seed, number))
            number += 1


def _run(pool: ProcessPoolExecutor, tasks: list[Task]) -> Iterator[tuple[int, TaskResult]]:
    """Run tasks in order, as many at a time as there are processes, and yield the answers."""
    running: dict[Future[TaskResult], int] = {}
    waiting = iter(enumerate(tasks))
    for number, task in waiting:
        running[pool.submit(run_task, task)] = number
        if len(running) < 2 * (os.cpu_count() or 1):
            continue
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()


def _select(points: list[Point]) -> tuple[Point, tuple[Point, ...]]:
    if not points:
        raise InputError(
            "no feasible schedule was found; give the search more time, or the cities more memory"
        )
    latest = {point.rounds: point for point in points}
    return min(latest.values(), key=lambda point: point.rank), pareto(latest.values())


def _candidate(topology: Topology, name: str, point: Point) -> Candidate:
    schedule = to_schedule(topology, name, point.rounds)
    return Candidate(schedule, point.t_ms, point.lifetime, point.objective_ms)

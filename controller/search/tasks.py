"""Pieces of the optimiser's work, as they run in its processes."""

import time
from dataclasses import dataclass

import numpy as np

from controller.multicast import Tree
from controller.search.candidates import Start
from controller.search.front import Point
from controller.search.local import Pool, Searcher, full_pool
from controller.search.partitions import Labels
from controller.search.roundtimes import RoundTimes
from testbed.topology import Topology

_KICKS = 4
_KICK_SHARE = 0.25
_REFINED_NODES = 1_500


@dataclass(frozen=True)
class Task:
    """One start of the search.

    Attributes
    ----------
    start
        A rotation; rounds without labels are to be drawn at random.
    weight
        c of T (A + c).
    seed
        Of this task alone.
    improve
        Whether to go on from the start, or only to measure it.
    """

    start: Start
    weight: float
    seed: tuple[int, int]
    improve: bool = True


@dataclass(frozen=True)
class TaskResult:
    """Points worth keeping, and whether the task got to its end."""

    points: tuple[Point, ...]
    finished: bool


@dataclass
class Worker:
    """What a process keeps between tasks: round times that are known, and all rounds."""

    times: RoundTimes
    pool: Pool | None
    deadline: float


# Set once in each process by `prepare_worker`: a table of trees and a cache of
# round times are too large to send along with each task.
_workers: list[Worker] = []


def prepare_worker(
    topology: Topology, payload_bytes: float, memory_bytes: float, deadline: float
) -> None:
    """Build the tables of a process."""
    times = RoundTimes(topology, payload_bytes=payload_bytes, memory_bytes=memory_bytes)
    _workers[:] = [Worker(times, full_pool(times), deadline)]


def this_worker() -> Worker:
    """Return the tables of this process."""
    return _workers[0]


def run_task(task: Task) -> TaskResult:
    """Measure a start, lay it out on the cities, improve and shake it.

    Returns the points that no other one of this task beats in T and in A.
    """
    worker = this_worker()
    searcher = Searcher(worker.times, worker.pool, weight=task.weight, deadline=worker.deadline)
    if searcher.late:
        return TaskResult((), finished=False)
    rng = np.random.default_rng(task.seed)
    rounds = tuple(labels or _random_round(worker, rng) for labels in task.start.rounds)
    start = searcher.measure(rounds)
    if not task.improve:
        return TaskResult(tuple(searcher.front()), finished=True)
    best = searcher.improve(searcher.assign(start, rng), rng)
    for _ in range(_KICKS):
        if searcher.late:
            break
        shaken = list(best.rounds)
        for position in rng.permutation(len(shaken))[: 1 + len(shaken) // 3].tolist():
            shaken[position] = _random_round(worker, rng)
        found = searcher.improve(searcher.measure(tuple(shaken)), rng)
        if searcher.cost_ms(found) < searcher.cost_ms(best) - 1e-6:
            best = found
    return TaskResult(tuple(searcher.front()), finished=not searcher.late)


def refine_point(point: Point) -> Point:
    """Find the round time of a rotation with more effort than the search can afford."""
    worker = this_worker()
    found: list[float] = []
    for labels in point.rounds:
        if time.monotonic() > worker.deadline:
            return point
        known = worker.times.evaluate(labels, nodes=_REFINED_NODES)
        exact = known.exact or not worker.times.table.complete
        found.append(known.t_ms if exact else min(known.t_ms, worker.times.planned_ms(labels)))
    return Point(max(found), point.lifetime, point.rounds)


def trees_of(point: Point) -> list[tuple[Tree, ...]]:
    """Trees with which the search times each round of a rotation."""
    worker = this_worker()
    return [worker.times.evaluate(labels).trees for labels in point.rounds]


def _random_round(worker: Worker, rng: np.random.Generator) -> Labels:
    """Draw a round: one of the quicker ones, where all are listed."""
    count = len(worker.times.topology.cities)
    if worker.pool is None:
        size = int(rng.integers(2, max(3, round(count**0.5)) + 1))
        raw = np.empty(count, dtype=np.int64)
        raw[rng.permutation(count)] = np.arange(count) // size
        seen: dict[int, int] = {}
        return tuple(seen.setdefault(label, len(seen)) for label in raw.tolist())
    order = np.argsort(worker.pool.lower_ms, kind="stable")
    return worker.pool.row(int(order[rng.integers(max(1, int(len(order) * _KICK_SHARE)))]))

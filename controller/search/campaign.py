"""The optimiser's work as tasks: what to run in which order, and what came of it.

First all families are measured, so that the promising ones are improved first.
Restarts from random rounds come between them or, on large networks, after them;
last the best families once more with other weights of A, which fill the front.
The order depends on the figures and the seed only.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from controller.search.candidates import Start, starts
from controller.search.front import Point
from controller.search.local import MAX_POOLED
from controller.search.tasks import Task, TaskResult, run_task
from testbed.topology import Topology

PAPER_WEIGHT = 0.5
# Other weights of A than the paper's fill the front on both sides of the best.
_FRONT_WEIGHTS = (-0.9, 2.0, 8.0)
_FRONT_STARTS = 6
_PERIODS = (2, 4, 6, 3, 5)
_QUEUED = 2


@dataclass(frozen=True)
class Progress:
    """State of a search, for whoever shows it."""

    done: int
    total: int
    seconds: float
    best_ms: float


class Campaign:
    """Runs the tasks of one search in the processes of a pool.

    Parameters
    ----------
    pool
        Processes that `prepare_worker` has prepared.
    began
        Value of the monotonic clock from which seconds are counted.
    progress
        Called after each task.

    Attributes
    ----------
    points
        All points of all tasks, in the order of the tasks.
    done, total
        Tasks that came to their end, and all.
    history
        (seconds, objective in ms) each time that the best improved.
    """

    def __init__(
        self,
        pool: ProcessPoolExecutor,
        began: float,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.pool, self.began, self.progress = pool, began, progress
        self.points: list[Point] = []
        self.done = self.seen = self.total = 0
        self.history: list[tuple[float, float]] = []

    def run(self, topology: Topology, *, seed: int, max_period: int, restarts: int) -> None:
        """Measure all families, then improve them and all restarts."""
        families = starts(topology, max_period)
        drawn = list(_restarts(max_period, restarts))
        few = min(_FRONT_STARTS, len(families))
        self.total = 2 * len(families) + len(drawn) + few * len(_FRONT_WEIGHTS)
        first = [Task(start, PAPER_WEIGHT, (seed, 0), improve=False) for start in families]
        measured = self._finish(first)
        order = sorted(range(len(families)), key=lambda i: _promise(measured[i], families[i]))
        ranked = [families[i] for i in order]
        # From random rounds the search is quick where it sees all rounds at once.
        quick = len(topology.cities) <= MAX_POOLED
        ordered = _interleaved(drawn, ranked) if quick else [*ranked, *drawn]
        work = [(start, PAPER_WEIGHT) for start in ordered]
        work += [(start, weight) for weight in _FRONT_WEIGHTS for start in ranked[:few]]
        self._finish([Task(s, weight, (seed, k)) for k, (s, weight) in enumerate(work, 1)])

    def _finish(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Run tasks, note how the best improves, and keep their points in order."""
        results: dict[int, TaskResult] = {}
        for number, result in _run(self.pool, tasks):
            results[number] = result
            self.seen += 1
            self.done += result.finished
            seconds = time.monotonic() - self.began
            best_ms = min([point.objective_ms for point in result.points], default=math.inf)
            known_ms = self.history[-1][1] if self.history else math.inf
            if best_ms < known_ms - 1e-6:
                self.history.append((seconds, best_ms))
            if self.progress is not None:
                self.progress(Progress(self.seen, self.total, seconds, min(best_ms, known_ms)))
        ordered = [results[number] for number in range(len(tasks))]
        self.points += [point for result in ordered for point in result.points]
        return ordered


def _restarts(max_period: int, count: int) -> Iterator[Start]:
    """Rotations whose rounds are all to be drawn; each period in turn."""
    periods = [period for period in _PERIODS if period <= max_period] or [max_period]
    for number in range(count):
        yield Start("random", ((),) * periods[number % len(periods)])


def _interleaved(drawn: Sequence[Start], ranked: Sequence[Start]) -> list[Start]:
    """Two of the first for each of the second, for as long as there are any."""
    found: list[Start] = []
    for number in range(max(math.ceil(len(drawn) / 2), len(ranked))):
        found += [*drawn[2 * number : 2 * number + 2], *ranked[number : number + 1]]
    return found


def _promise(result: TaskResult, start: Start) -> tuple[float, int, str]:
    """Order in which to improve: by objective, times period as long rotations take longer."""
    best_ms = min([point.objective_ms for point in result.points], default=math.inf)
    return (round(best_ms * len(start.rounds), 6), len(start.rounds), start.family)


def _run(pool: ProcessPoolExecutor, tasks: Sequence[Task]) -> Iterator[tuple[int, TaskResult]]:
    """Run tasks, a few more at a time than there are processes, and yield the answers."""
    running: dict[Future[TaskResult], int] = {}
    most = _QUEUED * (os.cpu_count() or 1)
    waiting = list(enumerate(tasks))[::-1]
    while waiting or running:
        while waiting and len(running) < most:
            number, task = waiting.pop()
            running[pool.submit(run_task, task)] = number
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()

"""T and objective of the named schedules over memory and payload, from the planner alone."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from controller.plan import Plan
from experiments.config import NAMED_SCHEDULES, ExperimentConfig
from experiments.planjson import memory_needed_bytes
from experiments.planning import plan_experiment
from experiments.workers import Task, Tick, run_tasks
from testbed.errors import CliquenetError

PAPER_TREES = "shortest-path"
BEFORE, AFTER = "triangles", "all-to-all"
"""The paper's best schedules without and with memory."""

# More than this times the T that ample memory gives, and a schedule is out of the question.
_TOO_SLOW = 3.0
_SLACK = 1e-6


@dataclass(frozen=True)
class Point:
    """A schedule at one payload and memory.

    Attributes
    ----------
    schedule, trees, payload_bytes, memory_bytes
        What was planned.
    t_ms, objective_ms
        ``None`` where it is infeasible or far too slow; the objective also
        where it is infinite.
    """

    schedule: str
    trees: str
    payload_bytes: int
    memory_bytes: int
    t_ms: float | None
    objective_ms: float | None


@dataclass(frozen=True)
class Grid:
    """Payloads and memories to plan, both rising."""

    payloads_bytes: tuple[int, ...]
    memories_bytes: tuple[int, ...]


def memory_line(base: ExperimentConfig, *, quick: bool) -> Grid:
    """Many memories at the comparison's own payload."""
    return Grid((base.payload_bytes,), _memories(10e6, 32e9, 12 if quick else 22))


def payload_grid(base: ExperimentConfig, *, quick: bool) -> Grid:
    """Payloads from a sixteenth to four times the usual one, memories from nothing to plenty."""
    count = 4 if quick else 7
    payloads = base.payload_bytes * np.geomspace(1 / 16, 4, count)
    memories = _memories(10e6, 10e9, 7 if quick else 13)
    return Grid(tuple(max(1, round(p)) for p in payloads), memories)


def sweep(
    base: ExperimentConfig,
    grid: Grid,
    trees: Sequence[str],
    *,
    workers: int | None = None,
    tick: Tick,
    schedules: Sequence[str] = NAMED_SCHEDULES,
) -> list[Point]:
    """Plan every schedule with every family of trees at every point of a grid.

    Parameters
    ----------
    base
        Everything else.
    trees
        Families; several are told apart in the points.
    workers
        Processes; one per processor by default.
    tick
        Called with how far it is.

    Raises
    ------
    CliquenetError
        A point cannot be planned.
    """
    tasks: list[Task[list[Point]]] = []
    for payload_bytes in grid.payloads_bytes:
        for schedule in schedules:
            for family in trees:
                changes = {"schedule": schedule, "payload_bytes": payload_bytes, "trees": family}
                config = base.model_copy(update=changes)
                tasks.append(partial(plan_column, config, grid.memories_bytes))
    points: list[Point] = []
    for outcome in run_tasks(tasks, workers=workers, tick=tick):
        if outcome.value is None:
            raise CliquenetError(outcome.error)
        points += outcome.value
    return sorted(points, key=lambda p: (p.trees, p.schedule, p.payload_bytes, p.memory_bytes))


def plan_column(config: ExperimentConfig, memories_bytes: Sequence[int], tick: Tick) -> list[Point]:
    """Plan one schedule and payload at many memories.

    Memory is taken from plenty to nothing. A plan whose needs still fit stays
    the best one, because less memory cannot shorten T; and once a schedule is
    infeasible, or `_TOO_SLOW`, it remains so.
    """
    return sorted(_column(config, memories_bytes), key=lambda point: point.memory_bytes)


def _column(config: ExperimentConfig, memories_bytes: Sequence[int]) -> Iterator[Point]:
    plan: Plan | None = None
    ample_ms = 0.0
    lost = False
    for memory_bytes in sorted(memories_bytes, reverse=True):
        if not lost and (plan is None or memory_needed_bytes(plan) > memory_bytes * (1 + _SLACK)):
            plan = plan_experiment(config.model_copy(update={"memory_bytes": memory_bytes}))
            ample_ms = ample_ms or plan.prediction.t_ms
            lost = not plan.feasible or plan.prediction.t_ms > _TOO_SLOW * ample_ms
        shown = None if lost or plan is None else plan.prediction
        yield Point(
            schedule=config.schedule,
            trees=config.trees,
            payload_bytes=config.payload_bytes,
            memory_bytes=memory_bytes,
            t_ms=shown.t_ms if shown else None,
            objective_ms=shown.objective_ms if shown else None,
        )


def tree_settings(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points as they are with three ways to choose trees; fewer if one family was planned.

    Returns
    -------
    dict
        ``shortest-path``; ``mixed``, which comes closest to the paper's figures:
        all-to-all on the other family's balanced trees, the rest on shortest paths; and
        the faster of the families at each point. By name, with one point per
        schedule, payload and memory.
    """
    shortest = [point for point in points if point.trees == PAPER_TREES]
    other = [point for point in points if point.trees != PAPER_TREES]
    if not other:
        return {PAPER_TREES: shortest}
    faster: dict[tuple[str, int, int], Point] = {}
    for point in (*shortest, *other):
        key = (point.schedule, point.payload_bytes, point.memory_bytes)
        known = faster.get(key)
        if known is None or _time(point) < _time(known):
            faster[key] = point
    family = other[0].trees
    return {
        PAPER_TREES: shortest,
        f"{AFTER} {family}, others {PAPER_TREES}": [
            *(point for point in shortest if point.schedule != AFTER),
            *(point for point in other if point.schedule == AFTER),
        ],
        f"the faster of {PAPER_TREES} and {family}": list(faster.values()),
    }


def ranked(points: Sequence[Point]) -> dict[tuple[int, int], list[Point]]:
    """(payload, memory) to the schedules that have an objective there, the least first.

    Points of one of the `tree_settings`.
    """
    found: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        here = found.setdefault((point.payload_bytes, point.memory_bytes), [])
        if point.objective_ms is not None:
            here.append(point)
    for here in found.values():
        here.sort(key=lambda point: point.objective_ms or 0.0)
    return found


def transition(points: Sequence[Point], before: str, after: str) -> tuple[int, int] | None:
    """Neighbouring memories between which ``after`` becomes better than ``before``.

    Points of one payload and one of the `tree_settings`. ``None`` if that never happens.
    """
    last: int | None = None
    for memory_bytes in sorted({point.memory_bytes for point in points}):
        here = {p.schedule: p.objective_ms for p in points if p.memory_bytes == memory_bytes}
        first, second = here.get(before), here.get(after)
        if second is not None and (first is None or second < first):
            return None if last is None else (last, memory_bytes)
        last = memory_bytes
    return None


def _time(point: Point) -> float:
    return math.inf if point.t_ms is None else point.t_ms


def _memories(low: float, high: float, count: int) -> tuple[int, ...]:
    """Nothing, then rising by a constant factor, to three digits."""
    return (0, *(int(float(f"{size:.3g}")) for size in np.geomspace(low, high, count)))

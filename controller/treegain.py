"""What better trees gain: T and objective of schedules by family of trees and memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.mixing import timed_objective_ms
from controller.planner import make_plan
from controller.schedule import Schedule
from testbed.topology import Topology


@dataclass(frozen=True)
class TreeGain:
    """One row: a schedule on one family of trees, or why it is not feasible.

    Attributes
    ----------
    schedule, trees, memory_bytes
        The question.
    t_ms
        Round time, or ``None`` where not feasible.
    objective_ms
        T (A + ½), or ``None`` also where it never mixes.
    own_objective_ms
        The same with each round's own duration.
    busiest_link_streams
        Streams on the busiest link.
    reason
        Why not feasible, or empty.
    """

    schedule: str
    trees: str
    memory_bytes: float
    t_ms: float | None
    objective_ms: float | None
    own_objective_ms: float | None
    busiest_link_streams: int
    reason: str


def tree_gains(
    topology: Topology,
    schedules: Iterable[Schedule],
    *,
    payload_bytes: float,
    memories_bytes: Sequence[float],
    families: Sequence[str] = ("shortest-path", "least-load", "hub", "best"),
    rates: str = "common",
) -> list[TreeGain]:
    """Plan every schedule with every family of trees and memory.

    Parameters
    ----------
    topology, schedules, payload_bytes, rates
        As for `controller.planner.make_plan`.
    memories_bytes, families
        What to try.

    Returns
    -------
    list of TreeGain
        By memory, then schedule, then family.
    """
    rows = []
    tried = list(schedules)
    for memory_bytes in memories_bytes:
        for schedule in tried:
            for family in families:
                plan = make_plan(
                    topology,
                    schedule,
                    payload_bytes=payload_bytes,
                    memory_bytes=memory_bytes,
                    trees=family,
                    rates=rates,
                )
                prediction = plan.prediction
                mixes = plan.feasible and prediction.objective_ms is not None
                times = [planned.t_ms for planned in plan.period]
                rows.append(
                    TreeGain(
                        schedule=schedule.name,
                        trees=family,
                        memory_bytes=memory_bytes,
                        t_ms=prediction.t_ms if plan.feasible else None,
                        objective_ms=prediction.objective_ms if mixes else None,
                        own_objective_ms=(
                            timed_objective_ms(schedule, topology.codes, times) if mixes else None
                        ),
                        busiest_link_streams=prediction.busiest_link_streams,
                        reason=plan.reason,
                    )
                )
    return rows


def ranking(rows: Iterable[TreeGain], trees: str, memory_bytes: float) -> list[str]:
    """Names of the feasible schedules that mix, the best objective first."""
    able = [
        (row.objective_ms, row.schedule)
        for row in rows
        if row.trees == trees and row.memory_bytes == memory_bytes and row.objective_ms is not None
    ]
    return [name for _, name in sorted(able)]

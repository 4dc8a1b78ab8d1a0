"""What a search leaves behind: the best schedule, its plan, the front, and a plot of it."""

import json
from pathlib import Path
from typing import Any

from controller.schedule import Schedule
from experiments.figure_front import draw_front
from experiments.figures import save_table
from experiments.optimizing import FrontPoint, Optimised
from experiments.planfiles import write_plan_files
from experiments.planjson import plan_object
from experiments.results import write_json
from experiments.units import format_bytes
from testbed.paths import give_to_caller

OPTIMIZED = "optimize"
_FRONT_FIELDS = ("t_ms", "a_rms", "objective_ms", "period", "rounds")


def schedule_file_name(memory_bytes: int) -> str:
    """Name of the file of a search's best schedule; runs of it are named alike."""
    return f"optimised-{format_bytes(memory_bytes)}.yaml"


def write_schedule(path: Path, schedule: Schedule, comment: str) -> None:
    """Write a schedule as a file that `controller.schedule.load_schedule` reads.

    Parameters
    ----------
    path, schedule
        Where to, and what.
    comment
        First line, without the mark.
    """
    # JSON's quotes keep a city such as "no" from being read as a truth value.
    rounds = [f"  - {json.dumps(cliques)}\n" for cliques in schedule.rounds]
    path.write_text(f"# {comment}\nname: {json.dumps(schedule.name)}\nrounds:\n{''.join(rounds)}")
    give_to_caller(path)


def write_optimised(folder: Path, found: Optimised) -> list[Path]:
    """Write everything about a search into a folder, made if missing.

    Returns
    -------
    list of Path
        The schedule's file first.
    """
    plan = found.plan
    files = write_plan_files(folder, plan)
    path = folder / schedule_file_name(round(plan.memory_bytes))
    write_schedule(path, found.schedule, describe(found))
    front = folder / "front.json"
    write_json(front, optimised_object(found))
    rows = [
        (p.t_ms, p.a_rms, p.objective_ms, len(p.schedule.rounds), rounds_text(p.schedule))
        for p in found.front
    ]
    table = save_table(folder / "front.csv", _FRONT_FIELDS, rows)
    figure = draw_front(folder, found)
    give_to_caller(folder)
    return [path, front, table, figure, *files]


def optimised_object(found: Optimised) -> dict[str, Any]:
    """A search as one JSON object: that of its best plan, with front and certificate."""
    return {
        **plan_object(found.plan),
        "front": [_front_object(point) for point in found.front],
        "certificate": found.certificate,
        "lower_bound_ms": found.lower_bound_ms,
        "gap": gap(found),
        "seconds": round(found.seconds, 3),
        "work": found.work,
    }


def gap(found: Optimised) -> float | None:
    """How far the best may be above the least objective, relative to it; ``None`` if not known."""
    best_ms = found.plan.prediction.objective_ms
    if found.lower_bound_ms is None or best_ms is None:
        return None
    return max(0.0, 1 - found.lower_bound_ms / best_ms)


def describe(found: Optimised) -> str:
    """The best schedule in one line."""
    plan = found.plan
    return (
        f"Least T (A + ½) found for {plan.topology.name}, payload "
        f"{format_bytes(plan.payload_bytes)}, memory {format_bytes(plan.memory_bytes)}"
    )


def rounds_text(schedule: Schedule) -> str:
    """Rounds in one line: ``nyc-fra lon-chi | nyc-lon``."""
    return " | ".join(" ".join("-".join(c) for c in cliques) for cliques in schedule.rounds)


def clique_sizes(schedule: Schedule) -> str:
    """Sizes of the cliques in one line: ``3+2+2 | 4+3``."""
    return " | ".join(
        "+".join(str(size) for size in sorted((len(c) for c in cliques), reverse=True))
        for cliques in schedule.rounds
    )


def _front_object(point: FrontPoint) -> dict[str, Any]:
    return {
        "t_ms": point.t_ms,
        "a_rms": point.a_rms,
        "objective_ms": point.objective_ms,
        "period": len(point.schedule.rounds),
        "rounds": [[list(clique) for clique in cliques] for cliques in point.schedule.rounds],
    }

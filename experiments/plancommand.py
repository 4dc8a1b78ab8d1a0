"""The commands that plan and search: do it, write the files, print the outcome."""

from pathlib import Path
from typing import Any

from controller.bottlenecks import find_bottlenecks
from experiments.config import COLLECTIVES, ExperimentConfig
from experiments.identity import run_prefix
from experiments.optimizefiles import OPTIMIZED, optimised_object, write_optimised
from experiments.optimizing import check_search, find_best
from experiments.planfiles import PLANS, write_plan_files
from experiments.planjson import plan_object
from experiments.planning import plan_experiment
from experiments.report import print_front, print_plan
from experiments.sensitivities import (
    print_sensitivities,
    sensitivities_object,
    write_sensitivities,
)
from experiments.terminal import print_line, print_object
from experiments.units import format_bytes
from testbed.errors import InfeasibleError, InputError
from testbed.progress import Step


def plan_and_show(
    config: ExperimentConfig, results_dir: Path, *, as_json: bool, output: Path | None = None
) -> int:
    """Plan an experiment into ``plans/<id of its runs, without repetition>``, and print it.

    Raises
    ------
    InputError
        The schedule is a collective between hosts.
    InfeasibleError
        After everything has been written and printed.
    """
    if config.schedule in COLLECTIVES:
        raise InputError(
            f"SCHEDULE: {config.schedule} has no rounds to plan; "
            f"`make collective ALGORITHM={COLLECTIVES[config.schedule]}` shows its schedule"
        )
    plan = plan_experiment(config)
    if output is not None:
        plan.write(output)
    bottlenecks = find_bottlenecks(plan)
    files = write_plan_files(results_dir / PLANS / run_prefix(config), plan)
    files.append(write_sensitivities(files[0].parent, bottlenecks))
    if as_json:
        found = sensitivities_object(bottlenecks)
        print_object({**plan_object(plan), **found, "files": _names(files)})
    else:
        print_plan(plan)
        print_sensitivities(bottlenecks)
        print_line(f"{'files':<12}{files[0].parent}")
    if not plan.feasible:
        raise InfeasibleError(f"infeasible: {plan.reason}")
    return 0


def optimise_and_show(
    config: ExperimentConfig, results_dir: Path, *, budget_s: float, as_json: bool
) -> int:
    """Search for the best schedule, write it to ``optimize/<id>``, and print the front.

    Raises
    ------
    InfeasibleError
        No schedule is feasible; with ``as_json`` after an object has been printed that says so.
    """
    check_search(config, budget_s)
    memory = format_bytes(config.memory_bytes)
    try:
        with Step(f"searching the best schedule for {memory}") as step:
            found = find_best(config, budget_s=budget_s, tick=step.tick)
    except InfeasibleError as error:
        if as_json:
            print_object(_nothing_feasible(config, str(error)))
        raise
    digest = run_prefix(config).rpartition("-")[2]
    files = write_optimised(results_dir / OPTIMIZED / f"{memory}-{digest}", found)
    if as_json:
        print_object({**optimised_object(found), "files": _names(files)})
        return 0
    print_front(found)
    print_plan(found.plan)
    print_line(f"{'files':<12}{files[0].parent}")
    print_line(f"{'run it':<12}make experiment SCHEDULE={files[0]} MEMORY={memory}")
    return 0


def _nothing_feasible(config: ExperimentConfig, reason: str) -> dict[str, Any]:
    """The keys of a plan's object, where there is no plan."""
    absent = ("t_ms", "a_rms", "objective_ms", "busiest_link_streams")
    return {
        "schedule": "",
        "topology": config.topology,
        "feasible": False,
        "reason": reason,
        **dict.fromkeys(absent),
        "payload_bytes": config.payload_bytes,
        "memory_bytes": config.memory_bytes,
        "front": [],
    }


def _names(files: list[Path]) -> list[str]:
    return [str(path) for path in files]

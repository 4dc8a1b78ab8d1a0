"""The commands that plan, search and compare: do it, write the files, print the outcome."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from controller.bottlenecks import find_bottlenecks
from experiments.comparison.collective_rows import CollectiveRow, gain, print_collectives
from experiments.comparison.collectives import CollectiveComparison, compare_collectives
from experiments.comparison.compare import Comparison, Request, compare
from experiments.comparison.failure_rows import FailureRow, print_failures
from experiments.comparison.failures import FailureComparison, compare_failures
from experiments.comparison.loss import LossSweep, sweep_losses
from experiments.comparison.loss_rows import LossRow, print_losses
from experiments.comparison.rows import Row
from experiments.comparison.tables import print_rows
from experiments.comparison.training import TrainingComparison, compare_training
from experiments.comparison.training_rows import TrainingRow, print_training
from experiments.config import COLLECTIVES, ExperimentConfig
from experiments.identity import run_prefix
from experiments.optimizefiles import OPTIMIZED, optimised_object, write_optimised
from experiments.optimizing import check_search, find_best
from experiments.planfiles import PLANS, write_plan_files
from experiments.planjson import plan_object
from experiments.planning import plan_experiment
from experiments.report import print_front, print_plan
from experiments.run import termination_interrupts
from experiments.sensitivities import (
    print_sensitivities,
    sensitivities_object,
    write_sensitivities,
)
from experiments.units import format_bytes
from testbed.errors import CliquenetError, InfeasibleError, InputError, UntrustedRunError
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
        _print_line(f"{'files':<12}{files[0].parent}")
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
        with termination_interrupts(), Step(f"searching the best schedule for {memory}") as step:
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
    _print_line(f"{'files':<12}{files[0].parent}")
    _print_line(f"{'run it':<12}make experiment SCHEDULE={files[0]} MEMORY={memory}")
    return 0


def compare_and_show(request: Request, results_dir: Path, *, as_json: bool) -> int:
    """Compare, print the table, and say where the files are.

    Raises
    ------
    CliquenetError
        A run failed.
    UntrustedRunError
        A run finished, but failed its checks.
    """
    made = compare(request, results_dir, progress=Step)
    if as_json:
        print_object(_comparison_object(made))
    else:
        print_rows(made.rows, made.title)
        for note in made.notes:
            _print_line(note)
        _print_line(f"table and plots: {made.folder}")
    return _conclude(made.rows)


def sweep_losses_and_show(
    config: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    force: bool,
    as_json: bool,
) -> int:
    """Run the loss sweep, print its table, and say where the files are.

    Raises
    ------
    CliquenetError
        A run failed.
    UntrustedRunError
        A run finished, but failed its checks.
    """
    made = sweep_losses(
        config, results_dir, quick=quick, workers=workers, force=force, progress=Step
    )
    return _present(made, lambda: print_losses(made.rows, made.title), as_json=as_json)


def compare_collectives_and_show(
    config: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    as_json: bool,
) -> int:
    """Run the algorithms of all-reduce, print their table, and say where the files are.

    Raises
    ------
    CliquenetError
        A run failed.
    UntrustedRunError
        A run finished, but failed its checks.
    """
    made = compare_collectives(config, results_dir, quick=quick, workers=workers, progress=Step)
    found = gain(made.rows)
    factor = None if found is None else found.factor
    return _present(
        made,
        lambda: print_collectives(made.rows, made.title, made.notes),
        as_json=as_json,
        more={"in_network_gain": factor, "notes": made.notes},
    )


def compare_training_and_show(
    config: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    as_json: bool,
) -> int:
    """Run the training loops, print their table and the arithmetic, say where the files are.

    Raises
    ------
    CliquenetError
        A run failed.
    UntrustedRunError
        A run finished, but failed its checks.
    """
    made = compare_training(config, results_dir, quick=quick, workers=workers, progress=Step)
    more = {"swept": [asdict(row) for row in made.swept], "notes": made.notes}
    status = _present(
        made,
        lambda: print_training(made.rows, made.swept, made.notes, made.title),
        as_json=as_json,
        more=more,
    )
    return status or _conclude(made.swept)


def _present(
    made: LossSweep | CollectiveComparison | TrainingComparison | FailureComparison,
    show: Callable[[], None],
    *,
    as_json: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Print a comparison, as one object with ``more`` in it or as people read it; its status."""
    if as_json:
        rows = [asdict(row) for row in made.rows]
        files = _names(made.files)
        print_object({"folder": str(made.folder), "rows": rows, **more, "files": files})
    else:
        show()
        _print_line(f"table and plot: {made.folder}")
    return _conclude(made.rows)


def compare_failures_and_show(
    config: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    as_json: bool,
) -> int:
    """Let each link fail once, print the table, and say where the files are.

    Raises
    ------
    CliquenetError
        A run failed.
    UntrustedRunError
        A run finished, but failed its checks.
    """
    made = compare_failures(config, results_dir, quick=quick, workers=workers, progress=Step)
    return _present(made, lambda: print_failures(made.rows, made.title), as_json=as_json)


def _conclude(rows: Sequence[Row | LossRow | CollectiveRow | FailureRow | TrainingRow]) -> int:
    """Status of a comparison: raise if a run failed, or finished but failed its checks."""
    failed = [row for row in rows if row.source == "failed"]
    if failed:
        raise CliquenetError(f"{len(failed)} of {len(rows)} runs failed: {failed[0].reason}")
    wrong = [row.run_id for row in rows if row.verdict == "FAIL"]
    if wrong:
        raise UntrustedRunError(f"{len(wrong)} runs failed their checks: {', '.join(wrong)}")
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


def _comparison_object(made: Comparison) -> dict[str, Any]:
    return {
        "folder": str(made.folder),
        "rows": [row.as_dict() for row in made.rows],
        "files": _names(made.files),
        "notes": made.notes,
    }


def _names(files: list[Path]) -> list[str]:
    return [str(path) for path in files]


def print_object(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own: no wrapping, nothing after it."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def _print_line(text: str) -> None:
    Console(highlight=False).print(text, markup=False, soft_wrap=True)

"""Plans rows, runs what is feasible as packets, and takes over what was run before."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from controller.plan import Plan, read_plan
from experiments.analysis import analyse_run
from experiments.comparison.cases import Case
from experiments.comparison.rows import Row, make_row
from experiments.config import ExperimentConfig, run_prefix
from experiments.planning import plan_experiment
from experiments.results import read_json, read_state
from experiments.run import run_experiment
from experiments.units import format_bytes
from experiments.workers import Task, Tick, run_tasks
from testbed.errors import CliquenetError, InputError


def plan_cases(cases: Sequence[Case], *, workers: int | None, tick: Tick) -> list[Plan]:
    """Plan all cases side by side, in their order.

    Raises
    ------
    CliquenetError
        A case cannot be planned.
    """
    tasks: list[Task[Plan]] = [partial(_plan, case.config) for case in cases]
    plans: dict[int, Plan] = {}
    for outcome in run_tasks(tasks, workers=workers, tick=tick):
        if outcome.value is None:
            raise CliquenetError(outcome.error)
        plans[outcome.index] = outcome.value
    return [plans[index] for index in range(len(cases))]


def finished_run(results_dir: Path, config: ExperimentConfig, plan: Plan) -> dict[str, Any] | None:
    """Summary of the latest complete run of this experiment with this plan, if there is one.

    A run of another plan does not count: the planner has changed since.
    """
    found = []
    for run_dir in results_dir.glob(f"{run_prefix(config)}-*"):
        repetition = run_dir.name.rpartition("-")[2]
        if repetition.isdigit() and _complete(run_dir, plan):
            found.append((int(repetition), run_dir))
    return read_json(max(found)[1] / "summary.json") if found else None


def measure_cases(
    cases: Sequence[Case],
    plans: Sequence[Plan],
    results_dir: Path,
    *,
    workers: int | None,
    force: bool,
    tick: Tick,
) -> list[Row]:
    """Fill one row per case, in their order.

    Parameters
    ----------
    cases, plans
        What to run, and its plans.
    results_dir
        Folder of all runs: new ones are added, finished ones found.
    workers
        Guests at a time; one per processor by default.
    force
        Run what the planner refuses as well.
    tick
        Called with how far it is.
    """
    rows: dict[int, Row] = {}
    todo: list[int] = []
    for index, (case, plan) in enumerate(zip(cases, plans, strict=True)):
        summary = finished_run(results_dir, case.config, plan)
        if not plan.feasible and not force:
            rows[index] = make_row(case, plan, None, source="refused")
        elif summary is not None:
            rows[index] = make_row(case, plan, summary, source="reused")
        else:
            todo.append(index)
    # The longest first, so that no processor is left with one of them at the end.
    todo.sort(key=lambda index: -_work(plans[index]))
    tasks: list[Task[dict[str, Any]]] = [
        partial(_measure, cases[index].config, results_dir, force) for index in todo
    ]
    for outcome in run_tasks(tasks, workers=workers, tick=tick):
        index = todo[outcome.index]
        rows[index] = make_row(
            cases[index],
            plans[index],
            outcome.value,
            source="ran" if outcome.value is not None else "failed",
            error=outcome.error,
        )
    return [rows[index] for index in range(len(cases))]


def _plan(config: ExperimentConfig, tick: Tick) -> Plan:
    tick(config.schedule_name)
    return plan_experiment(config)


def _measure(
    config: ExperimentConfig, results_dir: Path, force: bool, tick: Tick
) -> dict[str, Any]:
    """Run one experiment and analyse it, in a worker process."""
    name = f"{config.schedule_name} {format_bytes(config.memory_bytes, 3)}"
    run_dir = run_experiment(
        config, results_dir, force=force, progress=partial(_TickedStep, tick, name)
    )
    tick(f"{name}: analysis")
    return analyse_run(run_dir)


class _TickedStep:
    """A step of a run that is shown as part of the comparison's own."""

    def __init__(self, tick: Tick, name: str, title: str) -> None:
        self._tick, self._name, self._title = tick, name, title

    def __enter__(self) -> "_TickedStep":
        self.tick(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        return

    def tick(self, detail: str = "") -> None:
        self._tick(f"{self._name}: {detail or self._title}")


def _complete(run_dir: Path, plan: Plan) -> bool:
    if read_state(run_dir).get("state") != "complete" or not (run_dir / "summary.json").exists():
        return False
    try:
        return read_plan(run_dir / "plan.json") == plan
    except InputError:
        return False


def _work(plan: Plan) -> int:
    """Stream copies that a run moves over all links and access links: its wall time follows."""
    total = 0
    for k in range(plan.rounds):
        planned = plan.round(k)
        total += sum(planned.edge_streams.values()) + 2 * sum(
            len(stream.receivers) for stream in planned.streams
        )
    return total

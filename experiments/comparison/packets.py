"""Plans rows, runs what is feasible as packets, and takes over what was run before."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from controller.plan import Plan, read_plan
from experiments.analyse import analyse
from experiments.comparison.cases import Case
from experiments.comparison.rows import ERROR, NOT_RUN, Row, Source, make_row
from experiments.config import COLLECTIVES, ExperimentConfig
from experiments.identity import identity, run_prefix
from experiments.planning import plan_experiment
from experiments.results import read_json, read_state
from experiments.run import ProgressFactory, run_experiment
from experiments.units import format_bytes
from experiments.workers import Task, Tick, run_tasks
from testbed.errors import CliquenetError, InputError
from testbed.paths import make_dir


def plan_cases(cases: Sequence[Case], *, workers: int | None, tick: Tick) -> list[Plan]:
    """Plan all cases side by side, in their order; see `plan_configs`."""
    return plan_configs([case.config for case in cases], workers=workers, tick=tick)


def plan_configs(
    configs: Sequence[ExperimentConfig], *, workers: int | None, tick: Tick
) -> list[Plan]:
    """Plan experiments side by side, in their order.

    Raises
    ------
    CliquenetError
        One cannot be planned.
    """
    tasks: list[Task[Plan]] = [partial(_plan, config) for config in configs]
    plans: dict[int, Plan] = {}
    for outcome in run_tasks(tasks, workers=workers, tick=tick):
        if outcome.value is None:
            raise CliquenetError(outcome.error)
        plans[outcome.index] = outcome.value
    return [plans[index] for index in range(len(configs))]


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


@dataclass(frozen=True)
class Measured:
    """What came of one experiment: its summary if there is one, and where that comes from."""

    summary: dict[str, Any] | None
    source: Source
    error: str = ""

    @property
    def verdict(self) -> str:
        """The run's, or why there is none."""
        missing = ERROR if self.source == "failed" else NOT_RUN
        return str((self.summary or {}).get("verdict", missing))

    @property
    def run_id(self) -> str:
        """The run's, if there is one."""
        return str((self.summary or {}).get("run_id", ""))

    def reason(self, plan: Plan) -> str:
        """Why it failed, was not run, or is not to be believed; the first of several."""
        found = (self.summary or {}).get("reasons", ())
        return self.error or plan.reason or (str(found[0]) if found else "")


def measure_cases(
    cases: Sequence[Case],
    plans: Sequence[Plan],
    results_dir: Path,
    *,
    workers: int | None,
    force: bool,
    tick: Tick,
) -> list[Row]:
    """Fill one row per case, in their order; see `measure_configs`."""
    found = measure_configs(
        [case.config for case in cases],
        plans,
        results_dir,
        workers=workers,
        force=force,
        tick=tick,
    )
    return [
        make_row(case, plan, got.summary, source=got.source, error=got.error)
        for case, plan, got in zip(cases, plans, found, strict=True)
    ]


def measure_configs(
    configs: Sequence[ExperimentConfig],
    plans: Sequence[Plan],
    results_dir: Path,
    *,
    workers: int | None,
    force: bool,
    tick: Tick,
) -> list[Measured]:
    """Run experiments side by side, but for those that were run before; in their order.

    Parameters
    ----------
    configs, plans
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
    found: dict[int, Measured] = {}
    todo: list[int] = []
    for index, (config, plan) in enumerate(zip(configs, plans, strict=True)):
        summary = finished_run(results_dir, config, plan)
        if not plan.feasible and not force:
            found[index] = Measured(None, "refused")
        elif summary is not None:
            found[index] = Measured(summary, "reused")
        else:
            todo.append(index)
    # The longest first, so that no processor is left with one of them at the end.
    todo.sort(key=lambda index: -_work(plans[index]))
    tasks: list[Task[dict[str, Any]]] = [
        partial(_measure, configs[index], results_dir, force) for index in todo
    ]
    for outcome in run_tasks(tasks, workers=workers, tick=tick):
        source: Source = "ran" if outcome.value is not None else "failed"
        found[todo[outcome.index]] = Measured(outcome.value, source, outcome.error)
    return [found[index] for index in range(len(configs))]


def compare_configs(
    configs: Sequence[ExperimentConfig],
    results_dir: Path,
    *,
    workers: int | None,
    force: bool,
    progress: ProgressFactory,
) -> list[tuple[Plan, Measured]]:
    """Plan and run experiments, or what is left of them after an interrupt; in their order.

    Parameters
    ----------
    configs, results_dir, workers, force
        See `measure_configs`.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        An experiment cannot be planned, or a worker was killed.
    """
    with progress(f"planning {len(configs)} experiments") as step:
        plans = plan_configs(configs, workers=workers, tick=step.tick)
    with progress(f"running {len(configs)} experiments as packets") as step:
        found = measure_configs(
            configs, plans, results_dir, workers=workers, force=force, tick=step.tick
        )
    return list(zip(plans, found, strict=True))


def comparison_folder(results_dir: Path, configs: Sequence[ExperimentConfig]) -> Path:
    """Make the folder of a comparison, which is named by what it compares."""
    digest = hashlib.sha256("\n".join(identity(config) for config in configs).encode())
    folder = results_dir / digest.hexdigest()[:8]
    make_dir(folder)
    return folder


def _plan(config: ExperimentConfig, tick: Tick) -> Plan:
    tick(config.schedule_name)
    return plan_experiment(config)


def _measure(
    config: ExperimentConfig, results_dir: Path, force: bool, tick: Tick
) -> dict[str, Any]:
    """Run one experiment and analyse it, in a worker process."""
    of = config.release if config.schedule in COLLECTIVES else format_bytes(config.memory_bytes, 3)
    name = f"{config.schedule_name} {of}"
    run_dir = run_experiment(
        config, results_dir, force=force, progress=partial(_TickedStep, tick, name)
    )
    tick(f"{name}: analysis")
    return analyse(run_dir)


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
    """Payloads that a run moves over all links and access links: its wall time follows."""
    total = 0
    if plan.collective is not None:
        hosts = plan.collective
        sends = (step for steps in hosts.steps for step in steps if step.kind == "send")
        total = sum(len(hosts.paths[step.path].edges) + 2 for step in sends) // hosts.chunks
        total *= plan.syncs
    for k in range(plan.rounds):
        planned = plan.round(k)
        total += sum(planned.edge_streams.values()) + 2 * sum(
            len(stream.receivers) for stream in planned.streams
        )
    return total

"""Training loops over each way to synchronise, on packets: which runs, and their files.

After the comparison with synchronous SGD in "Distributed Training using an Intelligent Network"
(arXiv 2608.26453): a ring whose hosts idle 80 % of the time, against the network's help in the
same loop, and against cliques that synchronise while hosts compute on.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.comparison.cases import quick_payload_bytes
from experiments.comparison.figure_training import draw_training
from experiments.comparison.packets import Measured, compare_configs, comparison_folder
from experiments.comparison.training_rows import (
    TrainingRow,
    arithmetic,
    training_row,
    write_training_tables,
)
from experiments.config import ExperimentConfig
from experiments.run import ProgressFactory
from experiments.units import format_bytes
from testbed.errors import CliquenetError
from testbed.paths import give_to_caller

FOLDER = "sync-sgd"
BASELINE = "ring"
IDLE_SHARE = 0.8
"""Of the baseline's hosts, in the paper; decides what a step takes to compute."""
FACTORS = (0.25, 0.5, 2.0, 4.0)
"""Of that time: what the baseline is run with beside it."""
SCHEDULES = Path(__file__).parent.parent / "schedules"
_BEST, _BEST_ON = str(SCHEDULES / "best-32gb.yaml"), "nine-cities"


@dataclass(frozen=True)
class Case:
    """A run of the comparison, and what it is called there."""

    name: str
    config: ExperimentConfig


@dataclass(frozen=True)
class TrainingComparison:
    """What came of it.

    Attributes
    ----------
    rows
        The loops at one compute time.
    swept
        The baseline at others.
    notes
        The arithmetic behind the figures, a line each.
    """

    folder: Path
    title: str
    rows: list[TrainingRow]
    swept: list[TrainingRow]
    notes: list[str]
    files: list[Path]


def shared_config(base: ExperimentConfig, *, quick: bool) -> ExperimentConfig:
    """What all runs have: virtual time, and a tenth of the payload if it is to be quick."""
    changes: dict[str, object] = {"clock": "virtual"}
    if quick:
        changes["payload_bytes"] = quick_payload_bytes(base)
    return base.model_copy(update=changes)


def alone(shared: ExperimentConfig) -> ExperimentConfig:
    """The baseline's all-reduce without any training."""
    return shared.model_copy(update={"schedule": BASELINE, "release": "data", "compute_ms": None})


def training_cases(shared: ExperimentConfig, compute_ms: float) -> list[Case]:
    """Every loop at one compute time; the baseline first.

    In the synchronous loop everybody sends as soon as it can, but for the all-reduces that share
    links between hosts, which are the faster for keeping to their schedule.
    """
    synchronous: dict[str, object] = {"loop": "synchronous", "rounds": 3, "release": "data"}
    planned = {**synchronous, "release": "planned"}
    apart = {**synchronous, "multicast": False, "aggregation": False}
    local: dict[str, object] = {"loop": "local", "rounds": 2, "release": "planned"}
    delayed: dict[str, object] = {"loop": "delayed", "rounds": 5, "release": "planned"}
    # The schedule that was searched for names the cities that it was searched on.
    best = [_BEST] if shared.topology == _BEST_ON else []
    listed: list[tuple[str, str, dict[str, object]]] = [
        ("ring", BASELINE, synchronous),
        ("synthesised", "tacos", planned),
        ("parameter server", "parameter-server", planned),
        ("host aggregation", "all-to-all", apart),
        ("multicast + FPGA", "all-to-all", synchronous),
        ("cliques: triangles", "triangles", delayed),
        *(("cliques: best", file, delayed) for file in best),
        ("ring", BASELINE, local),
        ("multicast + FPGA", "all-to-all", local),
        ("cliques: triangles", "triangles", local),
        *(("cliques: best", file, local) for file in best),
    ]
    return [
        Case(
            name, shared.model_copy(update={"schedule": schedule, "compute_ms": compute_ms, **own})
        )
        for name, schedule, own in listed
    ]


def swept_cases(shared: ExperimentConfig, compute_ms: float) -> list[Case]:
    """The baseline at other compute times."""
    baseline = training_cases(shared, compute_ms)[0]
    return [
        Case(
            baseline.name,
            baseline.config.model_copy(update={"compute_ms": _tenths(factor * compute_ms)}),
        )
        for factor in FACTORS
    ]


def idle_compute_ms(sync_ms: float) -> float:
    """Compute time with which hosts that then wait so long idle for `IDLE_SHARE`, to 0.1 ms."""
    return max(_tenths(sync_ms * (1 - IDLE_SHARE) / IDLE_SHARE), 0.1)


def compare_training(
    base: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    progress: ProgressFactory,
) -> TrainingComparison:
    """Run the comparison, or what is left of one that was interrupted.

    Parameters
    ----------
    base
        What the runs share. Its compute time, if any, is taken; else that which makes the
        baseline idle for `IDLE_SHARE`, by its all-reduce as measured alone.
    quick
        A tenth of the payload.
    results_dir
        Folder of all runs; the comparison's own is ``sync-sgd/<id>`` below it.
    workers
        Guests at a time; one per processor by default.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        An experiment cannot be planned, the baseline's all-reduce failed, or a worker was
        killed. Any other run that fails is a row.
    """
    shared = shared_config(base, quick=quick)
    run = partial(
        compare_configs,
        results_dir=results_dir,
        workers=workers,
        force=False,
        progress=progress,
    )
    compute_ms = base.compute_ms
    if compute_ms is None:
        _, got = run([alone(shared)])[0]
        compute_ms = idle_compute_ms(_time_of(got))
    cases, swept = training_cases(shared, compute_ms), swept_cases(shared, compute_ms)
    configs = [case.config for case in (*cases, *swept)]
    folder = comparison_folder(results_dir / FOLDER, configs)
    found = run(configs)
    made = [
        training_row(case.name, case.config, *one)
        for case, one in zip((*cases, *swept), found, strict=True)
    ]
    rows, others = made[: len(cases)], made[len(cases) :]
    title = (
        f"Steps of {compute_ms:g} ms, {format_bytes(configs[0].payload_bytes)} synchronised "
        f"on {found[0][0].topology.name}, measured"
    )
    notes = arithmetic(rows, chosen=base.compute_ms is None)
    files = [
        *write_training_tables(folder, rows, others, notes, title),
        draw_training(folder, rows, others, title),
    ]
    give_to_caller(folder)
    return TrainingComparison(folder, title, rows, others, notes, files)


def _time_of(got: Measured) -> float:
    time_ms = None if got.summary is None else got.summary["t_measured_ms"]
    if time_ms is None:
        raise CliquenetError(f"the {BASELINE}'s all-reduce failed: {got.error or 'incomplete'}")
    return float(time_ms)


def _tenths(time_ms: float) -> float:
    return round(time_ms, 1)

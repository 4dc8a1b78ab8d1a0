"""An all-reduce between hosts in which each link fails once, at half the time: runs and files."""

from dataclasses import dataclass
from pathlib import Path

from experiments.comparison.cases import quick_payload_bytes
from experiments.comparison.failure_rows import (
    FailureRow,
    draw_failures,
    failure_row,
    write_failure_tables,
)
from experiments.comparison.packets import compare_configs, comparison_folder
from experiments.config import COLLECTIVES, ExperimentConfig
from experiments.faults import LinkCut
from experiments.planning import plan_experiment
from experiments.run import ProgressFactory
from experiments.units import format_bytes
from testbed.errors import InputError, suggestion
from testbed.paths import give_to_caller
from testbed.topology import load_topology

FOLDER = "compare-failures"
DEFAULT_SCHEDULE = "tacos"


@dataclass(frozen=True)
class FailureComparison:
    """What came of it: a row for each link, and everything written."""

    folder: Path
    title: str
    rows: list[FailureRow]
    files: list[Path]


def failure_configs(base: ExperimentConfig, time_ms: float) -> list[ExperimentConfig]:
    """One experiment for each link, which goes down at half a time.

    Parameters
    ----------
    base
        What they share.
    time_ms
        Of the schedule without any failure.
    """
    links = load_topology(base.topology).links
    return [
        base.model_copy(
            update={
                "events": (
                    LinkCut(
                        at_ms=round(time_ms / 2, 3), event="link-down", link=f"{link.a}-{link.b}"
                    ),
                )
            }
        )
        for link in links
    ]


def base_config(config: ExperimentConfig, *, quick: bool) -> ExperimentConfig:
    """Settle what all rows share: virtual time, an algorithm of hosts, no other events.

    Raises
    ------
    InputError
        The schedule is no collective between hosts.
    """
    schedule = config.schedule if "schedule" in config.model_fields_set else DEFAULT_SCHEDULE
    if schedule not in COLLECTIVES:
        raise InputError(
            f'schedule: "{schedule}" has no hosts: {suggestion(schedule, COLLECTIVES)}'
        )
    changes: dict[str, object] = {"clock": "virtual", "schedule": schedule, "events": ()}
    if quick:
        changes["payload_bytes"] = quick_payload_bytes(config)
    return config.model_copy(update=changes)


def compare_failures(
    config: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    progress: ProgressFactory,
) -> FailureComparison:
    """Run the comparison, or what is left of one that was interrupted.

    Parameters
    ----------
    config
        What all runs share.
    results_dir
        Folder of all runs; the comparison's own is ``compare-failures/<id>`` below it.
    quick
        A tenth of the payload.
    workers
        Guests at a time; one per processor by default.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        An experiment cannot be planned, or a worker was killed. A run that fails is a row.
    """
    base = base_config(config, quick=quick)
    with progress("planning without a failure"):
        undisturbed = plan_experiment(base)
    configs = failure_configs(base, undisturbed.prediction.t_ms)
    folder = comparison_folder(results_dir / FOLDER, configs)
    found = compare_configs(configs, results_dir, workers=workers, force=False, progress=progress)
    rows = [failure_row(one, *made) for one, made in zip(configs, found, strict=True)]
    title = (
        f"All-reduce of {format_bytes(base.payload_bytes)} by {base.schedule} on "
        f"{undisturbed.topology.name}, a link failing at {configs[0].events[0].at_ms:.1f} ms"
    )
    files = [*write_failure_tables(folder, rows, title), draw_failures(folder, rows, title)]
    give_to_caller(folder)
    return FailureComparison(folder, title, rows, files)

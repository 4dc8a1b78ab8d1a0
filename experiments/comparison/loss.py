"""T and goodput against loss on the last hop, with recovery and without: runs and files."""

from dataclasses import dataclass
from pathlib import Path

from experiments.comparison.cases import quick_payload_bytes
from experiments.comparison.figure_loss import draw_losses
from experiments.comparison.loss_rows import LossRow, loss_row, write_loss_tables
from experiments.comparison.packets import compare_configs, comparison_folder
from experiments.config import ExperimentConfig
from experiments.run import ProgressFactory
from experiments.units import format_bytes, format_time_ms
from testbed.errors import InputError
from testbed.paths import give_to_caller

LOSSES = "loss"
LOSSES_PERCENT = (0.0, 0.01, 0.1, 1.0, 5.0)
SCHEDULES = ("triangles", "all-to-all")
DEFAULT_RESEND_MS = 20.0
"""Where the config keeps nothing to resend: several times what asking thrice takes, as an
island is next to its aggregator."""
DEFAULT_ROUNDS = 2


@dataclass(frozen=True)
class LossSweep:
    """What came of it: rows by schedule, recovery and loss, and everything written."""

    folder: Path
    title: str
    rows: list[LossRow]
    files: list[Path]


def loss_configs(base: ExperimentConfig, *, quick: bool) -> list[ExperimentConfig]:
    """One experiment per schedule, with and without recovery, and loss.

    Parameters
    ----------
    base
        What they share. A schedule or a number of rounds that it names is kept.
    quick
        A tenth of the payload.

    Raises
    ------
    InputError
        It has a loss of its own.
    """
    given = base.model_fields_set
    if "loss_percent" in given:
        rates = ", ".join(f"{percent:g}" for percent in LOSSES_PERCENT)
        raise InputError(f"LOSS_PERCENT: the sweep takes {rates} % in turn; leave it out")
    shared: dict[str, object] = {"clock": "virtual"}
    if "rounds" not in given:
        shared["rounds"] = DEFAULT_ROUNDS
    if quick:
        shared["payload_bytes"] = quick_payload_bytes(base)
    schedules = (base.schedule,) if "schedule" in given else SCHEDULES
    window_ms = base.resend_ms or DEFAULT_RESEND_MS
    return [
        base.model_copy(
            update={
                **shared,
                "schedule": schedule,
                "resend_ms": resend_ms,
                "repair": base.repair and resend_ms > 0,
                "loss_percent": loss_percent,
                "loss_burst": base.loss_burst if loss_percent else None,
            }
        )
        for schedule in schedules
        for resend_ms in (window_ms, 0.0)
        for loss_percent in LOSSES_PERCENT
    ]


def sweep_losses(
    base: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    force: bool,
    progress: ProgressFactory,
) -> LossSweep:
    """Run the sweep, or what is left of one that was interrupted.

    Parameters
    ----------
    base, quick
        See `loss_configs`.
    results_dir
        Folder of all runs; the sweep's own is ``loss/<id>`` below it.
    workers
        Guests at a time; one per processor by default.
    force
        Run what the planner refuses.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        An experiment cannot be planned, or a worker was killed. A run that fails is a row.
    """
    configs = loss_configs(base, quick=quick)
    folder = comparison_folder(results_dir / LOSSES, configs)
    found = compare_configs(configs, results_dir, workers=workers, force=force, progress=progress)
    rows = [loss_row(config, *made) for config, made in zip(configs, found, strict=True)]
    kept = max(config.resend_ms for config in configs)
    title = (
        f"Loss on the last hop, payload {format_bytes(configs[0].payload_bytes)}, "
        f"{format_time_ms(kept)} kept to resend"
    )
    files = [*write_loss_tables(folder, rows, title), draw_losses(folder, rows, title)]
    give_to_caller(folder)
    return LossSweep(folder, title, rows, files)

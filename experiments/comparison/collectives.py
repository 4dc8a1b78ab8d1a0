"""All-reduce between hosts by each algorithm, beside the network that adds and Open MPI."""

from dataclasses import dataclass
from pathlib import Path

from controller.collectives.choose import algorithms
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE
from controller.collectives.task import make_task
from experiments.comparison.cases import quick_payload_bytes
from experiments.comparison.collective_rows import (
    CollectiveRow,
    collective_row,
    draw_collectives,
    gain,
    write_collective_tables,
)
from experiments.comparison.open_mpi import compare_open_mpi
from experiments.comparison.packets import compare_configs, comparison_folder
from experiments.config import COLLECTIVES, IN_NETWORK, ExperimentConfig
from experiments.run import ProgressFactory
from experiments.units import format_bytes
from testbed.paths import give_to_caller
from testbed.topology import load_topology

FOLDER = "compare-collectives"
AT_EVERY_EDGE = "all-to-all"
"""Everybody's stream is copied by the network and added up at every edge."""


@dataclass(frozen=True)
class CollectiveComparison:
    """What came of it: rows by schedule and release, and everything written."""

    folder: Path
    title: str
    rows: list[CollectiveRow]
    notes: list[str]
    files: list[Path]


def collective_configs(base: ExperimentConfig, *, quick: bool) -> list[ExperimentConfig]:
    """Each algorithm between hosts with both kinds of release, then those in the network.

    Algorithms that the topology has no use for are left out: see `left_out`.

    Parameters
    ----------
    base
        What they share.
    quick
        A tenth of the payload.
    """
    shared: dict[str, object] = {"clock": "virtual"}
    if quick:
        shared["payload_bytes"] = quick_payload_bytes(base)
    between = [
        base.model_copy(update={**shared, "schedule": schedule, "release": release})
        for schedule in _between_hosts(base)
        for release in ("planned", "data")
    ]
    one_sum = {"schedule": IN_NETWORK, "chunks": 0, "model": "pipelined", "release": "planned"}
    every_edge = {"schedule": AT_EVERY_EDGE, "rounds": 1}
    return [*between, *(base.model_copy(update={**shared, **k}) for k in (one_sum, every_edge))]


def left_out(base: ExperimentConfig) -> list[str]:
    """Schedules between hosts that the topology has no use for."""
    tried = _between_hosts(base)
    return [schedule for schedule in COLLECTIVES if schedule not in (*tried, IN_NETWORK)]


def _between_hosts(base: ExperimentConfig) -> list[str]:
    network = cities(load_topology(base.topology))
    known = algorithms(network, make_task(network, ALL_REDUCE, base.payload_bytes))
    return [schedule for schedule, algorithm in COLLECTIVES.items() if algorithm in known]


def compare_collectives(
    base: ExperimentConfig,
    results_dir: Path,
    *,
    quick: bool,
    workers: int | None,
    progress: ProgressFactory,
) -> CollectiveComparison:
    """Run the comparison, or what is left of one that was interrupted.

    Parameters
    ----------
    base, quick
        See `collective_configs`.
    results_dir
        Folder of all runs; the comparison's own is ``compare-collectives/<id>`` below it.
    workers
        Guests at a time; one per processor by default.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        An experiment cannot be planned, or a worker was killed. A run that fails is a row.
    """
    configs = collective_configs(base, quick=quick)
    folder = comparison_folder(results_dir / FOLDER, configs)
    found = compare_configs(configs, results_dir, workers=workers, force=False, progress=progress)
    rows = [collective_row(config, *made) for config, made in zip(configs, found, strict=True)]
    # Any plan between hosts will do: the bound is the same for all of them.
    peers, notes = compare_open_mpi(configs[0], found[0][0], folder / "open-mpi", progress)
    rows += peers
    found_gain = gain(rows)
    notes += [] if found_gain is None else [found_gain.text]
    notes += [f"left out: {name}, which has no use here" for name in left_out(base)]
    title = (
        f"All-reduce of {format_bytes(configs[0].payload_bytes)} "
        f"on {found[0][0].topology.name}, measured"
    )
    files = write_collective_tables(folder, rows, title, notes)
    files.append(draw_collectives(folder, rows, title))
    give_to_caller(folder)
    return CollectiveComparison(folder, title, rows, notes, files)

"""Measures Open MPI's all-reduces on the network of an experiment."""

import json
from collections.abc import Sequence
from pathlib import Path

from controller.tour import shortest_tour
from experiments.config import ExperimentConfig
from experiments.openmpi.job import Job, Report
from experiments.openmpi.package import ensure_open_mpi
from experiments.planning import plan_experiment
from experiments.run import ProgressFactory, make_runtime, run_program
from testbed.errors import InputError
from testbed.jsonmodel import read_model
from testbed.paths import give_to_caller, make_dir
from testbed.routing import route
from testbed.virtualtime.kernel import ensure_kernel

REPEATS = 3


def measure_open_mpi(
    config: ExperimentConfig,
    folder: Path,
    algorithms: Sequence[str],
    *,
    repeats: int = REPEATS,
    progress: ProgressFactory,
) -> Report:
    """Run Open MPI between the hosts of a collective's plan, in virtual time.

    Parameters
    ----------
    config
        Topology, payload, scale, seed; its schedule is a collective's.
    folder
        Takes plan, logs and report; a report of the same job is taken over.
    algorithms
        See `experiments.openmpi.launch.ALGORITHMS`.
    repeats
        All-reduces after the first.
    progress
        Shows the step.

    Raises
    ------
    CliquenetError
        Open MPI cannot be had, or the network did not come up.
    """
    config = config.model_copy(update={"schedule": "ring"}).at_clock("virtual")
    plan = plan_experiment(config)
    topology = plan.topology
    tour = shortest_tour(route(topology).delays_ms())
    with_shim = ensure_open_mpi()
    job = Job(
        root=str(with_shim.root),
        shim=str(with_shim.shim),
        version=with_shim.version,
        hosts=tuple(topology.codes[city] for city in tour),
        algorithms=tuple(algorithms),
        repeats=repeats,
    )
    for part in ("raw", "log"):
        make_dir(folder / part)
    plan.write(folder / "plan.json")
    make_runtime(config, plan, folder).write(folder / "runtime.json")
    (folder / "job.json").write_text(job.model_dump_json(indent=1) + "\n")
    with progress("running Open MPI between the same hosts") as step:
        run_program("experiments.openmpi.guest", config, folder, ensure_kernel(), step)
    give_to_caller(folder)
    return read_model(Report, folder / "report.json")

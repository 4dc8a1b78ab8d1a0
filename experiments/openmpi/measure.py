"""Measures Open MPI's all-reduces on the network of an experiment."""

from collections.abc import Callable, Sequence
from pathlib import Path

from agents.operands import chunk_layout
from agents.wire import ELEMENT_BYTES
from controller.plan import Plan, read_plan
from controller.tour import shortest_tour
from experiments.config import ExperimentConfig
from experiments.openmpi.job import Job, Report, Variant
from experiments.openmpi.package import ensure_open_mpi
from experiments.openmpi.variants import all_variants
from experiments.planning import plan_experiment
from experiments.run import ProgressFactory, make_runtime, run_program
from testbed.errors import InputError
from testbed.jsonmodel import read_model
from testbed.paths import give_to_caller, make_dir
from testbed.routing import path_delay_ms, route
from testbed.topology import Topology
from testbed.virtualtime.kernel import ensure_kernel

REPEATS = 2
"""The third and later ones take as long as the second, to 0.1 ms."""


def measure_open_mpi(
    config: ExperimentConfig,
    folder: Path,
    *,
    choose: Callable[[int], Sequence[Variant]] = all_variants,
    repeats: int = REPEATS,
    progress: ProgressFactory,
) -> Report:
    """Run Open MPI between the hosts of a network, in virtual time.

    Parameters
    ----------
    config
        Topology, payload, scale, seed.
    folder
        Takes plan, logs and report. A report of the same is taken over.
    choose
        From the bytes of each rank's vector to what is measured.
    repeats
        All-reduces by each variant.
    progress
        Shows the step.

    Raises
    ------
    CliquenetError
        Open MPI cannot be had, or the network did not come up.
    """
    config = config.model_copy(update={"schedule": "ring"}).at_clock("virtual")
    plan = plan_experiment(config)
    runtime = make_runtime(config, plan, folder)
    installation = ensure_open_mpi()
    job = Job(
        root=str(installation.root),
        shim=str(installation.shim),
        version=installation.version,
        hosts=ring_order(plan.topology),
        variants=tuple(choose(vector_bytes(plan, runtime.mtu_bytes))),
        repeats=repeats,
    )
    found = _finished(folder, plan, job)
    if found is not None:
        return found
    for part in ("raw", "log"):
        make_dir(folder / part)
    (folder / "report.json").unlink(missing_ok=True)
    plan.write(folder / "plan.json")
    runtime.write(folder / "runtime.json")
    (folder / "job.json").write_text(job.model_dump_json(indent=1) + "\n")
    with progress("running Open MPI between the same hosts") as step:
        run_program("experiments.openmpi.guest", config, folder, ensure_kernel(), step)
    give_to_caller(folder)
    return read_model(Report, folder / "report.json")


def ring_order(topology: Topology) -> tuple[str, ...]:
    """The cities along the shortest tour: ranks are neighbours as in our own ring."""
    tour = shortest_tour(route(topology).delays_ms())
    return tuple(topology.codes[city] for city in tour)


def ring_arithmetic(plan: Plan) -> tuple[float, float]:
    """What a ring takes at least, on shortest paths: for its bytes, and for its delays, in ms.

    Bytes: 2 (n − 1) / n · S over the busiest link (Patarasu and Yuan 2009), headers left
    out. Delays: of the 2 (n − 1) hops that one chunk makes in turn, from the worst start.
    """
    topology, routing = plan.topology, route(plan.topology)
    order = [topology.index(code) for code in ring_order(topology)]
    count = len(order)
    paths = [routing.path(order[i], order[(i + 1) % count]) for i in range(count)]
    rates_gbps = [city.access_rate_gbps for city in topology.cities]
    for edge in {edge for path in paths for edge in path}:
        streams = sum(edge in path for path in paths)
        rates_gbps.append(topology.edges[edge].rate_gbps / streams)
    hops = 2 * (count - 1)
    sent_bits = hops / count * plan.payload_bytes * 8
    delays_ms = [path_delay_ms(topology, path) for path in paths]
    worst_ms = max(
        sum(delays_ms[(start + hop) % count] for hop in range(hops)) for start in range(count)
    )
    return sent_bits / (min(rates_gbps) * 1e6), worst_ms


def vector_bytes(plan: Plan, mtu_bytes: int) -> int:
    """What each rank brings: the numbers that our datagrams carry, without headers."""
    layout = chunk_layout(plan.payload_bytes / plan.scale, mtu_bytes)
    return ELEMENT_BYTES * layout.total_elements


def _finished(folder: Path, plan: Plan, job: Job) -> Report | None:
    """The report of an earlier run of the same job on the same plan."""
    try:
        report = read_model(Report, folder / "report.json")
        return report if report.job == job and read_plan(folder / "plan.json") == plan else None
    except InputError:
        return None

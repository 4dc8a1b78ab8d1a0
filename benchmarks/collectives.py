"""The synthesiser of collectives against published figures and its own targets.

Run with ``make bench-collectives``. Each row is printed when it is measured; the last line is
one JSON object. CPU seconds are of this process, after the inner loops have been compiled.

The reference figures are those of the public TACOS, version 1.3.0 (github.com/astra-sim/tacos),
built with -O3 on two shared EPYC cores: all-gather of 1 GiB, links of 50 GiB/s and 0.5 µs, one
chunk per node, links held during their latency; "hetero" has 50 GiB/s along its first
dimension and 100 GiB/s along its second. 1.08 s for an all-reduce of 128 heterogeneous nodes is
the published figure (arXiv 2304.05301).
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.collectives.check import check_schedule
from controller.collectives.choose import Choice, choose
from controller.collectives.generators import DEFAULT_RATE, star
from controller.collectives.network import LinkSpec, Network, Node, make_network
from controller.collectives.reducing import STYLES
from controller.collectives.schedule import Model, Schedule
from controller.collectives.sources import load_network
from controller.collectives.synthesis import Effort, Synthesis, synthesise
from controller.collectives.task import make_task
from controller.collectives.transfers import retimed

_PAYLOAD_BYTES = 1 << 30
_SWEEP = 200


@dataclass(frozen=True)
class Reference:
    """A network, and what the public program needed for its all-gather."""

    topology: str
    time_us: float | None
    cpu_s: float | None


REFERENCES = (
    Reference("mesh:4x4", None, None),
    Reference("mesh:8x8", 10016, 0.012),
    Reference("torus:8x8", 5321, 0.008),
    Reference("mesh:8x16@50,100", 6683, 0.67),
    Reference("torus:16x16", 5111, 0.55),
    Reference("mesh:16x32", 10128, 7.9),
    Reference("torus:8x8x8", 3402, 3.9),
    Reference("mesh:16x32@50,100", 6805, 143),
    Reference("mesh:32x32", 10256, 68.7),
)
"""Times of the heterogeneous ones are of schedules that send chunks before they are held."""

JOINT = ("mesh:8x8", "mesh:8x8@50,100", "mesh:16x16", "mesh:16x16@50,100")


def measure(topology: str, collective: str, split: int, effort: Effort) -> Synthesis:
    """Synthesise one collective in the model of the reference."""
    network = load_network(topology).network
    parts = len(network.workers)
    task = make_task(network, collective, _PAYLOAD_BYTES, chunks=split * parts)
    return synthesise(network, task, "occupancy", effort)


def row_of(topology: str, found: Synthesis) -> dict[str, Any]:
    """The figures of one synthesis, its check included."""
    return {
        "topology": topology,
        "nodes": len(found.schedule.task.workers),
        "time_us": found.schedule.time_us,
        "bound_us": round(found.bounds.us, 6),
        "over_bound": round(found.over_bound, 4),
        "cpu_s": round(found.cpu_s, 4),
        "valid": not check_schedule(found.schedule),
    }


def gathers() -> list[dict[str, Any]]:
    """All-gather on every topology of the reference table."""
    rows = []
    for reference in REFERENCES:
        found = measure(reference.topology, "all-gather", 1, Effort())
        again = measure(reference.topology, "all-gather", 1, Effort())
        row = row_of(reference.topology, found)
        row["deterministic"] = equal(found.schedule, again.schedule)
        row["cpu_s"] = round(min(found.cpu_s, again.cpu_s), 4)
        row["reference_time_us"] = reference.time_us
        row["reference_cpu_s"] = reference.cpu_s
        if reference.cpu_s is not None:
            row["reference_cpu_over_cpu"] = round(reference.cpu_s / row["cpu_s"], 1)
        rows.append(show(row))
    return rows


def equal(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules have the same sends at the same times."""
    pairs = ((a.route, b.route), (a.chunk, b.chunk), (a.start_ps, b.start_ps))
    return all(np.array_equal(x, y) for x, y in pairs)


def all_reduces(gathered: dict[str, float]) -> list[dict[str, Any]]:
    """All-reduce as one network, against twice an all-gather."""
    rows = []
    for topology in JOINT:
        if topology not in gathered:
            gathered[topology] = measure(topology, "all-gather", 1, Effort()).schedule.time_us
        row = row_of(topology, measure(topology, "all-reduce", 8, Effort(attempts=3)))
        row["gain"] = round(2 * gathered[topology] / row["time_us"], 3)
        rows.append(show(row))
    return rows


def hetero_128() -> dict[str, Any]:
    """All-reduce of 128 heterogeneous nodes, as fast as it can be had."""
    quick = Effort(attempts=1)
    found = min(
        (measure("mesh:8x16@50,100", "all-reduce", 2, quick) for _ in range(3)),
        key=lambda each: each.cpu_s,
    )
    return show({**row_of("mesh:8x16@50,100", found), "published_cpu_s": 1.08})


def wide_area() -> list[dict[str, Any]]:
    """All-gather and all-reduce of 1 GB between 16 sites 50 ms apart, 100 Gbit/s, in both models.

    ``occupancy_us`` is what the schedule made in the occupancy model takes once links are
    free after the transmission: sends in its order, each as early as possible.
    """
    base = load_network("mesh:4x4").network
    ends = zip(base.src.tolist(), base.dst.tolist(), strict=True)
    links = [LinkSpec(a, b, 50e3, 12500.0) for a, b in ends]
    network = make_network("wan-mesh-4x4", base.nodes, links)
    rows = []
    for collective in ("all-gather", "all-reduce"):
        task = make_task(network, collective, 10**9)
        made: dict[str, Choice] = {}
        for model in ("pipelined", "occupancy"):
            made[model] = choose(
                network, task, _model(model), algorithm="synthesised", effort=Effort(budget_s=10)
            )
        ours, theirs = made["pipelined"].best, made["occupancy"].best
        freed = retimed(theirs.schedule, "pipelined")
        rows.append(
            show(
                {
                    "collective": collective,
                    "alpha_ms": 50,
                    "pipelined_us": ours.schedule.time_us,
                    "bound_us": round(ours.bounds.us, 1),
                    "occupancy_model_us": theirs.schedule.time_us,
                    "occupancy_us": freed.time_us,
                    "gain": round(theirs.schedule.time_us / ours.schedule.time_us, 3),
                    "gain_executed": round(freed.time_us / ours.schedule.time_us, 3),
                    "valid": not (*ours.faults, *theirs.faults, *check_schedule(freed)),
                }
            )
        )
    return rows


def _model(text: str) -> Model:
    return "pipelined" if text == "pipelined" else "occupancy"


def switch() -> dict[str, Any]:
    """All-reduce of 8 workers on a switch that copies and adds, against the best without."""
    able = star(8, multicast=True, aggregates=True)
    with_it = choose(able, make_task(able, "all-reduce", _PAYLOAD_BYTES), "pipelined").best
    plain = star(8)
    without = choose(plain, make_task(plain, "all-reduce", _PAYLOAD_BYTES), "pipelined").best
    return show(
        {
            "algorithm": with_it.schedule.algorithm,
            "time_us": with_it.schedule.time_us,
            "bound_us": round(with_it.bounds.us, 3),
            "host_only": without.schedule.algorithm,
            "host_only_us": without.schedule.time_us,
            "gain": round(without.schedule.time_us / with_it.schedule.time_us, 3),
            "valid": not (*with_it.faults, *without.faults),
        }
    )


def random_network(seed: int) -> Network:
    """A strongly connected graph of 4 to 40 nodes: a cycle and random links, all different."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 41))
    order = rng.permutation(count)
    ends = {(int(order[i - 1]), int(order[i])) for i in range(count)}
    for _ in range(int(rng.integers(0, 3 * count))):
        a, b = rng.choice(count, 2, replace=False)
        ends.add((int(a), int(b)))
    links = [
        LinkSpec(a, b, float(rng.uniform(0.1, 50)), float(rng.uniform(0.1, 1) * DEFAULT_RATE))
        for a, b in sorted(ends)
    ]
    return make_network(f"random-{seed}", [Node(str(i)) for i in range(count)], links)


def sweep(count: int) -> dict[str, Any]:
    """Schedules for random graphs: all checked, and the distribution of time over bound."""
    valid = 0
    ratios: dict[str, list[float]] = {"all-gather": [], "all-reduce": []}
    for seed in range(count):
        network = random_network(seed)
        faults: list[str] = []
        for collective, collected in ratios.items():
            chunks = (4 if collective == "all-gather" else 16) * len(network.workers)
            task = make_task(network, collective, 1 << 26, chunks=chunks)
            found = synthesise(network, task, "pipelined", Effort(attempts=len(STYLES) + 1))
            faults += check_schedule(found.schedule)
            collected.append(found.over_bound)
        valid += not faults
    result: dict[str, Any] = {"graphs": count, "valid": valid}
    for collective, collected in ratios.items():
        points = np.percentile(collected, (0, 25, 50, 75, 90, 100))
        names = ("min", "p25", "median", "p75", "p90", "max")
        result[collective] = {
            name: round(float(point), 3) for name, point in zip(names, points, strict=True)
        }
    return show(result)


def show(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row, and hand it on."""
    print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def main() -> int:
    """Measure everything, or with ``--quick`` leave the largest out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no 4096 nodes, 20 random graphs")
    quick = parser.parse_args().quick
    began = time.process_time()
    for collective in ("all-gather", "all-reduce"):
        measure("mesh:4x4", collective, 1, Effort(attempts=len(STYLES) + 1))
    result: dict[str, Any] = {"compile_cpu_s": round(time.process_time() - began, 2)}
    result["rows"] = gathers()
    if not quick:
        result["large"] = show(
            row_of("mesh:64x64", measure("mesh:64x64", "all-gather", 1, Effort()))
        )
    result["hetero_128_all_reduce"] = hetero_128()
    result["all_reduce"] = all_reduces({row["topology"]: row["time_us"] for row in result["rows"]})
    result["wide_area"] = wide_area()
    result["switch"] = switch()
    result["sweep"] = sweep(20 if quick else _SWEEP)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

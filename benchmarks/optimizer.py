"""How the optimiser's time and memory grow with the network.

Run with ``python -m benchmarks.optimizer``. It prints what it does and, as its
last line, one JSON object. ``seconds`` covers search and plan, ``near_seconds``
is when the best came within 1 % of the final one, ``families_seconds`` when all
families had been measured, which is the same work for all sizes but for the
network; its exponent, and that of the memory, are over the number of islands.
"""

import argparse
import json
import math
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from controller.optimizer import MAX_PERIOD, Progress, optimize
from controller.search.candidates import starts
from testbed.generate import make_topology
from testbed.progress import Step
from testbed.topology import Topology, load_topology

_SIZES = (9, 16, 32, 64)
_PAYLOAD_BYTES = 1.79e9
_MEMORY_BYTES = 32e9
_NEAR = 1.01


def measure(topology: Topology, budget_s: float, restarts: int) -> dict[str, Any]:
    """Optimise one network, and say how long it took and how much memory it used."""
    families = len(starts(topology, MAX_PERIOD))
    measured_s: list[float] = []
    began = time.monotonic()
    with Step(f"optimising {topology.name}") as step:

        def show(state: Progress) -> None:
            if state.done == families:
                measured_s.append(state.seconds)
            step.tick(f"{state.done} of {state.total} tasks, best {state.best_ms:.1f} ms")

        found = optimize(
            topology,
            payload_bytes=_PAYLOAD_BYTES,
            memory_bytes=_MEMORY_BYTES,
            budget_s=budget_s,
            restarts=restarts,
            progress=show,
        )
    near_s = next(s for s, ms in found.history if ms <= found.best.objective_ms * _NEAR)
    # This process, and as many workers as there are cores, each at most the largest.
    own_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    memory_mb = (own_kb + (os.cpu_count() or 1) * worker_kb) / 1024
    return {
        "islands": len(topology.cities),
        "seconds": round(time.monotonic() - began, 2),
        "families": families,
        "families_seconds": round(measured_s[0], 2) if measured_s else None,
        "near_seconds": round(near_s, 2),
        "tasks": f"{found.tasks_done}/{found.tasks}",
        "t_ms": round(found.best.t_ms, 2),
        "a_rms": round(found.best.lifetime, 4),
        "objective_ms": round(found.best.objective_ms, 2),
        "planned_t_ms": round(found.plan.prediction.t_ms, 2),
        "period": len(found.best.schedule.rounds),
        "memory_mb": round(memory_mb, 1),
    }


def exponent(rows: list[dict[str, Any]], key: str) -> float:
    """Slope of log seconds over log islands, by least squares."""
    xs = [math.log(row["islands"]) for row in rows]
    ys = [math.log(max(row[key], 1e-3)) for row in rows]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread


def main() -> int:
    """Measure all sizes, each in a fresh process so that memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=30.0, help="seconds for each network")
    parser.add_argument("--restarts", type=int, default=8, help="random starts")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SIZES))
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        topology = load_topology("nine-cities") if size == 9 else make_topology(size, seed=1)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            row = alone.submit(measure, topology, options.budget, options.restarts).result()
        rows.append(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    result: dict[str, Any] = {"rows": rows}
    if len(rows) > 1:
        # A budget may be too short even to measure all families.
        if all(row["families_seconds"] for row in rows):
            result["families_exponent"] = round(exponent(rows, "families_seconds"), 2)
        result["memory_exponent"] = round(exponent(rows, "memory_mb"), 2)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How long the planner takes for the named schedules.

Run with ``python -m benchmarks.planning``. Seconds are those of the processor, so
that a busy machine measures the same as an idle one, without the imports. The
last line is one JSON object.
"""

import json
import sys
import time
from typing import Any

from controller.planner import make_plan
from controller.schedule import NAMED, load_schedule
from testbed.topology import load_topology

_PAYLOAD_BYTES = 1.79e9
_MEMORIES_BYTES = (0.0, 0.3e9, 32e9)


def measure(memory_bytes: float) -> dict[str, Any]:
    """Plan each named schedule once, and say how long that took and what T is."""
    topology = load_topology("nine-cities")
    row: dict[str, Any] = {"memory_bytes": memory_bytes}
    began = time.process_time()
    for name in NAMED:
        plan = make_plan(
            topology,
            load_schedule(name, topology),
            payload_bytes=_PAYLOAD_BYTES,
            memory_bytes=memory_bytes,
        )
        row[f"{name}_ms"] = round(plan.prediction.t_ms, 3) if plan.feasible else None
    return {**row, "cpu_seconds": round(time.process_time() - began, 3)}


def main() -> int:
    """Measure each memory, after one round for the libraries that the first call loads."""
    measure(_MEMORIES_BYTES[-1])
    rows = [measure(memory_bytes) for memory_bytes in _MEMORIES_BYTES]
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()))
    print(json.dumps({"rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""All-reduce on the nine cities, each link failing at half the time: planned, without packets.

Run with ``make bench-resynthesis``. A row for each link, the last line is one JSON object. CPU
milliseconds are of this process, after the inner loops have been compiled, for five schedules
from the state, as runs try them, without the check. Meanwhile hosts go on with what does not
need the link. ``known`` is the earlier end of two schedules that had known: one that never uses
the link, and one that is ready at the failure, in no time.
"""

import json
import sys
from typing import Any

from controller.collectives.choose import choose
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE
from controller.collectives.interruption import Break, Interruption
from controller.collectives.network import without_links
from controller.collectives.resynthesis import Resynthesis, changed, resynthesise
from controller.collectives.schedule import Schedule
from controller.collectives.synthesis import Effort
from controller.collectives.task import make_task
from testbed.topology import Topology, load_topology

_PAYLOAD_BYTES = 1_790_000_000
_DELAY_PS = 110_000_000_000
"""100 ms for planning and 10 ms for paths, as runs have it."""
_PS_PER_MS = 1_000_000_000
_QUICK, _THOROUGH = Effort(attempts=5), Effort(attempts=64)


def row_of(topology: Topology, schedule: Schedule, link: int) -> dict[str, Any]:
    """What comes of one link's failure."""
    access = 2 * len(topology.cities)
    edges = [edge.index for edge in topology.edges if edge.link == link]
    links = frozenset(access + edge for edge in edges)
    at_ps = schedule.time_ps // 2
    network = changed(schedule.network, dict.fromkeys(links, 0.0))

    def after(delay_ps: int, effort: Effort) -> Resynthesis:
        moment = at_ps + delay_ps
        event = Interruption((Break(links, at_ps),), moment, moment)
        return resynthesise(schedule, network, event, effort)

    found = after(_DELAY_PS, _QUICK)
    ready = after(0, _THOROUGH)
    never = choose(
        without_links(schedule.network, links), schedule.task, schedule.model, effort=Effort()
    ).best
    finish_ms = (at_ps + _DELAY_PS + found.schedule.time_ps) / _PS_PER_MS
    at_once_ms = (at_ps + ready.schedule.time_ps) / _PS_PER_MS
    known_ms = min(at_once_ms, never.schedule.time_us / 1e3)
    ends = topology.links[link]
    return {
        "link": f"{ends.a}-{ends.b}",
        "algorithm": found.schedule.algorithm,
        "sends": found.schedule.sends,
        "chunks_final": found.state.final,
        "finish_ms": round(finish_ms, 3),
        "known_from_start_ms": round(never.schedule.time_us / 1e3, 3),
        "known_at_failure_ms": round(at_once_ms, 3),
        "over_known": round(finish_ms / known_ms, 4),
        "planning_cpu_ms": round(found.cpu_s * 1e3, 1),
        "valid": not (found.faults or ready.faults or never.faults),
    }


def main() -> int:
    """Measure all links; status 3 if a schedule is not valid."""
    topology = load_topology("nine-cities")
    network = cities(topology)
    task = make_task(network, ALL_REDUCE, _PAYLOAD_BYTES)
    schedule = choose(network, task, "pipelined").best.schedule
    print(f"without a failure {schedule.time_us / 1e3:.1f} ms, {schedule.algorithm}")
    row_of(topology, schedule, 0)  # compiles
    rows = []
    for link in range(len(topology.links)):
        rows.append(row_of(topology, schedule, link))
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    print(json.dumps({"undisturbed_ms": schedule.time_us / 1e3, "rows": rows}))
    return 0 if all(row["valid"] for row in rows) else 3


if __name__ == "__main__":
    sys.exit(main())

"""Makes the faults of a config happen: one handler per kind of `experiments.faults`."""

import time
from functools import partial
from typing import Any

from experiments.agenda import Agenda
from experiments.faults import Fault, Restart
from experiments.fleet import Fleet

NS_PER_MS = 1_000_000
_POLL_NS = NS_PER_MS
"""How often a restart that is due looks whether the old process has ended."""


def play(fault: Fault, fleet: Fleet, agenda: Agenda) -> None:
    """Begin a fault, which is due; the agenda gets what follows from it."""
    restart(fault, fleet, agenda)


def not_reached(fault: Fault) -> dict[str, Any]:
    """The record of a fault for which the run was over too early."""
    return {"at_ns": round(fault.at_ms * NS_PER_MS), "event": fault.event, "city": fault.city}


def restart(fault: Restart, fleet: Fleet, agenda: Agenda) -> None:
    """End an agent and put its new start on the agenda."""
    record = {**not_reached(fault), "role": fault.role, "signal": fault.signal}
    fleet.timeline.append(record)
    if not fleet.runs(fault.role, fault.city):
        return
    record["happened_ns"] = fleet.since_start_ns()
    record["lives"] = fleet.end_one(fault.role, fault.city, fault.signal)
    again_ns = time.monotonic_ns() + round(fault.down_ms * NS_PER_MS)
    agenda.at(again_ns, partial(_start_again, fault, fleet, agenda, record))


def _start_again(fault: Restart, fleet: Fleet, agenda: Agenda, record: dict[str, Any]) -> None:
    if fleet.runs(fault.role, fault.city):
        later_ns = time.monotonic_ns() + _POLL_NS
        agenda.at(later_ns, partial(_start_again, fault, fleet, agenda, record))
        return
    fleet.start_one(fault.role, fault.city)
    record["restarted_ns"] = fleet.since_start_ns()

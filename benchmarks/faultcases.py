"""One run for each kind of event and schedule, and what should become of its rounds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from controller.plan import Plan

SCHEDULES = ("triangles", "all-to-all")
CITY = "lon"
"""Whose stream is on its way when something happens."""
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {"trees": "shortest-path", "payload": "60MB", "rounds": 4, "tolerance_percent": 2}
)
_ROUND = 1
_BACKOFF_ROUNDS = 25
"""So many that switches, which try once a second, find a new controller before the end."""

Event = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One kind of event.

    Attributes
    ----------
    events
        Given when half of the city's stream has left, and a link of its tree.
    worst
        What the worst round may be.
    lasts
        Whether all rounds from then on suffer; else those that begin an interval after
        the end are whole again.
    settings
        Of the run, beside `SETTINGS`.
    """

    events: Callable[[float, str], Sequence[Event]]
    worst: frozenset[str]
    lasts: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def _of(*worst: str) -> frozenset[str]:
    return frozenset(worst)


CASES: Mapping[str, Case] = MappingProxyType(
    {
        "link-down": Case(
            lambda at, link: [{"at_ms": at, "event": "link-down", "link": link}],
            _of("late", "partial"),
            lasts=True,
        ),
        "link-down, ignored": Case(
            lambda at, link: [{"at_ms": at, "event": "link-down", "link": link}],
            _of("partial"),
            lasts=True,
            settings={"on_link_down": "ignore"},
        ),
        "link-up": Case(
            lambda at, link: [
                {"at_ms": 0, "event": "link-down", "link": link},
                {"at_ms": at, "event": "link-up", "link": link},
            ],
            _of("whole", "late"),
        ),
        "link-change": Case(
            lambda at, link: [{"at_ms": at, "event": "link-change", "link": link, "delay_ms": 90}],
            _of("late"),
            lasts=True,
        ),
        "loss-burst": Case(
            lambda at, link: [
                {
                    "at_ms": at,
                    "event": "loss-burst",
                    "link": f"access:{CITY}",
                    "direction": "both",
                    "loss_percent": 30,
                    "for_ms": 10,
                }
            ],
            _of("partial"),
        ),
        "aggregator-restart": Case(
            lambda at, link: [
                {"at_ms": at, "event": "aggregator-restart", "city": "fra", "down_ms": 100}
            ],
            _of("partial"),
        ),
        "island-restart": Case(
            lambda at, link: [
                {"at_ms": at, "event": "island-restart", "city": CITY, "down_ms": 110}
            ],
            _of("partial"),
        ),
        "straggle": Case(
            lambda at, link: [{"at_ms": at, "event": "straggle", "city": CITY, "for_ms": 40}],
            _of("late"),
        ),
        "island-crash": Case(
            lambda at, link: [{"at_ms": at, "event": "island-crash", "city": CITY}],
            _of("partial"),
            lasts=True,
        ),
        "controller-restart": Case(
            lambda at, link: [{"at_ms": at, "event": "controller-restart", "down_ms": 20}],
            _of("lost"),
            settings={"rounds": _BACKOFF_ROUNDS, "payload": "20MB"},
        ),
        "switch-reconnect": Case(
            lambda at, link: [
                {"at_ms": at, "event": "switch-reconnect", "city": CITY, "down_ms": 20}
            ],
            _of("whole"),
        ),
    }
)


def moment(plan: Plan) -> tuple[float, str]:
    """When half of the city's stream has left, in ms, and the first link of its tree."""
    stream = plan.round(_ROUND).stream_of(CITY)
    if stream is None:
        raise ValueError(f"{CITY} sends nothing in round {_ROUND}")
    edge = plan.topology.edges[next(iter(stream.paths.values()))[0]]
    within_ms = stream.offset_ms + stream.duration_ms / 2
    return round(_ROUND * plan.round_interval_ms + within_ms, 3), f"{edge.src}-{edge.dst}"


def problems(case: Case, summary: Mapping[str, Any], interval_ms: float) -> list[str]:
    """Where a run differs from what should have become of it; one sentence each."""
    found = []
    at_ms = min(fault["at_ms"] for fault in summary["faults"])
    ends = [fault.get("connected_ms") or fault["ended_ms"] for fault in summary["faults"]]
    end_ms = None if case.lasts or None in ends else max(ends)
    outcomes = {told["round"]: told["outcome"] for told in summary["rounds"]}
    for k, outcome in outcomes.items():
        over = (k + 1.5) * interval_ms < at_ms
        again = end_ms is not None and k * interval_ms > end_ms + interval_ms
        if outcome != "whole" and (over or again):
            found.append(f"round {k} is {outcome}, {'before' if over else 'after'} the event")
    worst = max(outcomes.values(), key=("whole", "late", "partial", "lost").index)
    if worst not in case.worst:
        found.append(f"the worst round is {worst}, not {' or '.join(sorted(case.worst))}")
    if end_ms is None and not case.lasts:
        found.append("the event did not end")
    if summary["blocks_wrong"]:
        found.append(f"{summary['blocks_wrong']} sums are wrong")
    if summary["verdict"] == "FAIL":
        found.append(f"FAIL: {summary['reasons'][0]}")
    return found

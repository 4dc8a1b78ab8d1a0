"""The part of a summary that is about events: their timeline, and what became of each round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.installer import BASE
from experiments.accounting import Delivery
from experiments.incarnations import FaultRecord, Reaction
from experiments.outcomes import RoundOutcome, check_outcomes, effects_of, round_outcomes
from experiments.rundata import RunData
from experiments.verdict import Finding, Promise, RoundTime

NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class EventPart:
    """What follows from the events of a run.

    Attributes
    ----------
    outcomes
        Of each round, also where nothing happened.
    findings
        What speaks against the run; nothing where no events were asked for.
    timeline
        Each event, and what the controller did about it.
    """

    outcomes: list[RoundOutcome]
    findings: list[Finding]
    timeline: list[dict[str, Any]]


def event_part(
    run: RunData,
    times: Sequence[RoundTime],
    delivery: Delivery,
    promise: Promise,
    tolerance_percent: float,
) -> EventPart:
    """Work out what events did to a run; the parameters are as in `round_outcomes`."""
    outcomes = round_outcomes(
        run.plan,
        times,
        delivery,
        _stale_by_round(run),
        effects_of(run.faults, run.reactions),
        tolerance_percent,
    )
    impaired = bool(run.runtime.impairments)
    findings = check_outcomes(outcomes, promise, impaired=impaired) if run.runtime.events else []
    timeline = [{**_timed(f), **_reaction(f, run.reactions)} for f in run.faults]
    return EventPart(outcomes, findings, timeline)


def _stale_by_round(run: RunData) -> dict[int, list[str]]:
    """Round to the islands that could not average all its sums before the next one began."""
    stale: dict[int, list[str]] = {}
    for code, counted in run.counters["island"].items():
        for told in counted["rounds"]:
            if told["stale_rows"]:
                stale.setdefault(told["round"], []).append(code)
    return stale


def _timed(fault: FaultRecord) -> dict[str, Any]:
    """A line of the timeline; times in ms since the start of round 0."""
    times_ns = {"at": fault.at_ns, "happened": fault.happened_ns, "ended": fault.ended_ns}
    times = {f"{name}_ms": None if t is None else t / NS_PER_MS for name, t in times_ns.items()}
    what = {"event": fault.event, "target": fault.target, "signal": fault.signal}
    return {**what, "directions": list(fault.directions), **times}


def _reaction(fault: FaultRecord, reactions: Sequence[Reaction]) -> dict[str, Any]:
    """What the controller did about a link that went down or came up, or a lost switch."""
    later = [r for r in reactions if fault.happened_ns is not None and r.at_ns >= fault.happened_ns]
    if fault.event in ("controller-restart", "switch-reconnect"):
        again = [r.at_ns for r in later if r.event == "switch" and r.state == "up"]
        return {"connected_ms": max(again) / NS_PER_MS if again else None}
    if fault.event not in ("link-down", "link-up"):
        return {}
    name = set(fault.target.split("-"))
    mine = [r for r in later if set(r.link.split("-")) == name]
    told = next((r for r in mine if r.event == "link"), None)
    made = next((r for r in mine if r.event == "reroute"), None)
    if made is None:
        return {"detected_ms": None if told is None else told.at_ns / NS_PER_MS, "rerouted": []}
    actions = [r for r in later if r.event == "round" and r.at_ns >= made.at_ns]
    moved = {*made.rounds, BASE}
    return {
        "detected_ms": None if told is None else told.at_ns / NS_PER_MS,
        "rerouted": list(made.rounds),
        "rerouted_ms": _all_done(actions, "rerouted", moved),
        "swept_ms": _all_done(actions, "swept", moved),
        "rules": made.rules,
        "cut_off": [list(ends) for ends in made.cut_off],
    }


def _all_done(actions: Sequence[Reaction], action: str, rounds: set[int]) -> float | None:
    """When the last of some rounds had its rules changed, in ms; None if not all did."""
    first: dict[int, int] = {}
    for done in actions:
        if done.action == action and done.round is not None:
            first.setdefault(done.round, done.at_ns)
    return max(first[k] for k in rounds) / NS_PER_MS if rounds <= first.keys() else None

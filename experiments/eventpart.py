"""The part of a summary that is about events: their timeline, and what became of each round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.installer import BASE
from experiments.accounting import Delivery
from experiments.incarnations import FaultRecord, Reaction
from experiments.outcomes import (
    RoundOutcome,
    check_outcomes,
    connected_ns,
    effects_of,
    round_outcomes,
)
from experiments.rundata import RunData
from experiments.verdict import Promise, RoundTime
from testbed.findings import Finding

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
        effects_of(run.faults, run.reactions, run.plan.topology),
        tolerance_percent,
    )
    impaired = bool(run.runtime.impairments)
    findings = check_outcomes(outcomes, promise, impaired=impaired) if run.runtime.events else []
    timeline = [{**_timed(f), **_reaction(f, run)} for f in run.faults]
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


def _reaction(fault: FaultRecord, run: RunData) -> dict[str, Any]:
    """What the controller did about a link that went down or came up, or a lost switch."""
    if fault.event in ("controller-restart", "switch-reconnect"):
        back_ns = connected_ns(fault, run.reactions, run.plan.topology)
        return {"connected_ms": None if back_ns is None else back_ns / NS_PER_MS}
    if fault.event not in ("link-down", "link-up"):
        return {}
    begun_ns, name = fault.happened_ns, set(fault.target.split("-"))
    later = [r for r in run.reactions if begun_ns is not None and r.at_ns >= begun_ns]
    mine = [r for r in later if set(r.link.split("-")) == name]
    told = next((r for r in mine if r.event == "link"), None)
    made = next((r for r in mine if r.event == "reroute"), None)
    if made is None:
        return {"detected_ms": None if told is None else told.at_ns / NS_PER_MS, "rerouted": []}
    since_ns = (told or made).at_ns
    actions = [r for r in later if r.event == "round" and r.at_ns >= since_ns]
    moved = {*made.rounds, BASE}
    done_ns = _reached(actions, "rerouted")
    # Of rounds that are over by then, all rules are gone.
    swept_ns = [t for k, t in _reached(actions, "swept").items() if k in moved]
    whole = moved <= done_ns.keys()
    return {
        "detected_ms": None if told is None else told.at_ns / NS_PER_MS,
        "rerouted": list(made.rounds),
        "rerouted_ms": max(done_ns[k] for k in moved) / NS_PER_MS if whole else None,
        "swept_ms": max(swept_ns) / NS_PER_MS if swept_ns else None,
        "rules": made.rules,
        "cut_off": [list(ends) for ends in made.cut_off],
    }


def _reached(actions: Sequence[Reaction], action: str) -> dict[int, int]:
    """Round to when something had first been done about its rules, in ns."""
    first: dict[int, int] = {}
    for done in actions:
        if done.action == action and done.round is not None:
            first.setdefault(done.round, done.at_ns)
    return first

"""What became of each round of a run with events, and which of them may be why.

A round is ``whole`` if every contribution reached its island in the planned time;
``late`` if all came, but some after that, or too late to be averaged in the next round;
``partial`` if some never came, ``lost`` if none did. Ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from controller.plan import Plan
from experiments.accounting import Delivery
from experiments.incarnations import FaultRecord, Reaction
from experiments.verdict import Promise, RoundTime
from testbed.addressing import dpid
from testbed.findings import Finding
from testbed.topology import Topology

NS_PER_MS = 1_000_000
Outcome = Literal["whole", "late", "partial", "lost"]


@dataclass(frozen=True)
class RoundOutcome:
    """What became of one round.

    Attributes
    ----------
    round, outcome
        Which, and what.
    expected, missing
        Contributions: one block of one sender at one island.
    islands
        Those at which some are missing, or which could not average in time.
    events
        What happened while the round was open, as the timeline names it.
    """

    round: int
    outcome: Outcome
    expected: int
    missing: int
    islands: tuple[str, ...]
    events: tuple[str, ...]

    def __str__(self) -> str:
        short = f", {self.missing} of {self.expected} contributions missing" if self.missing else ""
        where = f" at {', '.join(self.islands)}" if self.islands else ""
        why = f", after {'; '.join(self.events)}" if self.events else ""
        return f"round {self.round}: {self.outcome}{short}{where}{why}"


def round_outcomes(
    plan: Plan,
    times: Sequence[RoundTime],
    delivery: Delivery,
    stale: Mapping[int, Sequence[str]],
    effects: Sequence["Effect"],
    tolerance_percent: float,
) -> list[RoundOutcome]:
    """Tell what became of each round.

    Parameters
    ----------
    plan, times, delivery
        The run, its rounds' times, and what reached the islands.
    stale
        Round to the islands that could not average all sums in time.
    effects
        When events had an effect.
    tolerance_percent
        How much longer than planned a round may take.
    """
    found = []
    for time in times:
        k = time.round
        here = {
            plan.topology.codes[city]: counts
            for (round_index, city), counts in delivery.by_receiver.items()
            if round_index == k
        }
        expected = sum(due for due, _ in here.values())
        missing = sum(short for _, short in here.values())
        short = {code for code, (_, missed) in here.items() if missed} | set(stale.get(k, ()))
        slow = time.error_percent is not None and time.error_percent > tolerance_percent
        outcome: Outcome = "late" if slow or short else "whole"
        if missing:
            outcome = "lost" if missing == expected else "partial"
        events = tuple(e.name for e in effects if e.meets(plan, k)) if outcome != "whole" else ()
        found.append(RoundOutcome(k, outcome, expected, missing, tuple(sorted(short)), events))
    return found


@dataclass(frozen=True)
class Effect:
    """From when until when an event may make a difference; None: to the end."""

    name: str
    from_ns: int
    until_ns: int | None

    def meets(self, plan: Plan, round_index: int) -> bool:
        """Whether that is while a round is open: to half an interval after the next begins."""
        interval_ns = plan.round_interval_ms * NS_PER_MS
        begin_ns, last = round_index * interval_ns, round_index + 1 == plan.rounds
        before_end = last or self.from_ns < begin_ns + 1.5 * interval_ns
        return before_end and (self.until_ns is None or self.until_ns >= begin_ns)


def effects_of(
    faults: Sequence[FaultRecord], reactions: Sequence[Reaction], topology: Topology
) -> list[Effect]:
    """When each event that happened had an effect.

    A switch that lost its controller, and a controller that came back, are without each
    other until the switch is connected again.
    """
    found = []
    for fault in faults:
        if fault.happened_ns is None or fault.event == "link-up":
            continue
        until_ns = fault.ended_ns
        if fault.event in ("controller-restart", "switch-reconnect"):
            until_ns = connected_ns(fault, reactions, topology)
        name = f"{fault.event} {fault.target}".rstrip()
        found.append(
            Effect(f"{name} at {fault.at_ns / NS_PER_MS:g} ms", fault.happened_ns, until_ns)
        )
    return found


def connected_ns(
    fault: FaultRecord, reactions: Sequence[Reaction], topology: Topology
) -> int | None:
    """When the switches that lost their controller had one again; None: not in the run."""
    if fault.happened_ns is None:
        return None
    codes = (fault.target,) if fault.target else topology.codes
    back: dict[int, int] = {}
    for told in reactions:
        if (told.event, told.state) == ("switch", "up") and told.at_ns >= fault.happened_ns:
            back.setdefault(told.dpid, told.at_ns)
    missing = {dpid(topology.index(code)) for code in codes}
    return max(back[n] for n in missing) if missing <= back.keys() else None


def check_outcomes(
    outcomes: Sequence[RoundOutcome], promise: Promise, *, impaired: bool
) -> list[Finding]:
    """Tell every round that is not whole, with the events that may be why.

    One that only took longer counts if its sums were too late for the next round, or
    if the config wants events to cost nothing.

    Parameters
    ----------
    outcomes
        Of a run with events.
    promise
        What the run has to keep.
    impaired
        Links were impaired from the beginning on: then losses need no event.
    """
    findings = []
    for outcome in (o for o in outcomes if o.islands or (promise.strict and o.outcome == "late")):
        if outcome.events or impaired or not promise.feasible:
            findings.append(Finding(promise.price, str(outcome)))
        else:
            findings.append(Finding("FAIL", f"{outcome}: no event explains it"))
    return findings


def entry(outcome: RoundOutcome) -> dict[str, Any]:
    """What ``summary.json`` says of a round beside its times."""
    return {
        "outcome": outcome.outcome,
        "contributions_expected": outcome.expected,
        "contributions_missing": outcome.missing,
        "islands": list(outcome.islands),
        "events": list(outcome.events),
    }

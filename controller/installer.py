"""Which rules go to which switch when: a state machine without any framework.

Work for a switch is a queue of steps. A step's changes are sent together with a
barrier; the next step goes out when the switch has answered that barrier. So
groups exist before the flows that use them, and "confirmed" means programmed.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from controller.reconcile import Difference, difference
from controller.rules import FlowRule, GroupRule, RuleSet

BASE = -1
"""In place of a round: the rules that every switch always holds."""


@dataclass(frozen=True)
class Clear:
    """Delete every flow and every group."""


@dataclass(frozen=True)
class Add:
    """Add a group, or a flow, which takes the place of one with the same match."""

    rule: GroupRule | FlowRule


@dataclass(frozen=True)
class Modify:
    """Put a group in the place of the one with its id."""

    rule: GroupRule


@dataclass(frozen=True)
class Delete:
    """Delete a group or exactly this flow."""

    rule: GroupRule | FlowRule


Change = Clear | Add | Modify | Delete


class Action(Enum):
    """What a round's report says."""

    CONFIRMED = "confirmed"
    REMOVED = "removed"
    REROUTED = "rerouted"
    """Its other trees are in place."""
    SWEPT = "swept"
    """What only its former trees needed is gone."""


class Goal(NamedTuple):
    """What is reported once all switches concerned have got there."""

    round: int
    action: Action


@dataclass(frozen=True)
class Step:
    """Changes that precede one barrier, and what is true of the switch after it."""

    changes: tuple[Change, ...]
    goals: frozenset[Goal] = frozenset()
    synchronised: bool = False
    """It then holds the base rules and those of every live round."""


@dataclass
class _Switch:
    connected: bool = False
    synchronised: bool = False
    steps: deque[Step] = field(default_factory=deque)
    """The first one is sent and waits for its barrier."""
    former: dict[int, RuleSet] = field(default_factory=dict)
    """By round: what it still holds of trees that the round does not take any more."""


class Installer:
    """Keeps the switches in step with the rounds.

    Parameters
    ----------
    base
        Rules that every switch always holds.
    switches
        Datapath ids that must connect.
    send
        Called with a datapath id and changes; sends them and one barrier.
    report
        Called with a round and what has become of it on all its switches.
    """

    def __init__(
        self,
        base: RuleSet,
        switches: Iterable[int],
        send: Callable[[int, tuple[Change, ...]], None],
        report: Callable[[int, Action], None],
    ) -> None:
        self._send = send
        self._report = report
        self._switches = {dpid: _Switch() for dpid in switches}
        self._rules: dict[int, RuleSet] = {BASE: base}
        self._waiting: dict[Goal, set[int]] = {}

    def knows(self, dpid: int) -> bool:
        """Whether a switch belongs to the network."""
        return dpid in self._switches

    def synchronised(self) -> bool:
        """Whether every switch is connected and holds its base rules."""
        return all(switch.synchronised for switch in self._switches.values())

    def missing(self, round_index: int) -> frozenset[int]:
        """Switches that have not confirmed the rules of a round yet."""
        return frozenset(self._waiting.get(Goal(round_index, Action.CONFIRMED), ()))

    def switch_up(self, dpid: int, held: RuleSet | None) -> None:
        """A switch connected: bring it from any state to what it should hold now.

        What it holds already stays as it is, so that packets go on meanwhile.

        Parameters
        ----------
        dpid
            The switch.
        held
            What it said that it holds; None if that is nothing that a plan makes.
        """
        switch = self._switches[dpid]
        switch.connected, switch.synchronised = True, False
        switch.steps.clear()
        switch.former.clear()
        wanted = sum((rules.of(dpid) for rules in self._rules.values()), RuleSet())
        goals = {goal for goal, dpids in self._waiting.items() if dpid in dpids}
        gone = {goal for goal in goals if goal.action in (Action.REMOVED, Action.SWEPT)}
        change = difference(RuleSet() if held is None else held, wanted)
        first = () if held is not None else (Step((Clear(),)),)
        making = _making(change, goals - gone, synchronised=True)
        self._queue(dpid, *first, *making, *_deleting(_stale(change), gone))

    def switch_down(self, dpid: int) -> None:
        """A switch disconnected: what it was asked for meanwhile is moot."""
        switch = self._switches[dpid]
        switch.connected = switch.synchronised = False
        switch.steps.clear()

    def install(self, round_index: int, rules: RuleSet) -> None:
        """Add the rules of a round beside those that are there."""
        self._rules[round_index] = rules
        goal = self._aim(round_index, Action.CONFIRMED, rules.dpids())
        for dpid in sorted(rules.dpids()):
            self._queue(dpid, *_making(difference(RuleSet(), rules.of(dpid)), {goal}))

    def replace(self, round_index: int, rules: RuleSet) -> Counter[str]:
        """Change the rules of a live round: new ones come at once, old ones go by `sweep`.

        Returns
        -------
        Counter
            How many rules that is, by the names of `Difference`.
        """
        before = self._rules[round_index]
        self._rules[round_index] = rules
        changes: dict[int, Difference] = {}
        for dpid in sorted(before.dpids() | rules.dpids()):
            former = self._switches[dpid].former.get(round_index, RuleSet())
            change = difference(before.of(dpid) + former, rules.of(dpid))
            if change != Difference(stale_groups=former.groups, stale_flows=former.flows):
                changes[dpid] = change
        goal = self._aim(round_index, Action.REROUTED, changes)
        for dpid, change in changes.items():
            self._switches[dpid].former[round_index] = _stale(change)
            self._queue(dpid, *_making(change, {goal}))
        parts = Difference.__dataclass_fields__
        return +Counter({p: sum(len(getattr(c, p)) for c in changes.values()) for p in parts})

    def sweep(self, round_index: int) -> None:
        """Delete what only former trees of a live round needed."""
        stale = {
            dpid: switch.former.pop(round_index)
            for dpid, switch in self._switches.items()
            if round_index in switch.former
        }
        if round_index not in self._rules:
            return
        goal = self._aim(round_index, Action.SWEPT, stale)
        for dpid, rules in stale.items():
            self._queue(dpid, *_deleting(rules, {goal}))

    def remove(self, round_index: int) -> None:
        """Delete the rules of a round."""
        rules = self._rules.pop(round_index)
        for dpid, switch in self._switches.items():
            rules += switch.former.pop(round_index, RuleSet()).of(dpid)
        for goal in [goal for goal in self._waiting if goal.round == round_index]:
            del self._waiting[goal]
        goal = self._aim(round_index, Action.REMOVED, rules.dpids())
        for dpid in sorted(rules.dpids()):
            self._queue(dpid, *_deleting(rules.of(dpid), {goal}))

    def barrier(self, dpid: int) -> None:
        """A switch answered the barrier behind the step that it had."""
        switch = self._switches[dpid]
        step = switch.steps.popleft()
        if switch.steps:
            self._send(dpid, switch.steps[0].changes)
        if step.synchronised:
            switch.synchronised = True
        for goal in sorted(step.goals, key=lambda goal: (goal.round, goal.action.value)):
            waiting = self._waiting.get(goal, set())
            if dpid in waiting:
                waiting.remove(dpid)
                self._check(goal)

    def _aim(self, round_index: int, action: Action, dpids: Iterable[int]) -> Goal:
        """Report it when all these switches are there, which may be now."""
        goal = Goal(round_index, action)
        self._waiting[goal] = set(dpids)
        self._check(goal)
        return goal

    def _check(self, goal: Goal) -> None:
        if not self._waiting[goal]:
            del self._waiting[goal]
            self._report(*goal)

    def _queue(self, dpid: int, *steps: Step) -> None:
        """Queue steps; a switch that is not connected gets everything when it is."""
        switch = self._switches[dpid]
        if not switch.connected:
            return
        idle = not switch.steps
        switch.steps.extend(steps)
        if idle:
            self._send(dpid, switch.steps[0].changes)


def _making(
    change: Difference, goals: Iterable[Goal], *, synchronised: bool = False
) -> tuple[Step, Step]:
    """Groups first, then the flows that use them."""
    flows = (*change.new_flows, *change.changed_flows)
    made = tuple(Add(group) for group in change.new_groups)
    changed = tuple(Modify(group) for group in change.changed_groups)
    return (
        Step((*made, *changed)),
        Step(tuple(Add(flow) for flow in flows), frozenset(goals), synchronised),
    )


def _deleting(rules: RuleSet, goals: Iterable[Goal]) -> tuple[Step, ...]:
    """Flows first, then the groups that they used."""
    if not (rules.groups or rules.flows or goals):
        return ()
    return (
        Step(tuple(Delete(flow) for flow in rules.flows)),
        Step(tuple(Delete(group) for group in rules.groups), frozenset(goals)),
    )


def _stale(change: Difference) -> RuleSet:
    return RuleSet(change.stale_groups, change.stale_flows)

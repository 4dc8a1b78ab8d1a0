"""Which rules go to which switch when: a state machine without any framework.

Work for a switch is a queue of steps. A step's changes are sent together with a
barrier; the next step goes out when the switch has answered that barrier. So
groups exist before the flows that use them, and "confirmed" means programmed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from controller.rules import FlowRule, GroupRule, RuleSet


@dataclass(frozen=True)
class Clear:
    """Delete every flow and every group."""


@dataclass(frozen=True)
class Add:
    """Add a group or a flow."""

    rule: GroupRule | FlowRule


@dataclass(frozen=True)
class Delete:
    """Delete a group or exactly this flow."""

    rule: GroupRule | FlowRule


Change = Clear | Add | Delete


class Action(Enum):
    """What a round's report says."""

    CONFIRMED = "confirmed"
    REMOVED = "removed"


@dataclass(frozen=True)
class Step:
    """Changes that precede one barrier, and what is true of the switch after it."""

    changes: tuple[Change, ...]
    confirms: frozenset[int] = frozenset()
    """Rounds whose rules the switch then holds."""
    removes: int | None = None
    """Round whose rules it then no longer holds."""
    synchronised: bool = False
    """It then holds the base rules and those of every live round."""


@dataclass
class _Switch:
    connected: bool = False
    synchronised: bool = False
    steps: deque[Step] = field(default_factory=deque)
    """The first one is sent and waits for its barrier."""


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
        self._base = base
        self._send = send
        self._report = report
        self._switches = {dpid: _Switch() for dpid in switches}
        self._rounds: dict[int, RuleSet] = {}
        self._unconfirmed: dict[int, set[int]] = {}
        self._unremoved: dict[int, set[int]] = {}

    def knows(self, dpid: int) -> bool:
        """Whether a switch belongs to the network."""
        return dpid in self._switches

    def synchronised(self) -> bool:
        """Whether every switch is connected and holds its base rules."""
        return all(switch.synchronised for switch in self._switches.values())

    def missing(self, round_index: int) -> frozenset[int]:
        """Switches that have not confirmed the rules of a round yet."""
        return frozenset(self._unconfirmed.get(round_index, ()))

    def switch_up(self, dpid: int) -> None:
        """A switch connected: bring it from any state to what it should hold now."""
        switch = self._switches[dpid]
        switch.connected, switch.synchronised = True, False
        switch.steps.clear()
        live = {k: rules.of(dpid) for k, rules in self._rounds.items()}
        groups = tuple(Add(group) for rules in live.values() for group in rules.groups)
        flows = [*self._base.of(dpid).flows]
        flows += [flow for rules in live.values() for flow in rules.flows]
        self._queue(
            dpid,
            Step((Clear(),)),
            Step(groups),
            Step(tuple(Add(flow) for flow in flows), frozenset(live), synchronised=True),
        )
        for round_index in list(self._unremoved):  # cleared with everything else
            self._removed(round_index, dpid)

    def switch_down(self, dpid: int) -> None:
        """A switch disconnected: what it was asked for meanwhile is moot."""
        switch = self._switches[dpid]
        switch.connected = switch.synchronised = False
        switch.steps.clear()

    def install(self, round_index: int, rules: RuleSet) -> None:
        """Add the rules of a round beside those that are there."""
        self._rounds[round_index] = rules
        self._unconfirmed[round_index] = set(rules.dpids())
        if not self._unconfirmed[round_index]:
            self._report(round_index, Action.CONFIRMED)
        for dpid in sorted(rules.dpids()):
            part = rules.of(dpid)
            self._queue(
                dpid,
                Step(tuple(Add(group) for group in part.groups)),
                Step(tuple(Add(flow) for flow in part.flows), frozenset({round_index})),
            )

    def remove(self, round_index: int) -> None:
        """Delete the rules of a round."""
        rules = self._rounds.pop(round_index)
        self._unconfirmed.pop(round_index, None)
        self._unremoved[round_index] = set(rules.dpids())
        if not self._unremoved[round_index]:
            self._removed(round_index, None)
        for dpid in sorted(rules.dpids()):
            part = rules.of(dpid)
            self._queue(
                dpid,
                Step(tuple(Delete(flow) for flow in part.flows)),
                Step(tuple(Delete(group) for group in part.groups), removes=round_index),
            )

    def barrier(self, dpid: int) -> None:
        """A switch answered the barrier behind the step that it had."""
        switch = self._switches[dpid]
        step = switch.steps.popleft()
        if switch.steps:
            self._send(dpid, switch.steps[0].changes)
        if step.synchronised:
            switch.synchronised = True
        for round_index in sorted(step.confirms):
            waiting = self._unconfirmed.get(round_index, set())
            if dpid in waiting:
                waiting.remove(dpid)
                if not waiting:
                    self._report(round_index, Action.CONFIRMED)
        if step.removes is not None:
            self._removed(step.removes, dpid)

    def _removed(self, round_index: int, dpid: int | None) -> None:
        waiting = self._unremoved.get(round_index)
        if waiting is None:
            return
        waiting.discard(-1 if dpid is None else dpid)
        if not waiting:
            del self._unremoved[round_index]
            self._report(round_index, Action.REMOVED)

    def _queue(self, dpid: int, *steps: Step) -> None:
        """Queue steps; a switch that is not connected gets everything when it is."""
        switch = self._switches[dpid]
        if not switch.connected:
            return
        idle = not switch.steps
        switch.steps.extend(steps)
        if idle:
            self._send(dpid, switch.steps[0].changes)

"""The order in which switches get their rules, and what is reported when."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.installer import Action, Add, Change, Clear, Delete, Installer, Modify
from controller.reconcile import match
from controller.rules import FlowRule, GroupRule, RuleSet

BASE = RuleSet(flows=(FlowRule(1, 100, "10.0.1.1", output_port=1), FlowRule(2, 100, "x")))


def tree(round_index: int, *switches: int) -> RuleSet:
    return RuleSet(
        groups=tuple(GroupRule(switch, round_index + 1, (3,)) for switch in switches),
        flows=tuple(
            FlowRule(switch, 200, f"239.0.{round_index}.1", 1, group_id=round_index + 1)
            for switch in switches
        ),
    )


class Switches:
    """Records what is sent, and keeps the tables that would follow from it."""

    def __init__(self, count: int = 2) -> None:
        self.reports: list[tuple[int, Action]] = []
        self.sent: list[tuple[int, tuple[Change, ...]]] = []
        self.tables: dict[int, list[GroupRule | FlowRule]] = {i + 1: [] for i in range(count)}
        self.waiting: list[int] = []
        self.installer = Installer(
            BASE, self.tables, self._send, lambda *report: self.reports.append(report)
        )

    def _send(self, dpid: int, changes: tuple[Change, ...]) -> None:
        assert dpid not in self.waiting, "sent before the barrier was answered"
        self.sent.append((dpid, changes))
        self.waiting.append(dpid)
        for change in changes:
            self._apply(self.tables[dpid], change)

    @staticmethod
    def _apply(table: list[GroupRule | FlowRule], change: Change) -> None:
        if isinstance(change, Clear):
            table.clear()
            return
        rule = change.rule
        groups = {old.group_id: old for old in table if isinstance(old, GroupRule)}
        if isinstance(change, Delete):
            if isinstance(rule, GroupRule):
                users = [old for old in table if isinstance(old, FlowRule)]
                assert rule.group_id not in {old.group_id for old in users}, "a flow lost its group"
            table.remove(rule)
        elif isinstance(rule, GroupRule):
            assert (rule.group_id in groups) == isinstance(change, Modify), "GROUP_EXISTS"
            if isinstance(change, Modify):
                table.remove(groups[rule.group_id])
            table.append(rule)
        else:
            assert rule.group_id is None or rule.group_id in groups, "a flow before its group"
            same = [old for old in table if isinstance(old, FlowRule) and match(old) == match(rule)]
            table[:] = [old for old in table if old not in same]
            table.append(rule)

    def connect(self, dpid: int) -> None:
        """A switch connects and says what it holds; what it had not answered is forgotten."""
        if dpid in self.waiting:
            self.waiting.remove(dpid)
        table = self.tables[dpid]
        groups = tuple(rule for rule in table if isinstance(rule, GroupRule))
        flows = tuple(rule for rule in table if isinstance(rule, FlowRule))
        self.installer.switch_up(dpid, RuleSet(groups, flows))

    def answer(self, dpid: int | None = None) -> None:
        """Answer one switch's barrier, or all until no one waits."""
        if dpid is not None:
            self.waiting.remove(dpid)
            self.installer.barrier(dpid)
            return
        while self.waiting:
            self.answer(self.waiting[0])


def expected(dpid: int, *rounds: RuleSet) -> set[GroupRule | FlowRule]:
    parts = [BASE.of(dpid), *(rules.of(dpid) for rules in rounds)]
    return {rule for part in parts for rule in (*part.groups, *part.flows)}


def test_a_switch_with_strange_rules_is_cleared_then_gets_groups_then_flows() -> None:
    switches = Switches()
    switches.installer.install(0, tree(0, 1))
    switches.installer.switch_up(1, None)
    assert switches.sent == [(1, (Clear(),))]
    switches.answer(1)
    switches.answer(1)
    first, second, third = (changes for _, changes in switches.sent)
    assert first == (Clear(),)
    assert second == (Add(tree(0, 1).groups[0]),)
    assert third == (Add(BASE.flows[0]), Add(tree(0, 1).flows[0]))


def test_a_round_is_confirmed_by_the_last_barrier_of_its_last_switch() -> None:
    switches = Switches()
    switches.installer.install(0, tree(0, 1, 2))
    for dpid in (1, 2):
        switches.connect(dpid)
    switches.answer(1)
    switches.answer(1)
    assert switches.installer.missing(0) == {2}
    switches.answer(2)
    assert switches.reports == []
    assert not switches.installer.synchronised()
    switches.answer(2)
    assert switches.reports == [(0, Action.CONFIRMED)]
    assert switches.installer.synchronised()
    assert switches.installer.missing(0) == frozenset()


def test_new_rules_are_made_before_old_ones_break() -> None:
    switches = Switches()
    for dpid in (1, 2):
        switches.connect(dpid)
    switches.installer.install(0, tree(0, 1))
    switches.answer()
    switches.installer.install(1, tree(1, 1, 2))
    switches.answer()
    assert set(switches.tables[1]) == expected(1, tree(0, 1), tree(1, 1, 2))
    switches.installer.remove(0)
    switches.answer()
    assert set(switches.tables[1]) == expected(1, tree(1, 1, 2))
    assert switches.reports == [
        (0, Action.CONFIRMED),
        (1, Action.CONFIRMED),
        (0, Action.REMOVED),
    ]


def test_flows_go_before_their_groups() -> None:
    switches = Switches(1)
    switches.connect(1)
    switches.installer.install(0, tree(0, 1))
    switches.answer()
    switches.sent.clear()
    switches.installer.remove(0)
    switches.answer()
    assert [changes for _, changes in switches.sent] == [
        (Delete(tree(0, 1).flows[0]),),
        (Delete(tree(0, 1).groups[0]),),
    ]


def test_a_round_without_rules_is_confirmed_and_removed_at_once() -> None:
    switches = Switches()
    switches.installer.install(0, RuleSet())
    switches.installer.remove(0)
    assert switches.reports == [(0, Action.CONFIRMED), (0, Action.REMOVED)]
    assert switches.sent == []


def test_a_lost_switch_confirms_nothing_until_it_is_back() -> None:
    switches = Switches()
    for dpid in (1, 2):
        switches.connect(dpid)
    switches.answer()
    switches.installer.switch_down(2)
    assert not switches.installer.synchronised()
    switches.installer.install(0, tree(0, 1, 2))
    switches.answer()
    assert switches.reports == []
    assert switches.installer.missing(0) == {2}
    switches.connect(2)
    switches.answer()
    assert switches.reports == [(0, Action.CONFIRMED)]
    assert set(switches.tables[2]) == expected(2, tree(0, 1, 2))


def test_an_unknown_switch_is_known_as_such() -> None:
    assert Switches(2).installer.knows(2)
    assert not Switches(2).installer.knows(3)


EVENTS = ["up", "down", "install", "remove", "answer", "replace", "sweep"]


@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_after_any_history_the_tables_hold_exactly_the_live_rounds(history: list[str]) -> None:
    switches = Switches(2)
    live: dict[int, RuleSet] = {}
    connected: set[int] = set()
    made = 0
    for number, event in enumerate(history):
        dpid = number % 2 + 1
        if event == "up":
            switches.connect(dpid)
            connected.add(dpid)
        elif event == "down" and dpid in connected:
            if dpid in switches.waiting:
                switches.waiting.remove(dpid)
            switches.installer.switch_down(dpid)
            connected.remove(dpid)
        elif event == "install":
            live[made] = tree(made, 1, 2)
            switches.installer.install(made, live[made])
            made += 1
        elif event == "remove" and live:
            switches.installer.remove(min(live))
            del live[min(live)]
        elif event == "replace" and live:
            k = max(live)
            live[k] = other_tree(k, number % 3)
            switches.installer.replace(k, live[k])
        elif event == "sweep" and live:
            switches.installer.sweep(max(live))
        elif event == "answer" and switches.waiting:
            switches.answer(switches.waiting[0])
    for dpid in (1, 2):
        switches.connect(dpid)
    switches.answer()
    for dpid in (1, 2):
        assert set(switches.tables[dpid]) == expected(dpid, *live.values())
    confirmed = [k for k, action in switches.reports if action is Action.CONFIRMED]
    removed = [k for k, action in switches.reports if action is Action.REMOVED]
    assert len(set(confirmed)) == len(confirmed)
    assert set(live) <= set(confirmed)
    assert removed == sorted(set(removed)) == [k for k in range(made) if k not in live]


def other_tree(round_index: int, way: int) -> RuleSet:
    """The round's tree, led over other ports, or over the first switch only."""
    rules = tree(round_index, 1, 2) if way else tree(round_index, 1)
    return RuleSet(
        tuple(replace(group, ports=(3 + way,)) for group in rules.groups),
        tuple(replace(flow, in_port=1 + way) for flow in rules.flows),
    )


def test_a_switch_that_holds_what_it_should_gets_nothing() -> None:
    switches = Switches(1)
    switches.installer.install(0, tree(0, 1))
    switches.connect(1)
    switches.answer()
    switches.sent.clear()
    switches.connect(1)
    switches.answer()
    assert [changes for _, changes in switches.sent] == [(), ()]
    assert switches.installer.synchronised()


def test_other_trees_are_made_before_the_old_ones_go() -> None:
    switches = Switches()
    for dpid in (1, 2):
        switches.connect(dpid)
    before, after = tree(0, 1, 2), other_tree(0, 1)
    switches.installer.install(0, before)
    switches.answer()
    changes = switches.installer.replace(0, after)
    switches.answer()
    assert changes == {"changed_groups": 2, "new_flows": 2, "stale_flows": 2}
    both = {*after.of(1).groups, *after.of(1).flows, *before.of(1).flows}
    assert set(switches.tables[1]) == expected(1) | both
    switches.installer.sweep(0)
    switches.answer()
    assert set(switches.tables[1]) == expected(1, after)
    assert switches.reports == [
        (0, Action.CONFIRMED),
        (0, Action.REROUTED),
        (0, Action.SWEPT),
    ]


def test_a_round_that_goes_takes_its_former_trees_with_it() -> None:
    switches = Switches()
    for dpid in (1, 2):
        switches.connect(dpid)
    switches.installer.install(0, tree(0, 1, 2))
    switches.installer.replace(0, other_tree(0, 0))
    switches.answer()
    switches.installer.remove(0)
    switches.answer()
    switches.installer.sweep(0)
    assert [set(switches.tables[dpid]) for dpid in (1, 2)] == [expected(1), expected(2)]
    assert switches.reports[-1] == (0, Action.REMOVED)
    assert switches.waiting == []


def test_a_barrier_that_was_never_asked_for_is_an_error() -> None:
    with pytest.raises(IndexError):
        Switches(1).installer.barrier(1)

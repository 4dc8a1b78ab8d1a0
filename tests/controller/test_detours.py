"""Around dead links every receiver that can be reached gets each packet once."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, networks, rounds_of
from simulated_switches import SimulatedNetwork

from controller.detours import Detours
from controller.plan import Plan
from controller.planner import make_plan
from controller.ports import Ports
from controller.reconcile import Difference, difference, match
from controller.routes import Routes
from controller.rules import base_rules, round_rules
from controller.schedule import Schedule
from testbed.addressing import (
    AGGREGATOR_PORT,
    FIRST_LINK_PORT,
    ISLAND_PORT,
    dpid,
    group_ip,
    island_ip,
)
from testbed.routing import route
from testbed.topology import Topology


@st.composite
def broken(draw: st.DrawFn) -> tuple[Plan, frozenset[int]]:
    topology = draw(networks())
    rounds = tuple(draw(rounds_of(topology.codes)) for _ in range(2))
    trees = draw(st.sampled_from(["shortest-path", "least-load", "hub"]))
    schedule = Schedule(name="drawn", rounds=rounds)
    plan = make_plan(
        topology, schedule, payload_bytes=1e9, memory_bytes=1e12, rounds=2, trees=trees
    )
    links = st.sets(st.integers(0, len(topology.links) - 1), max_size=3)
    return plan, frozenset(draw(links))


def reached(topology: Topology, start: str, dead: frozenset[int]) -> set[str]:
    """Cities that there is still a way to, found without any routing."""
    found, before = {start}, 0
    while len(found) > before:
        before = len(found)
        for index, link in enumerate(topology.links):
            if index not in dead and {link.a, link.b} & found:
                found |= {link.a, link.b}
    return found


def cables(topology: Topology, dead: frozenset[int], sent: Counter) -> set[int]:
    """Dead links that packets were sent into."""
    ports = {
        (dpid(topology.index(e.src)), topology.out_port(e.index)): e.link for e in topology.edges
    }
    return {ports[out] for out in sent if out in ports} & dead


@settings(max_examples=60, deadline=None)
@given(broken())
def test_who_can_be_reached_gets_one_copy_of_every_stream(case: tuple[Plan, frozenset]) -> None:
    plan, dead = case
    topology, routes = plan.topology, Routes(plan)
    before = [routes.enter(k) for k in range(2)]
    changed = routes.avoid(dead, begun=0)
    for k in range(2):
        network = SimulatedNetwork(topology, changed.get(k, before[k]))
        cut_off = []
        for stream in plan.round(k).streams:
            sender = topology.index(stream.sender)
            alive = reached(topology, stream.sender, dead)
            here = (dpid(sender), ISLAND_PORT, group_ip(k, sender))
            wanted = {
                (dpid(topology.index(c)), AGGREGATOR_PORT): 1
                for c in stream.receivers
                if c in alive
            }
            assert network.deliver(*here) == wanted
            assert not cables(topology, dead, network.forward(*here))
            cut_off += [(stream.sender, c) for c in stream.receivers if c not in alive]
        assert list(routes.cut_off(k)) == cut_off


@settings(max_examples=30, deadline=None)
@given(broken())
def test_single_packets_go_around_as_well(case: tuple[Plan, frozenset]) -> None:
    plan, dead = case
    topology = plan.topology
    network = SimulatedNetwork(topology, base_rules(Detours(topology, dead).base(plan)))
    for src, code in enumerate(topology.codes):
        for dst in reached(topology, code, dead):
            there = topology.index(dst)
            sent = network.forward(dpid(src), ISLAND_PORT, island_ip(there))
            assert not cables(topology, dead, sent)
            out = (dpid(there), ISLAND_PORT)
            assert sent[out] == (0 if dst == code else 1)  # what is for itself does not leave


def test_a_round_that_has_begun_stays_where_it_is_when_a_link_comes_up() -> None:
    schedule = Schedule(name="all", rounds=((NINE.codes,),))
    plan = make_plan(
        NINE, schedule, payload_bytes=1e9, memory_bytes=1e12, rounds=3, trees="shortest-path"
    )
    dead = next(i for i, link in enumerate(NINE.links) if {link.a, link.b} == {"nyc", "chi"})
    routes = Routes(plan)
    planned = [routes.enter(k) for k in range(2)]
    around = routes.avoid({dead}, begun=0)
    assert set(around) == {0, 1}
    assert routes.enter(2) != round_rules(plan, 2)
    back = routes.avoid((), begun=1)
    assert set(back) == {2}
    assert back[2] == round_rules(plan, 2)
    assert planned == [round_rules(plan, k) for k in range(2)]
    again = routes.avoid({dead}, begun=1)
    assert set(again) == {2}, "what keeps its detour is not touched"


def test_a_link_is_down_while_either_end_says_so() -> None:
    ports, link = Ports(NINE), NINE.links[0]
    ends = [(dpid(NINE.index(NINE.edges[e].src)), NINE.out_port(e)) for e in (0, 1)]
    assert ports.down(ends[0][0], [ISLAND_PORT, ends[0][1]]) == (0,)
    assert ports.down(ends[1][0], [ends[1][1]]) == ()
    assert ports.down(ends[0][0], []) == ()
    assert ports.dead == {0}
    assert ports.down(ends[1][0], []) == (0,)
    assert ports.dead == frozenset()
    assert ports.name(0) == f"{link.a}-{link.b}"
    assert ends[0][1] >= FIRST_LINK_PORT


def test_without_a_link_there_is_another_shortest_path_or_none() -> None:
    whole = route(NINE)
    for index in range(len(NINE.links)):
        left = route(NINE, without={index})
        for src in range(9):
            for dst in range(9):
                if left.reaches(src, dst):
                    assert all(NINE.edges[edge].link != index for edge in left.path(src, dst))
                if all(NINE.edges[edge].link != index for edge in whole.path(src, dst)):
                    assert left.path(src, dst) == whole.path(src, dst)


@settings(max_examples=60, deadline=None)
@given(broken())
def test_the_difference_leads_from_one_set_of_rules_to_the_other(
    case: tuple[Plan, frozenset],
) -> None:
    plan, dead = case
    routes = Routes(plan)
    held = routes.enter(0)
    wanted = routes.avoid(dead, begun=-1).get(0, held)
    for switch in held.dpids() | wanted.dpids():
        before, after = held.of(switch), wanted.of(switch)
        change = difference(before, after)
        groups = {g.group_id: g for g in before.groups}
        flows = {match(f): f for f in before.flows}
        assert all(g.group_id not in groups for g in change.new_groups)
        for group in change.stale_groups:
            del groups[group.group_id]
        for flow in change.stale_flows:
            del flows[match(flow)]
        groups |= {g.group_id: g for g in (*change.new_groups, *change.changed_groups)}
        flows |= {match(f): f for f in (*change.new_flows, *change.changed_flows)}
        assert set(groups.values()) == set(after.groups)
        assert set(flows.values()) == set(after.flows)
        assert difference(after, after) == Difference()

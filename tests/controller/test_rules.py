"""Rules of plans, followed packet by packet through a simulated network."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, networks, rounds_of
from simulated_switches import SimulatedNetwork

from controller.plan import Plan, Stream
from controller.planner import make_plan
from controller.rules import FlowRule, GroupRule, RuleSet, base_rules, round_rules, tree_hops
from controller.schedule import Schedule, load_schedule
from testbed.addressing import (
    AGGREGATOR_PORT,
    ISLAND_PORT,
    aggregator_ip,
    dpid,
    group_id,
    group_ip,
    island_ip,
)
from testbed.errors import InputError
from testbed.topology import City, Link, Topology


def plan_of(topology: Topology, *rounds: tuple[tuple[str, ...], ...], **options: Any) -> Plan:
    schedule = Schedule(name="drawn", rounds=rounds)
    return make_plan(
        topology, schedule, payload_bytes=1e9, memory_bytes=1e12, rounds=len(rounds), **options
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    topology = draw(networks())
    rounds = [draw(rounds_of(topology.codes)) for _ in range(2)]
    trees = draw(st.sampled_from(["shortest-path", "least-load"]))
    return plan_of(topology, *rounds, aggregation=draw(st.booleans()), trees=trees)


def line() -> Topology:
    """Three cities in a row: aa – bb – cc."""
    return Topology(
        name="line",
        cities=tuple(City(code=c, name=c, region="r", lat=0, lon=0) for c in ("aa", "bb", "cc")),
        links=(
            Link(a="aa", b="bb", delay_ms=1, delay_back_ms=1),
            Link(a="bb", b="cc", delay_ms=1, delay_back_ms=1),
        ),
    )


def stream(sender: str, receivers: tuple[str, ...], edges: tuple[int, ...]) -> Stream:
    return Stream(
        sender=sender,
        clique=0,
        receivers=receivers,
        edges=edges,
        paths={},
        delays_ms={},
        offset_ms=0,
        rate_gbps=1,
        duration_ms=1,
    )


@settings(max_examples=40)
@given(plans())
def test_each_receiver_gets_exactly_one_copy_and_nobody_else_any(plan: Plan) -> None:
    delivery = AGGREGATOR_PORT if plan.aggregation else ISLAND_PORT
    rules = [base_rules(plan), round_rules(plan, 0), round_rules(plan, 1)]  # old and new at once
    network = SimulatedNetwork(plan.topology, *rules)
    for k in (0, 1):
        for planned in plan.round(k).streams:
            sender = plan.topology.index(planned.sender)
            copies = network.deliver(dpid(sender), ISLAND_PORT, group_ip(k, sender))
            receivers = (plan.topology.index(code) for code in planned.receivers)
            assert copies == Counter((dpid(city), delivery) for city in receivers)


@settings(max_examples=40)
@given(plans(), st.data())
def test_a_stray_packet_from_a_host_port_goes_nowhere(plan: Plan, data: st.DataObject) -> None:
    network = SimulatedNetwork(plan.topology, base_rules(plan), round_rules(plan, 0))
    planned = data.draw(st.sampled_from(plan.round(0).streams))
    sender = plan.topology.index(planned.sender)
    switch = data.draw(st.sampled_from(range(len(plan.topology.cities))))
    allowed = (switch, ISLAND_PORT) == (sender, ISLAND_PORT)
    copies = network.deliver(dpid(switch), AGGREGATOR_PORT, group_ip(0, sender))
    assert not copies
    copies = network.deliver(dpid(switch), ISLAND_PORT, group_ip(0, sender))
    assert bool(copies) == allowed


@settings(max_examples=40)
@given(plans())
def test_no_bucket_names_the_ingress_port_and_groups_are_one_per_switch_and_tree(
    plan: Plan,
) -> None:
    rules = round_rules(plan, 0)
    groups = {(group.dpid, group.group_id): group for group in rules.groups}
    assert len(groups) == len(rules.groups) == len(rules.flows)
    for flow in rules.flows:
        assert flow.group_id is not None
        assert flow.in_port not in groups[flow.dpid, flow.group_id].ports


@settings(max_examples=40)
@given(networks())
def test_unicast_reaches_every_host_from_every_host(topology: Topology) -> None:
    plan = plan_of(topology, (tuple(topology.codes[:2]),))
    network = SimulatedNetwork(topology, base_rules(plan))
    count = len(topology.cities)
    for source in range(count):
        for in_port in (ISLAND_PORT, AGGREGATOR_PORT):
            for city in range(count):
                for port, ip in ((ISLAND_PORT, island_ip), (AGGREGATOR_PORT, aggregator_ip)):
                    if (source, in_port) == (city, port):
                        continue
                    copies = network.deliver(dpid(source), in_port, ip(city))
                    assert copies == Counter({(dpid(city), port): 1})


def test_an_unknown_address_is_dropped() -> None:
    plan = plan_of(line(), (("aa", "cc"),))
    network = SimulatedNetwork(plan.topology, base_rules(plan), round_rules(plan, 0))
    assert not network.deliver(1, ISLAND_PORT, "10.0.9.1")
    assert not network.deliver(1, ISLAND_PORT, group_ip(1, 0))


def test_a_tree_through_a_transit_city_by_hand() -> None:
    # aa's only link is its port 3; bb's ports 3 and 4 lead to aa and cc; cc's port 3 to bb.
    plan = plan_of(line(), (("aa", "cc"),))
    assert round_rules(plan, 0).of(2) == RuleSet(
        groups=(
            GroupRule(2, group_id(0, 0), (4,)),
            GroupRule(2, group_id(0, 2), (3,)),
        ),
        flows=(
            FlowRule(2, 200, "239.0.0.1", in_port=3, group_id=group_id(0, 0)),
            FlowRule(2, 200, "239.0.0.3", in_port=4, group_id=group_id(0, 2)),
        ),
    )
    ends = round_rules(plan, 0)
    assert ends.of(1).groups[0] == GroupRule(1, group_id(0, 0), (3,))
    assert ends.of(3).groups[0] == GroupRule(3, group_id(0, 0), (AGGREGATOR_PORT,))
    assert ends.dpids() == {1, 2, 3}


def test_a_receiver_on_the_way_passes_the_stream_on() -> None:
    hops = tree_hops(line(), stream("aa", ("bb", "cc"), (0, 2)), aggregation=False)
    assert [hop.out_ports for hop in hops] == [(3,), (ISLAND_PORT, 4), (ISLAND_PORT,)]


def test_groups_of_different_rounds_differ() -> None:
    plan = make_plan(
        NINE, load_schedule("triangles", NINE), payload_bytes=1e9, memory_bytes=1e12, rounds=4
    )
    seen: set[int] = set()
    for k in range(4):
        ids = {group.group_id for group in round_rules(plan, k).groups}
        assert len(ids) == 9
        assert not ids & seen
        seen |= ids


def test_nothing_to_install_without_multicast() -> None:
    plan = plan_of(line(), (("aa", "cc"),), multicast=False)
    assert round_rules(plan, 0) == RuleSet()


@pytest.mark.parametrize(
    ("receivers", "edges", "words"),
    [
        (("cc",), (0,), "ends at bb, which is not a receiver"),
        (("bb", "cc"), (0,), "does not reach cc"),
        (("bb",), (0, 1), "enters aa twice"),
        (("bb",), (0, 3), "has edges at cc that it never reaches"),
        (("aa", "bb"), (0,), "delivers to its own sender"),
    ],
)
def test_what_is_not_a_tree_is_refused(
    receivers: tuple[str, ...], edges: tuple[int, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tree_hops(line(), stream("aa", receivers, edges), aggregation=True)


def test_a_missing_unicast_way_is_refused() -> None:
    plan = plan_of(line(), (("aa", "cc"),))
    del plan.unicast["cc"]["aa"]
    with pytest.raises(InputError, match="no unicast way from aa to cc"):
        base_rules(plan)

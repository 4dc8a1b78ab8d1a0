"""Rules of plans, followed packet by packet through a simulated network."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, networks, rounds_of
from simulated_switches import SimulatedNetwork

from controller.hub import hub_trees
from controller.plan import Plan, Stream
from controller.planner import make_plan
from controller.rules import FlowRule, GroupRule, RuleSet, base_rules, round_rules
from controller.schedule import Schedule, load_schedule
from controller.treehops import IN_PORT, TreeHop, tree_hops
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
from testbed.routing import route
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
    trees = draw(st.sampled_from(["shortest-path", "least-load", "hub"]))
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


def stream(sender: str, paths: dict[str, tuple[int, ...]]) -> Stream:
    return Stream(
        sender=sender,
        clique=0,
        receivers=tuple(paths),
        edges=tuple(sorted({edge for path in paths.values() for edge in path})),
        paths=paths,
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
def test_no_bucket_names_the_ingress_port_and_groups_are_one_per_flow(
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
    hops = tree_hops(line(), stream("aa", {"bb": (0,), "cc": (0, 2)}), aggregation=False)
    assert [hop.out_ports for hop in hops] == [(3,), (ISLAND_PORT, 4), (ISLAND_PORT,)]


def test_a_stream_through_a_hub_by_hand() -> None:
    # Up from aa to the hub cc and back: bb is passed on the way up, served on the way down.
    through_hub = stream("aa", {"bb": (0, 2, 3), "cc": (0, 2)})
    assert tree_hops(line(), through_hub, aggregation=True) == (
        TreeHop(dpid(0), ISLAND_PORT, (3,)),
        TreeHop(dpid(1), 3, (4,)),
        TreeHop(dpid(2), 3, (AGGREGATOR_PORT, IN_PORT)),
        TreeHop(dpid(1), 4, (AGGREGATOR_PORT,), visit=1),
    )


@settings(max_examples=40)
@given(networks(), st.data())
def test_ways_through_any_hub_reach_each_aggregator_once(
    topology: Topology, data: st.DataObject
) -> None:
    cities = range(len(topology.cities))
    hub = data.draw(st.sampled_from(cities))
    clique = data.draw(st.lists(st.sampled_from(cities), min_size=2, unique=True))
    trees = hub_trees(route(topology), hub, clique, 0)
    base = plan_of(topology, (tuple(topology.codes[city] for city in clique),))
    streams = tuple(
        planned.model_copy(
            update={
                "edges": tree.edges,
                "paths": {topology.codes[city]: path for city, path in tree.paths.items()},
            }
        )
        for planned, tree in zip(base.period[0].streams, trees, strict=True)
    )
    period = (base.period[0].model_copy(update={"streams": streams}),)
    rules = round_rules(base.model_copy(update={"period": period}), 0)
    network = SimulatedNetwork(topology, base_rules(base), rules)
    for tree in trees:
        copies = network.deliver(dpid(tree.sender), ISLAND_PORT, group_ip(0, tree.sender))
        assert copies == Counter((dpid(city), AGGREGATOR_PORT) for city in tree.receivers)
        sent = network.forward(dpid(tree.sender), ISLAND_PORT, group_ip(0, tree.sender))
        links = (
            (dpid(topology.index(topology.edges[edge].src)), topology.out_port(edge))
            for edge in tree.edges
        )
        assert sent == copies + Counter(links)  # each link direction once


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


@given(st.integers(0, 0xFFFF), st.integers(0, 253), st.integers(0, 253))
def test_group_ids_tell_round_sender_and_visit_and_are_allowed(
    round_index: int, sender: int, visit: int
) -> None:
    number = group_id(round_index, sender, visit)
    assert 1 <= number <= 0xFFFFFF00  # OFPG_MAX
    packed = (number - 1).to_bytes(4, "big")
    assert packed == bytes([visit, round_index >> 8, round_index & 0xFF, sender])


def test_nothing_to_install_without_multicast() -> None:
    plan = plan_of(line(), (("aa", "cc"),), multicast=False)
    assert round_rules(plan, 0) == RuleSet()


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ({"cc": (0,)}, "has a way to cc that ends at bb"),
        ({"cc": (2,)}, "has a gap at aa on the way to cc"),
        ({"cc": (0, 2), "bb": (0, 1, 0)}, "enters the link aa–bb from two sides"),
        ({"aa": (0, 1), "bb": (0,)}, "delivers to its own sender"),
    ],
)
def test_what_cannot_be_forwarded_by_incoming_port_is_refused(
    paths: dict[str, tuple[int, ...]], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tree_hops(line(), stream("aa", paths), aggregation=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"edges": (0,)}, "has other edges than its ways"), ({"receivers": ("cc", "bb")}, "one way")],
)
def test_streams_whose_parts_differ_are_refused(changed: dict[str, Any], words: str) -> None:
    planned = stream("aa", {"cc": (0, 2)}).model_copy(update=changed)
    with pytest.raises(InputError, match=words):
        tree_hops(line(), planned, aggregation=True)


def test_a_missing_unicast_way_is_refused() -> None:
    plan = plan_of(line(), (("aa", "cc"),))
    del plan.unicast["cc"]["aa"]
    with pytest.raises(InputError, match="no unicast way from aa to cc"):
        base_rules(plan)

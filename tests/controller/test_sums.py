"""Sums in the network: what islands and aggregators run, and the rules of their streams."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_networks import NINE
from simulated_switches import SimulatedNetwork

from controller.collectives.check import check_schedule
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE
from controller.collectives.sums import best_sum, sum_plan
from controller.collectives.task import make_task
from controller.hostplan import HostPlan
from controller.plan import Plan
from controller.planner import make_plan
from controller.rules import base_rules, round_rules
from controller.schedule import Schedule
from testbed.addressing import (
    AGGREGATOR_PORT,
    FIRST_PATH_UDP_PORT,
    ISLAND_PORT,
    aggregator_ip,
    dpid,
    group_ip,
    island_ip,
)
from testbed.errors import InputError
from testbed.topology import City, Link, Topology, load_topology

PAYLOAD_BYTES = 1_790_000_000
EIGHT = load_topology("switch-eight")


def planned(topology: Topology) -> HostPlan:
    network = cities(topology, multicast=True, aggregates=True)
    tree, schedule = best_sum(network, make_task(network, ALL_REDUCE, PAYLOAD_BYTES))
    assert check_schedule(schedule) == []
    hosts = sum_plan(tree, schedule, topology, bound_us=1e5, bound="test")
    assert hosts.time_ms == pytest.approx(schedule.time_us / 1e3, rel=1e-6)
    return hosts


def plan_with(hosts: HostPlan, topology: Topology) -> Plan:
    plan = make_plan(
        topology,
        Schedule("all", ((topology.codes,),)),
        payload_bytes=1e9,
        memory_bytes=1e9,
        trees="shortest-path",
        multicast=False,
    )
    return plan.model_copy(update={"collective": hosts})


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Connected, of 2 to 7 cities; delays differ a little by direction."""
    count = draw(st.integers(2, 7))
    ends = {(draw(st.integers(0, i - 1)), i) for i in range(1, count)}
    pairs = [(a, b) for b in range(count) for a in range(b)]
    ends |= set(draw(st.lists(st.sampled_from(pairs), max_size=count)))
    delay = st.floats(1, 50)
    ways = [(a, b, draw(delay), draw(st.floats(0, 1))) for a, b in sorted(ends)]
    return Topology(
        name="random",
        cities=tuple(
            City(code=f"c{i}", name=f"C {i}", region="r", lat=0, lon=i) for i in range(count)
        ),
        links=tuple(
            Link(a=f"c{a}", b=f"c{b}", delay_ms=delay_ms, delay_back_ms=delay_ms + more_ms)
            for a, b, delay_ms, more_ms in ways
        ),
    )


def check_plan(hosts: HostPlan, topology: Topology) -> None:
    """Every island's data is in the sum once; streams meet; the sum is at every island."""
    everybody = tuple(range(len(topology.codes)))
    assert hosts.hub in hosts.aggregators
    assert hosts.contributors(hosts.hub) == everybody
    assert hosts.relay(hosts.hub) is None
    assert sorted(p.dst for p in hosts.paths if p.is_branch) == list(everybody)
    steps = [*(mine[0] for mine in hosts.steps), *hosts.relays]
    arrivals: dict[int, list[float]] = {}
    for step in steps:
        path = hosts.paths[step.path]
        assert path.ends_at == "aggregator"
        arrivals.setdefault(path.dst, []).append(step.end_ms)
        whole_ms = step.end_ms - step.start_ms
        delay_ms = sum(topology.edges[edge].delay_ms for edge in path.edges)
        assert whole_ms == pytest.approx(delay_ms + PAYLOAD_BYTES * 8e-8, abs=1e-6)
    assert arrivals.keys() == set(hosts.aggregators)
    for city, ends_ms in arrivals.items():
        assert len(ends_ms) > 1 or city == hosts.hub
        assert max(ends_ms) - min(ends_ms) < 1e-6
    for city, (send, receive) in enumerate(hosts.steps):
        assert (hosts.paths[send.path].src, hosts.paths[send.path].starts_at) == (city, "island")
        assert (hosts.paths[receive.path].src, hosts.paths[receive.path].dst) == (hosts.hub, city)
        assert receive.after == (0,)
    assert hosts.time_ms == max(receive.end_ms for _, receive in hosts.steps)


def check_rules(plan: Plan) -> None:
    """Every stream takes its path and reaches one place; the sum reaches each island once."""
    hosts, topology = plan.collective, plan.topology
    network = SimulatedNetwork(topology, base_rules(plan), round_rules(plan, 0))
    address = {"island": island_ip, "aggregator": aggregator_ip}
    port = {"island": ISLAND_PORT, "aggregator": AGGREGATOR_PORT}
    tree = {edge for path in hosts.paths if path.is_branch for edge in path.edges}
    for path in hosts.paths:
        to, edges = address[path.ends_at](path.dst), path.edges
        ends = {(dpid(path.dst), port[path.ends_at])}
        if path.is_branch:
            to, edges = group_ip(0, hosts.hub), tree
            ends = {(dpid(city), ISLAND_PORT) for city in range(len(topology.codes))}
        sent = network.forward(
            dpid(path.src),
            port[path.starts_at],
            to,
            ipv4_src=address[path.starts_at](path.src),
            udp_src=FIRST_PATH_UDP_PORT if path.starts_at == "island" else 9,
        )
        hops = {(dpid(topology.index(topology.edges[e].src)), topology.out_port(e)) for e in edges}
        assert set(sent) == hops | ends
        assert set(sent.values()) == {1}


@pytest.mark.parametrize("topology", [NINE, EIGHT], ids=["nine-cities", "switch-eight"])
def test_the_schedule_becomes_one_stream_each_that_meet(topology: Topology) -> None:
    hosts = planned(topology)
    check_plan(hosts, topology)
    check_rules(plan_with(hosts, topology))
    assert hosts.chunks == 1


@settings(deadline=None, max_examples=30)
@given(topologies())
def test_so_it_does_on_any_topology(topology: Topology) -> None:
    try:
        hosts = planned(topology)
    except InputError:  # the shortest ways up and down share a link, in this direction
        assume(False)
    check_plan(hosts, topology)
    check_rules(plan_with(hosts, topology))


def test_on_one_switch_its_aggregator_alone_adds() -> None:
    hosts = planned(EIGHT)
    assert hosts.aggregators == (hosts.hub,) == (0,)
    assert hosts.relays == ()
    # A sum takes S / B and the way there and back: 2 × (n − 1) / n × S / B is the hosts' best.
    assert hosts.time_ms == pytest.approx(143.2 + 4 * 0.0005, abs=1e-3)


def test_between_cities_aggregators_pass_sums_on() -> None:
    hosts = planned(NINE)
    assert NINE.codes[hosts.hub] == "lax"
    relays = {hosts.paths[step.path].src: hosts.paths[step.path].dst for step in hosts.relays}
    assert {NINE.codes[a]: NINE.codes[b] for a, b in relays.items()} == {
        "ams": "lon",
        "lon": "nyc",
        "nyc": "chi",
        "chi": "lax",
        "tyo": "lax",
    }
    inside = hosts.contributors(NINE.index("nyc"))
    assert [NINE.codes[city] for city in inside] == ["nyc", "lon", "ams", "fra"]
    assert math.isclose(hosts.time_ms, 306.3, abs_tol=0.3)


def test_switches_that_cannot_add_are_refused() -> None:
    network = cities(EIGHT, multicast=True)
    with pytest.raises(InputError, match="no hub has a tree"):
        best_sum(network, make_task(network, ALL_REDUCE, PAYLOAD_BYTES))


def test_ways_down_that_meet_are_refused() -> None:
    hosts = planned(NINE)
    lax_chi, chi_tyo = (
        next(e.index for e in NINE.edges if (e.src, e.dst) == ends)
        for ends in (("lax", "chi"), ("chi", "tyo"))
    )
    around = [
        path.model_copy(update={"edges": (lax_chi, chi_tyo)})
        if path.is_branch and NINE.codes[path.dst] == "tyo"
        else path
        for path in hosts.paths
    ]
    plan = plan_with(hosts.model_copy(update={"paths": tuple(around)}), NINE)
    with pytest.raises(InputError, match="the ways down from lax meet at tyo"):
        round_rules(plan, 0)

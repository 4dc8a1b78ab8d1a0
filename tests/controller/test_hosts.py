"""Schedules as what the islands run, and the rules for the paths that they take."""

import pytest
from made_networks import NINE
from simulated_switches import SimulatedNetwork

from controller.collectives.choose import choose
from controller.collectives.generators import cities, star
from controller.collectives.hosts import ALL_REDUCE, host_plan
from controller.collectives.schedule import Schedule
from controller.collectives.task import make_task
from controller.hostplan import HostPath, HostPlan
from controller.plan import Plan
from controller.planner import make_plan
from controller.rules import base_rules
from controller.schedule import load_schedule
from testbed.addressing import FIRST_PATH_UDP_PORT, ISLAND_PORT, dpid, island_ip
from testbed.errors import InputError

CODES = NINE.codes


def schedule(algorithm: str, collective: str = ALL_REDUCE) -> Schedule:
    network = cities(NINE)
    task = make_task(network, collective, 1_790_000_000)
    return choose(network, task, "pipelined", algorithm=algorithm, chunks=9).best.schedule


def hosts(algorithm: str) -> HostPlan:
    made = schedule(algorithm)
    return host_plan(made, NINE, bound_us=1e5, bound="test", release="planned")


def plan_with(made: HostPlan) -> Plan:
    plan = make_plan(
        NINE,
        load_schedule("pairs", NINE),
        payload_bytes=1e9,
        memory_bytes=1e9,
        trees="shortest-path",
    )
    return plan.model_copy(update={"collective": made})


@pytest.mark.parametrize("algorithm", ["ring", "synthesised"])
def test_both_ends_of_every_transfer_have_a_step(algorithm: str) -> None:
    made = hosts(algorithm)
    sends = {
        s.transfer: (c, s) for c, steps in enumerate(made.steps) for s in steps if s.kind == "send"
    }
    comes = {
        s.transfer: (c, s) for c, steps in enumerate(made.steps) for s in steps if s.kind != "send"
    }
    assert sends.keys() == comes.keys() == set(range(2 * 8 * 9))
    for transfer, (city, step) in sends.items():
        path = made.paths[step.path]
        receiver, arrival = comes[transfer]
        assert (path.src, path.dst) == (city, receiver)
        assert (step.chunk, step.path) == (arrival.chunk, arrival.path)
    assert max(step.end_ms for _, step in comes.values()) == pytest.approx(made.time_ms)
    for steps in made.steps:
        assert all(max(step.after, default=-1) < i for i, step in enumerate(steps))


def test_paths_run_from_city_to_city_at_the_rate_of_their_links() -> None:
    for path in hosts("halving-doubling").paths:
        cities_on_it = [NINE.edges[path.edges[0]].src]
        for edge in path.edges:
            assert NINE.edges[edge].src == cities_on_it[-1]
            cities_on_it.append(NINE.edges[edge].dst)
        assert cities_on_it[0] == CODES[path.src]
        assert cities_on_it[-1] == CODES[path.dst]
        assert path.rate_gbps == pytest.approx(100)
        assert path.tag == 0


def test_what_hosts_cannot_run_is_refused() -> None:
    with pytest.raises(InputError, match="all-reduce, not all-gather"):
        host_plan(schedule("ring", "all-gather"), NINE, bound_us=1, bound="", release="planned")


def test_a_schedule_of_another_network_is_refused() -> None:
    network = star(9)
    task = make_task(network, ALL_REDUCE, 1_790_000_000)
    made = choose(network, task, "pipelined", algorithm="ring", chunks=9).best.schedule
    with pytest.raises(InputError, match="is not one of the testbed"):
        host_plan(made, NINE, bound_us=1, bound="", release="planned")


def test_packets_take_the_path_of_their_port_and_others_the_shortest() -> None:
    direct = next(e for e in NINE.edges if (e.src, e.dst) == ("lon", "fra")).index
    around = tuple(
        next(e for e in NINE.edges if (e.src, e.dst) == ends).index
        for ends in (("lon", "ams"), ("ams", "fra"))
    )
    lon, fra = CODES.index("lon"), CODES.index("fra")
    paths = [
        HostPath(src=lon, dst=fra, tag=tag, edges=edges, rate_gbps=100)
        for tag, edges in enumerate([(direct,), around])
    ]
    plan = plan_with(hosts("ring").model_copy(update={"paths": tuple(paths)}))
    network = SimulatedNetwork(NINE, base_rules(plan))
    for sender, port, wanted in (
        (lon, FIRST_PATH_UDP_PORT, (direct,)),
        (lon, FIRST_PATH_UDP_PORT + 1, around),
        (lon, 9, around),  # 5.67 ms instead of 5.695
        (CODES.index("hkg"), FIRST_PATH_UDP_PORT + 1, None),
    ):
        switch = dpid(sender)
        sent = network.forward(
            switch, ISLAND_PORT, island_ip(fra), ipv4_src=island_ip(sender), udp_src=port
        )
        assert sent[dpid(fra), ISLAND_PORT] == 1
        if wanted is not None:
            hops = {(dpid(CODES.index(NINE.edges[e].src)), NINE.out_port(e)) for e in wanted}
            assert set(sent) == {*hops, (dpid(fra), ISLAND_PORT)}

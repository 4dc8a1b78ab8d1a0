"""A host's steps in any order of arrivals: schedules complete, with the true sums."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.dependencies import Dependencies
from controller.collectives.choose import choose
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE, host_plan
from controller.collectives.task import make_task
from controller.hostplan import HostPlan, HostStep
from testbed.topology import City, Link, Topology

ALGORITHMS = ("synthesised", "ring", "halving-doubling", "direct", "parameter-server")


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Cities in a row with further links, all of different delay and rate."""
    codes = [f"c{i}" for i in range(draw(st.integers(2, 6)))]
    ends = set(itertools.pairwise(codes))
    ends |= draw(st.sets(st.sampled_from(list(itertools.combinations(codes, 2))), max_size=4))
    return Topology(
        name="drawn",
        cities=tuple(City(code=c, name=c, region=c[-1], lat=0, lon=0) for c in codes),
        links=tuple(
            Link(
                a=a,
                b=b,
                delay_ms=draw(st.integers(1, 50)),
                delay_back_ms=draw(st.integers(1, 50)),
                rate_gbps=draw(st.sampled_from([40, 100])),
            )
            for a, b in sorted(ends)
        ),
    )


def step(kind: str, transfer: int, *after: int) -> HostStep:
    return HostStep(kind, transfer, 0, 0, 0.0, 1.0, after)  # type: ignore[arg-type]


def plan_on(topology: Topology, algorithm: str, split: int) -> HostPlan:
    network = cities(topology)
    task = make_task(network, ALL_REDUCE, 1_000_000)
    chunks = split * len(topology.codes)
    best = choose(network, task, "pipelined", algorithm=algorithm, chunks=chunks).best
    return host_plan(
        best.schedule, topology, bound_us=best.bounds.us, bound=best.bounds.name, release="data"
    )


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_schedule_completes_exactly_in_any_order_of_arrivals(data: st.DataObject) -> None:
    topology = data.draw(topologies())
    plan = plan_on(topology, data.draw(st.sampled_from(ALGORITHMS)), data.draw(st.integers(1, 3)))
    hosts = [Dependencies(steps) for steps in plan.steps]
    # Powers of a base above the number of hosts: a sum says who is in it how often.
    base = len(hosts) + 1
    values = np.array([[base**city] * plan.chunks for city in range(len(hosts))], dtype=object)
    flying: dict[tuple[int, int], object] = {}

    def carry_out(city: int, effects: list[HostStep], came: dict[int, object]) -> None:
        for effect in effects:
            before = values[city, effect.chunk] if effect.kind == "reduce" else 0
            values[city, effect.chunk] = before + came.pop(effect.transfer)

    came: list[dict[int, object]] = [{} for _ in hosts]
    while not all(host.done for host in hosts):
        sending = [city for city, host in enumerate(hosts) if host.next_send()]
        moves = [("send", city) for city in sending] + [("arrive", where) for where in flying]
        assert moves, "nobody can do anything"
        what, where = data.draw(st.sampled_from(moves))
        if what == "send":
            going = hosts[where].next_send()
            receiver = plan.paths[going.path].dst
            flying[receiver, going.transfer] = values[where, going.chunk]
            carry_out(where, hosts[where].sent(), came[where])
        else:
            receiver, transfer = where
            came[receiver][transfer] = flying.pop(where)
            assert hosts[receiver].expects(transfer) is not None
            carry_out(receiver, hosts[receiver].arrived(transfer), came[receiver])
            assert hosts[receiver].expects(transfer) is None
    assert not flying
    assert (values == sum(base**city for city in range(len(hosts)))).all()


def test_sends_keep_their_order_though_a_later_one_could_leave() -> None:
    host = Dependencies([step("reduce", 0), step("send", 1, 0), step("send", 2)])
    assert host.next_send() is None
    assert host.arrived(0) == [step("reduce", 0)]
    assert host.next_send() == step("send", 1, 0)
    assert host.sent() == []
    assert host.next_send() == step("send", 2)


def test_an_arrival_waits_until_the_old_value_has_left() -> None:
    steps = [step("send", 0), step("receive", 1, 0), step("reduce", 2, 1)]
    host = Dependencies(steps)
    assert host.arrived(2) == []
    assert host.arrived(1) == []
    assert host.sent() == steps[1:]
    assert host.done


def test_a_send_may_not_leave_before_its_data() -> None:
    host = Dependencies([step("receive", 0), step("send", 1, 0)])
    with pytest.raises(ValueError, match="before its data"):
        host.sent()
    assert host.left == 2


def test_what_is_not_expected_is_known() -> None:
    host = Dependencies([step("receive", 0), step("send", 1)])
    assert host.expects(1) is None
    assert host.expects(7) is None
    assert host.expects(0) == step("receive", 0)

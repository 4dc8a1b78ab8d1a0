"""What would shorten T: every figure is what T really answers to a small step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES, STREAM_MS, networks, rounds_of

from controller.bottlenecks import Bottleneck, find_bottlenecks, planned_trees
from controller.demand import Demand
from controller.multicast import make_tree
from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import Schedule, load_schedule
from controller.timing import time_demand
from testbed.topology import Topology

STEP = 1e-3


def planned(schedule: Schedule, memory_bytes: float = 32e9, **settings: object) -> Plan:
    sizes = {"payload_bytes": PAYLOAD_BYTES, "memory_bytes": memory_bytes}
    return make_plan(NINE, schedule, **{**sizes, **settings})


def better(plan: Plan, found: Bottleneck) -> float:
    """T of the plan's trees if what was found is a small step better."""
    links, cities = [], []
    for link in plan.topology.links:
        update = {}
        if f"{link.a}-{link.b}" in found.places:
            if found.what == "delay":
                update = {
                    key: max(0.0, getattr(link, key) - STEP)
                    for key in ("delay_ms", "delay_back_ms")
                }
            elif found.what in ("link", "rate"):
                update = {"rate_gbps": link.rate_gbps + STEP}
        links.append(link.model_copy(update=update))
    for city in plan.topology.cities:
        wider = found.what in ("access", "rate") and city.code in found.places
        rate_gbps = city.access_rate_gbps + (STEP if wider else 0.0)
        cities.append(city.model_copy(update={"access_rate_gbps": rate_gbps}))
    topology = Topology(name="better", cities=tuple(cities), links=tuple(links))
    more_bytes = STEP * 1e6 if found.what == "memory" else 0.0
    demand = Demand(plan.payload_bytes, plan.memory_bytes + more_bytes, rates=plan.rates)
    times = []
    for each in plan.period:
        trees = planned_trees(plan.topology, each)
        again = [make_tree(topology, t.sender, t.clique, t.paths) for t in trees]
        times.append(time_demand(topology, again, demand).t_ms)
    return max(times)


def assert_true_gains(plan: Plan) -> None:
    for found in find_bottlenecks(plan).found:
        every = found.what != "memory" or len(found.places) > 1
        units = STEP * 1e-3 if found.what == "memory" else STEP
        gain_ms = (plan.prediction.t_ms - better(plan, found)) / units
        if every:
            assert found.gain_ms == pytest.approx(gain_ms, rel=2e-2, abs=5e-3)
        else:  # here all cities get more memory, not only this one
            assert found.gain_ms <= gain_ms * 1.02 + 5e-3


@pytest.mark.parametrize("name", ["triangles", "pairs", "all-to-all", "regional"])
@pytest.mark.parametrize("memory_bytes", [0, 0.2e9, 32e9])
def test_gains_of_the_named_schedules(name: str, memory_bytes: float) -> None:
    assert_true_gains(planned(load_schedule(name, NINE), memory_bytes, trees="shortest-path"))


@settings(max_examples=25)
@given(data=st.data())
def test_gains_of_drawn_schedules(data: st.DataObject) -> None:
    topology = data.draw(networks(most=5))
    rounds = tuple(
        data.draw(rounds_of(topology.codes)) for _ in range(data.draw(st.integers(1, 2)))
    )
    share = data.draw(st.sampled_from([0.0, 0.3, 3.0]))
    schedule = Schedule("drawn", rounds)
    plan = make_plan(topology, schedule, payload_bytes=2e9, memory_bytes=share * 2e9)
    if plan.feasible:
        assert_true_gains(plan)


def test_links_that_are_equally_busy_have_to_get_better_together() -> None:
    """NYC–LON and NYC–CHI carry three streams each: 3 P / C answers to both."""
    found = find_bottlenecks(planned(load_schedule("triangles", NINE), trees="shortest-path"))
    links = [each for each in found.found if each.what == "link"]
    assert [each.places for each in links] == [("nyc-chi", "nyc-lon")]
    assert links[0].gain_ms == pytest.approx(3 * STREAM_MS / 100, rel=1e-3)
    assert [e.places for e in found.found if e.what == "delay"] == [("tyo-sin",), ("fra-sin",)]
    assert not [each for each in found.found if each.what == "memory"]


def test_links_and_access_links_that_bind_at_once() -> None:
    found = find_bottlenecks(planned(load_schedule("pairs", NINE)))
    (rate,) = (each for each in found.found if each.what == "rate")
    assert {"fra-sin", "chi"} <= set(rate.places)
    assert rate.gain_ms == pytest.approx(STREAM_MS / 100, rel=1e-3)


def test_memory_counts_where_there_is_too_little() -> None:
    plan = planned(load_schedule("triangles", NINE), 0.1e9, trees="shortest-path")
    (memory,) = (each for each in find_bottlenecks(plan).found if each.what == "memory")
    # Each ms of buffer, P / D bytes of it, takes one ms from the latency part.
    assert memory.gain_ms == pytest.approx(3 * STREAM_MS / (PAYLOAD_BYTES / 1e9), rel=1e-3)


def test_two_rounds_that_are_equally_slow() -> None:
    """Each is slowed by a link of its own: neither alone shortens T."""
    rounds = ((("chi", "nyc"),), (("lon", "ams"),))
    links = tuple(
        link.model_copy(update={"rate_gbps": 50.0, "delay_ms": 5.0, "delay_back_ms": 5.0})
        if {link.a, link.b} in ({"chi", "nyc"}, {"lon", "ams"})
        else link
        for link in NINE.links
    )
    topology = Topology(name="even", cities=NINE.cities, links=links)
    sizes = {"payload_bytes": PAYLOAD_BYTES, "memory_bytes": 32e9, "trees": "shortest-path"}
    plan = make_plan(topology, Schedule("even", rounds), **sizes)
    assert plan.period[0].t_ms == plan.period[1].t_ms
    found = find_bottlenecks(plan)
    assert [(each.what, set(each.places)) for each in found.found] == [
        ("link", {"nyc-chi", "lon-ams"})
    ]
    assert found.note.startswith("degenerate: no single")
    assert "2 slowest rounds" in found.note


def test_where_there_is_nothing_to_say_the_note_says_why() -> None:
    infeasible = find_bottlenecks(planned(load_schedule("all-to-all", NINE), 0))
    assert infeasible.found == ()
    assert "infeasible" in infeasible.note
    unpaced = find_bottlenecks(planned(load_schedule("pairs", NINE), rates="unpaced"))
    assert unpaced.found == ()
    assert "unpaced" in unpaced.note

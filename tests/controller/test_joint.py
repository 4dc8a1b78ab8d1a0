"""Joint choice of trees: all trees, alignment without memory, hubs, and their bounds."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import CODES, NINE, PAYLOAD_BYTES, STREAM_MS, indices, networks, rounds_of

from controller.bounds import access_duration_ms, lower_bound_ms
from controller.check import check_plan
from controller.choose import TREE_FAMILIES, TreeChooser
from controller.demand import Demand
from controller.hub import aligned_latency_ms, hub_trees
from controller.jointtrees import joint_trees
from controller.multicast import check_tree, check_walks
from controller.planner import make_plan
from controller.schedule import NAMED, Schedule, load_schedule
from controller.timing import time_demand
from controller.treeset import TreeCatalogue, count_spanning_trees, spanning_trees
from testbed.routing import route
from testbed.topology import City, Link, Topology

ROUTING = route(NINE)
CROSS = indices(load_schedule("triangles", NINE).rounds[1])


def ring(count: int, *, parallel: bool = False) -> Topology:
    """Cities on a ring, uneven delays in both directions; one link may be doubled."""
    cities = tuple(City(code=f"c{i}", name="C", region="r", lat=0, lon=0) for i in range(count))
    links = [
        Link(a=f"c{i}", b=f"c{(i + 1) % count}", delay_ms=2 + i, delay_back_ms=3 + 2 * i)
        for i in range(count)
    ]
    if parallel:
        links.append(Link(a="c0", b="c1", delay_ms=9, delay_back_ms=1, rate_gbps=40))
    return Topology(name="ring", cities=cities, links=tuple(links))


def test_all_trees_are_listed() -> None:
    # A ring of n links loses any one of them; a doubled link gives another choice.
    assert len(list(spanning_trees(ring(5)))) == 5
    assert count_spanning_trees(ring(5)) == pytest.approx(5)
    doubled = ring(4, parallel=True)
    assert len(list(spanning_trees(doubled))) == 3 * 2 + 1
    assert count_spanning_trees(doubled) == pytest.approx(7)
    nine = list(spanning_trees(NINE))
    assert len(nine) == len(set(nine)) == 285
    assert count_spanning_trees(NINE) == pytest.approx(285)
    found = TreeCatalogue(NINE).trees(0, 0, list(range(1, 9)))
    assert len({tree.edges for tree in found}) == 285
    for tree in found:
        assert check_tree(NINE, CODES[0], tree.edges, CODES[1:]) == []


@pytest.mark.parametrize("memory_bytes", [0.0, 5e5, 2e6, 1e9])
@pytest.mark.parametrize("model", ["accumulate", "hold"])
def test_the_joint_choice_is_exact_against_all_choices(memory_bytes: float, model: str) -> None:
    topology = ring(4, parallel=True)
    catalogue = TreeCatalogue(topology)
    demand = Demand(5e6, memory_bytes, memory_model=model)  # 0.4 ms at 100 Gbit/s
    cliques = [[0, 1, 2]]
    found = joint_trees(catalogue, cliques, demand, access_ms=0.4, floor_ms=0, below_ms=1e4)
    lists = [catalogue.trees(s, 0, [c for c in cliques[0] if c != s]) for s in cliques[0]]
    times = []
    for trees in itertools.product(*lists):
        timing = time_demand(topology, trees, demand)
        if timing.shortfall is None:
            times.append(timing.t_ms)
    if not times:
        assert found.trees is None
        assert found.bound_ms == 1e4
        return
    assert found.trees is not None
    assert time_demand(topology, found.trees, demand).t_ms == pytest.approx(min(times), rel=1e-3)
    assert found.bound_ms <= min(times) + 1e-6


def test_triangles_without_memory_on_trees_that_align() -> None:
    """Two streams a link and still aligned: 178.53 + 2 × 143.2, not 135.98 + 3 × 143.2."""
    chooser = TreeChooser(ROUTING, Demand(PAYLOAD_BYTES, 0.0), "best")
    best = chooser.choose(CROSS)
    assert best.timing.t_ms == pytest.approx(178.53 + 2 * STREAM_MS, abs=0.01)
    assert best.bound_ms >= best.timing.t_ms * 0.999
    for trees in best.trees:
        receivers = [CODES[city] for city in trees.receivers]
        assert check_tree(NINE, CODES[trees.sender], trees.edges, receivers) == []


def test_no_trees_at_all_align_all_to_all_without_memory() -> None:
    found = joint_trees(
        TreeCatalogue(NINE),
        [list(range(9))],
        Demand(PAYLOAD_BYTES, 0.0),
        access_ms=STREAM_MS,
        floor_ms=0.0,
        below_ms=1e5,
    )
    assert found.trees is None
    assert found.bound_ms == 1e5


def test_all_to_all_through_a_hub_needs_no_memory() -> None:
    plan = make_plan(
        NINE,
        load_schedule("all-to-all", NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=0,
        trees="hub",
    )
    assert plan.feasible
    assert check_plan(plan) == []
    assert plan.trees == "hub (lax)"
    # Farthest from Los Angeles: Singapore, 49.36 + 32.255 ms; up and down again.
    assert plan.prediction.t_ms == pytest.approx(2 * 81.615 + 9 * STREAM_MS)
    assert plan.not_runnable == ""


@pytest.mark.parametrize("hub", range(9))
def test_any_hub_aligns_all(hub: int) -> None:
    trees = hub_trees(ROUTING, hub, list(range(9)), 0)
    for tree in trees:
        paths = {CODES[city]: path for city, path in tree.paths.items()}
        assert check_walks(CODES[tree.sender], tree.edges, paths) == []
    found = time_demand(NINE, trees, Demand(PAYLOAD_BYTES, 0.0))
    assert found.shortfall is None
    assert found.t_ms == pytest.approx(aligned_latency_ms(trees) + found.duration_ms)


def test_walks_that_cannot_be_forwarded_are_found() -> None:
    (tree, *_) = hub_trees(ROUTING, CODES.index("lax"), [0, 1, 2], 0)
    paths = {CODES[city]: path for city, path in tree.paths.items()}
    assert check_walks("nyc", tree.edges, paths) == []
    assert "are not the edges" in check_walks("nyc", tree.edges[1:], paths)[0]
    first, *rest = paths["chi"]
    twice = {**paths, "lax": (*rest, first)}
    assert any("two sides" in fault for fault in check_walks("nyc", tree.edges, twice))


@settings(max_examples=40)
@given(data=st.data())
def test_best_is_never_worse_and_never_below_its_bound(data: st.DataObject) -> None:
    topology = data.draw(networks(most=5))
    schedule = Schedule("drawn", (data.draw(rounds_of(topology.codes)),))
    payload_bytes = data.draw(st.sampled_from([1e6, 1e8, 2e9]))
    memory_bytes = payload_bytes * data.draw(st.sampled_from([0.0, 0.05, 0.4, 2.0]))
    plans = {
        family: make_plan(
            topology,
            schedule,
            payload_bytes=payload_bytes,
            memory_bytes=memory_bytes,
            trees=family,
        )
        for family in TREE_FAMILIES
    }
    best = plans["best"]
    for family in ("shortest-path", "least-load"):
        if plans[family].feasible:
            assert best.feasible
            assert best.prediction.t_ms <= plans[family].prediction.t_ms + 0.011
    for plan in plans.values():
        if plan.feasible:
            assert check_plan(plan) == []
    assert plans["hub"].feasible  # aligned whatever the delays
    bound_ms = best.period[0].trees_bound_ms
    if best.feasible and bound_ms is not None:
        assert bound_ms <= best.prediction.t_ms + 1e-3


@settings(max_examples=30)
@given(data=st.data())
def test_t_never_rises_when_the_set_of_trees_grows(data: st.DataObject) -> None:
    topology = data.draw(networks(most=5))
    schedule = Schedule("drawn", (data.draw(rounds_of(topology.codes)),))
    memory_bytes = 1e8 * data.draw(st.sampled_from([0.0, 0.05, 0.4, 2.0]))
    a, b = data.draw(st.permutations(topology.codes))[:2]
    more = Link(a=a, b=b, delay_ms=data.draw(st.integers(0, 90)), delay_back_ms=7)
    larger = Topology(name="more", cities=topology.cities, links=(*topology.links, more))

    def t_ms(where: Topology) -> float:
        plan = make_plan(where, schedule, payload_bytes=1e8, memory_bytes=memory_bytes)
        return plan.prediction.t_ms if plan.feasible else float("inf")

    # Both choices are exact to within 0.1 %.
    assert t_ms(larger) <= t_ms(topology) * 1.001 + 0.011


@pytest.mark.parametrize("name", NAMED)
def test_the_cut_bound_is_tight_where_a_cut_decides(name: str) -> None:
    demand = Demand(PAYLOAD_BYTES, 32e9)
    for cliques in load_schedule(name, NINE).rounds:
        members = indices(cliques)
        bound_ms = lower_bound_ms(ROUTING, members, demand)
        best = TreeChooser(ROUTING, demand, "best").choose(members)
        assert bound_ms <= best.timing.t_ms + 1e-6
        if name in ("all-to-all", "pairs"):
            assert bound_ms >= 0.99 * best.timing.t_ms
        assert access_duration_ms(NINE, members, demand) == pytest.approx(STREAM_MS)

"""Trees from lists: they agree with the integer program, and with the search."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES, STREAM_MS, indices, networks, rounds_of

from controller.bounds import access_duration_ms
from controller.check import check_plan
from controller.demand import Demand
from controller.jointtrees import joint_trees
from controller.listedtrees import ListedTrees
from controller.multicast import check_tree
from controller.planner import make_plan
from controller.schedule import load_schedule
from controller.search.roundtimes import RoundTimes
from controller.timing import time_demand
from controller.treeset import TreeCatalogue

SCHEDULES = Path(__file__).parents[2] / "experiments" / "schedules"
BEST_CITIES = str(SCHEDULES / "triangles-best-cities.yaml")


def test_the_cross_regional_triangles() -> None:
    """Two streams a link: 178.53 + 2 × 143.2 ms, and nothing below that."""
    cliques = indices(load_schedule("triangles", NINE).rounds[1])
    limits = {"access_ms": STREAM_MS, "floor_ms": 443.495}
    listed = ListedTrees(NINE)
    found = listed.aligned(cliques, PAYLOAD_BYTES, **limits, below_ms=565.575)
    assert found is not None
    assert found.trees is not None
    assert found.bound_ms == pytest.approx(464.93, abs=1e-6)
    timing = time_demand(NINE, found.trees, Demand(PAYLOAD_BYTES, 0.0))
    assert timing.shortfall is None
    assert timing.t_ms == pytest.approx(464.93, abs=1e-6)
    none = listed.aligned(cliques, PAYLOAD_BYTES, **limits, below_ms=464.93)
    assert none is not None
    assert (none.trees, none.bound_ms) == (None, 464.93)


def test_nine_streams_cannot_be_aligned() -> None:
    found = ListedTrees(NINE).aligned(
        [list(range(9))], PAYLOAD_BYTES, access_ms=STREAM_MS, floor_ms=0.0, below_ms=1e5
    )
    assert found is not None
    assert (found.trees, found.bound_ms) == (None, 1e5)


@settings(max_examples=40)
@given(data=st.data())
def test_it_agrees_with_the_integer_program(data: st.DataObject) -> None:
    topology = data.draw(networks(most=5))
    index = topology.index
    cliques = [[index(c) for c in clique] for clique in data.draw(rounds_of(topology.codes))]
    demand = Demand(2e8, 0.0)
    access_ms = access_duration_ms(topology, cliques, demand)
    limits = {"access_ms": access_ms, "floor_ms": 0.0, "below_ms": 1e4}
    found = ListedTrees(topology).aligned(cliques, demand.payload_bytes, **limits)
    whole = joint_trees(TreeCatalogue(topology), cliques, demand, **limits)
    assert found is not None
    assert (found.trees is None) == (whole.trees is None)
    if found.trees is None or whole.trees is None:
        return
    mine, theirs = (time_demand(topology, each.trees, demand) for each in (found, whole))
    assert mine.shortfall is None
    assert mine.t_ms == pytest.approx(found.bound_ms, abs=1e-3)
    assert mine.t_ms <= theirs.t_ms + 1e-3
    codes = topology.codes
    for tree in found.trees:
        wanted = [codes[city] for city in tree.receivers]
        assert check_tree(topology, codes[tree.sender], tree.edges, wanted) == []


@pytest.mark.parametrize("memory_bytes", [0.0, 32e9])
@pytest.mark.parametrize("number", [0, 1])
def test_packed_trees_are_as_good_as_the_search_finds(memory_bytes: float, number: int) -> None:
    cliques = indices(load_schedule(BEST_CITIES, NINE).rounds[number])
    trees = ListedTrees(NINE).packed(cliques, PAYLOAD_BYTES, aligned=memory_bytes == 0)
    assert trees is not None
    demand = Demand(PAYLOAD_BYTES, memory_bytes, rates="per-stream")
    timing = time_demand(NINE, trees, demand)
    assert timing.shortfall is None
    labels = [0] * len(NINE.cities)
    for number_of_clique, clique in enumerate(cliques):
        for city in clique:
            labels[city] = number_of_clique
    first = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    times = RoundTimes(NINE, payload_bytes=PAYLOAD_BYTES, memory_bytes=memory_bytes)
    searched = times.evaluate(tuple(first[label] for label in labels), nodes=200)
    assert timing.t_ms == pytest.approx(searched.t_ms, rel=2e-4)


def test_rates_of_their_own_get_trees_of_their_own() -> None:
    """The trees that are best at a common rate would end at 402.75 ms."""
    plan = make_plan(
        NINE,
        load_schedule(BEST_CITIES, NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=32e9,
        rates="per-stream",
    )
    assert plan.prediction.t_ms == pytest.approx(368.10, abs=0.1)
    assert plan.trees == "packed"
    assert check_plan(plan) == []


def test_nothing_is_packed_where_nothing_can_be_aligned() -> None:
    assert ListedTrees(NINE).packed([list(range(9))], PAYLOAD_BYTES, aligned=True) is None

"""Trees without memory: the listing agrees with the integer program over single trees."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES, STREAM_MS, indices, networks, rounds_of

from controller.alignedtrees import AlignedTrees
from controller.bounds import access_duration_ms
from controller.demand import Demand
from controller.jointtrees import joint_trees
from controller.multicast import check_tree
from controller.schedule import load_schedule
from controller.timing import time_demand
from controller.treeset import TreeCatalogue


def test_the_cross_regional_triangles() -> None:
    """Two streams a link: 178.53 + 2 × 143.2 ms, and nothing below that."""
    cliques = indices(load_schedule("triangles", NINE).rounds[1])
    limits = {"access_ms": STREAM_MS, "floor_ms": 443.495}
    aligned = AlignedTrees(NINE)
    found = aligned.choose(cliques, PAYLOAD_BYTES, **limits, below_ms=565.575)
    assert found is not None
    assert found.trees is not None
    assert found.bound_ms == pytest.approx(464.93, abs=1e-6)
    timing = time_demand(NINE, found.trees, Demand(PAYLOAD_BYTES, 0.0))
    assert timing.shortfall is None
    assert timing.t_ms == pytest.approx(464.93, abs=1e-6)
    none = aligned.choose(cliques, PAYLOAD_BYTES, **limits, below_ms=464.93)
    assert none is not None
    assert (none.trees, none.bound_ms) == (None, 464.93)


def test_nine_streams_cannot_be_aligned() -> None:
    found = AlignedTrees(NINE).choose(
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
    found = AlignedTrees(topology).choose(cliques, demand.payload_bytes, **limits)
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

"""Made-up networks: valid, repeatable, plausible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.generate import great_circles_km, make_topology


@given(count=st.integers(2, 64), seed=st.integers(0, 5))
def test_networks_are_connected_and_repeatable(count: int, seed: int) -> None:
    topology = make_topology(count, seed)
    assert len(topology.cities) == count
    assert topology == make_topology(count, seed)
    # The model itself refuses what is not connected; a mesh has more than a tree's links.
    assert len(topology.links) >= count - 1
    km = great_circles_km(np.array([[city.lat, city.lon] for city in topology.cities]))
    for link in topology.links:
        a, b = topology.index(link.a), topology.index(link.b)
        assert link.delay_ms >= min(km[a, b] / 200, 0.05) - 1e-3
        assert link.delay_ms == link.delay_back_ms


def test_seeds_differ() -> None:
    assert make_topology(9, 1).links != make_topology(9, 2).links


# A quarter of the way around the equator, and from pole to pole.
def test_great_circles() -> None:
    km = great_circles_km(np.array([[0.0, 0.0], [0.0, 90.0], [90.0, 0.0], [-90.0, 0.0]]))
    assert km[0, 1] == pytest.approx(10_007.5, abs=1)
    assert km[2, 3] == pytest.approx(20_015.1, abs=1)


@pytest.mark.parametrize(("count", "regions"), [(1, None), (65, None), (9, 0), (9, 10)])
def test_impossible_sizes_are_refused(count: int, regions: int | None) -> None:
    with pytest.raises(InputError):
        make_topology(count, 1, regions=regions)

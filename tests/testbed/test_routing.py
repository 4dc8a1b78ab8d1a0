"""Shortest paths: the published matrix, ties, asymmetry, next hops."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.routing import path_delay_ms, route
from testbed.topology import City, Link, Topology, load_topology

# One-way ms along shortest paths of the DoubleZero links (p95 RTT / 2, epoch 149),
# by hand from the link table, without any direct link Frankfurt–Tokyo.
CODES = ("nyc", "chi", "lax", "lon", "ams", "fra", "tyo", "sin", "hkg")
MATRIX_MS = {
    "nyc": "8.26 27.32 32.12 34.94 37.79 68.89 101.14 91.18",
    "chi": "19.06 40.38 43.20 46.05 60.63 92.88 82.92",
    "lax": "59.45 62.26 65.12 49.36 81.61 71.65",
    "lon": "2.82 5.67 101.01 74.00 91.60",
    "ams": "2.85 103.83 75.48 93.08",
    "fra": "104.88 72.63 90.23",
    "tyo": "32.25 22.29",
    "sin": "17.60",
}


def network(count: int, links: list[tuple[int, int, float, float]]) -> Topology:
    cities = tuple(City(code=f"c{i}", name="C", region="r", lat=0, lon=0) for i in range(count))
    return Topology(
        name="made",
        cities=cities,
        links=tuple(
            Link(a=f"c{a}", b=f"c{b}", delay_ms=there, delay_back_ms=back)
            for a, b, there, back in links
        ),
    )


def test_the_matrix_of_the_nine_cities() -> None:
    topology = load_topology("nine-cities")
    delays_ms = route(topology).delays_ms()
    for src, row in MATRIX_MS.items():
        start = CODES.index(src)
        for offset, value in enumerate(row.split(), start=1):
            # The table is rounded to 0.01 ms.
            assert delays_ms[start, start + offset] == pytest.approx(float(value), abs=0.0051)
    np.testing.assert_allclose(delays_ms, delays_ms.T, atol=1e-12)
    assert not delays_ms.diagonal().any()


def test_the_optional_direct_link_shortens_what_it_should() -> None:
    base = load_topology("nine-cities")
    direct = Link(a="fra", b="tyo", delay_ms=99.28, delay_back_ms=99.28)
    topology = Topology(name="direct", cities=base.cities, links=(*base.links, direct))
    delays_ms = route(topology).delays_ms()
    fra, ams, tyo = (topology.index(code) for code in ("fra", "ams", "tyo"))
    assert delays_ms[fra, tyo] == pytest.approx(99.28)
    assert delays_ms[ams, tyo] == pytest.approx(102.13, abs=0.0051)


def test_no_delay_is_faster_than_light_in_fibre() -> None:
    topology = load_topology("nine-cities")
    delays_ms = route(topology).delays_ms()
    for (i, a), (j, b) in itertools.combinations(enumerate(topology.cities), 2):
        lat_a, lat_b, lon = np.radians([a.lat, b.lat, a.lon - b.lon])
        cosine = np.sin(lat_a) * np.sin(lat_b) + np.cos(lat_a) * np.cos(lat_b) * np.cos(lon)
        distance_km = 6371 * np.arccos(cosine)
        assert delays_ms[i, j] >= distance_km / (299.792458 * 2 / 3)


def test_ties_go_to_fewer_links_then_to_smaller_indices() -> None:
    square = [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (0, 3, 1.0, 1.0), (3, 2, 1.0, 1.0)]
    topology = network(4, square)
    assert route(topology).path(0, 2) == (0, 2)
    with_diagonal = network(4, [*square, (0, 2, 2.0, 2.0)])
    assert route(with_diagonal).path(0, 2) == (8,)


def test_directions_are_routed_apart() -> None:
    topology = network(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (0, 2, 5.0, 1.0)])
    routing = route(topology)
    assert routing.path(0, 2) == (0, 2)
    assert routing.path(2, 0) == (5,)


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    count = draw(st.integers(2, 8))
    delay = st.sampled_from([0.0, 0.5, 1.0, 2.0]) | st.floats(0, 100)
    chain = [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    extra = [pair for pair in draw(st.lists(pairs, max_size=8)) if pair[0] != pair[1]]
    return network(count, [(a, b, draw(delay), draw(delay)) for a, b in [*chain, *extra]])


@given(topology=networks())
def test_paths_are_shortest_and_next_hops_follow_them(topology: Topology) -> None:
    routing = route(topology)
    graph = nx.MultiDiGraph()
    for edge in topology.edges:
        graph.add_edge(edge.src, edge.dst, weight=edge.delay_ms)
    lengths = dict(nx.all_pairs_dijkstra_path_length(graph))
    unicast = routing.unicast()
    for i, src in enumerate(topology.codes):
        for j, dst in enumerate(topology.codes):
            path = routing.path(i, j)
            assert path_delay_ms(topology, path) == pytest.approx(lengths[src][dst], abs=1e-6)
            walked = []
            city = src
            while city != dst:
                walked.append(unicast[dst][city])
                city = topology.edges[walked[-1]].dst
            assert tuple(walked) == path

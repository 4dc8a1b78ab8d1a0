"""Round times: published values, the zero-memory lemma, memory and infeasibility."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import (
    CODES,
    NINE,
    PAYLOAD_BYTES,
    STREAM_MS,
    direct_trees,
    indices,
    networks,
    published_delays_ms,
    rounds_of,
)

from controller.multicast import Tree, shortest_path_trees
from controller.offsets import arrival_spreads_ms, least_spread
from controller.schedule import load_schedule
from controller.timing import RoundTiming, least_duration_ms, lemma_offsets, time_round
from testbed.routing import route
from testbed.topology import Link, Topology

ROUTING = route(NINE)
REGIONS, CROSS = (indices(cliques) for cliques in load_schedule("triangles", NINE).rounds)
ALL = [list(range(9))]
BOTH_DELAYS = [published_delays_ms(), ROUTING.delays_ms()]


def timed(
    trees: tuple[Tree, ...],
    memory_bytes: float,
    *,
    multicast: bool = True,
    aggregation: bool = True,
    topology: Topology = NINE,
    payload_bytes: float = PAYLOAD_BYTES,
) -> RoundTiming:
    return time_round(
        topology,
        trees,
        payload_bytes=payload_bytes,
        memory_bytes=memory_bytes,
        multicast=multicast,
        aggregation=aggregation,
    )


# Zero memory, three streams on one link: (longest + middle − shortest) + 3 P/C.
def test_triangles_without_memory() -> None:
    found = timed(shortest_path_trees(ROUTING, CROSS), 0)
    assert found.shortfall is None
    assert found.duration_ms == pytest.approx(3 * STREAM_MS)
    assert found.t_ms == pytest.approx(135.975 + 3 * STREAM_MS, abs=1e-6)
    offsets = {CODES[city]: offset for city, offset in found.offsets_ms.items()}
    wanted = {"fra": 31.095, "tyo": 0, "chi": 33.615, "lon": 52.5, "sin": 0, "ams": 9.385}
    # a_nyc = (37.795 + 68.89 − 104.88) / 2, a_tyo = (68.89 + 104.88 − 37.795) / 2
    wanted |= {"nyc": 67.9875 - 0.9025, "lax": 30.82, "hkg": 0}
    for code, offset in wanted.items():
        assert offsets[code] == pytest.approx(offset, abs=1e-6)
    assert max(found.held_bytes.values()) < 1


def test_triangles_without_memory_with_the_optional_direct_link() -> None:
    direct = Link(a="fra", b="tyo", delay_ms=99.28, delay_back_ms=99.28)
    topology = Topology(name="direct", cities=NINE.cities, links=(*NINE.links, direct))
    trees = shortest_path_trees(route(topology), CROSS)
    found = timed(trees, 0, topology=topology)
    # Published: 130.4 + 3 × 143.2 = 560; offsets 61.5, 31.1, 0.
    assert found.t_ms == pytest.approx(130.4 + 3 * STREAM_MS, abs=0.05)
    nyc, fra, tyo = (found.offsets_ms[CODES.index(code)] for code in ("nyc", "fra", "tyo"))
    assert (nyc, fra, tyo) == pytest.approx((61.5, 31.1, 0), abs=0.05)
    # With memory all start at once: 99.3 + 3 × 143.2 = 529.
    with_memory = timed(trees, 32e9, topology=topology)
    assert with_memory.t_ms == pytest.approx(99.3 + 3 * STREAM_MS, abs=0.05)
    assert set(with_memory.offsets_ms.values()) == {0}


def test_all_to_all_on_shortest_paths() -> None:
    trees = shortest_path_trees(ROUTING, ALL)
    found = timed(trees, 32e9)
    assert found.t_ms == pytest.approx(104.88 + 5 * STREAM_MS, abs=1e-6)
    refused = timed(trees, 0)
    assert refused.shortfall is not None
    # 86.41 ms of a stream at a fifth of 100 Gbit/s.
    assert refused.shortfall.spread_ms == pytest.approx(86.41, abs=1e-3)
    assert refused.shortfall.needed_bytes == pytest.approx(86.41e-3 * 20e9 / 8, rel=1e-4)
    assert refused.shortfall.missing_bytes == refused.shortfall.needed_bytes
    # It can be run all the same, on the offsets that need least.
    assert max(arrival_spreads_ms(trees, refused.offsets_ms).values()) == pytest.approx(86.41)
    assert refused.duration_ms == pytest.approx(5 * STREAM_MS)


def test_a_memory_of_the_shortfall_is_enough_and_less_slows_the_round_down() -> None:
    trees = shortest_path_trees(ROUTING, ALL)
    refused = timed(trees, 0)
    assert refused.shortfall is not None
    needed = refused.shortfall.needed_bytes
    enough = timed(trees, needed)
    assert enough.t_ms == pytest.approx(refused.t_ms, abs=1e-3)
    half = timed(trees, needed / 2)
    assert half.shortfall is None
    assert half.duration_ms == pytest.approx(2 * refused.duration_ms, rel=1e-6)
    # A memory for which the streams would have to crawl is refused.
    crawling = timed(trees, needed / 2000)
    assert crawling.shortfall is not None
    assert crawling.shortfall.missing_bytes == pytest.approx(needed * (1 - 1 / 2000))


def test_all_to_all_buffers_84_ms_at_least_and_99_ms_at_most() -> None:
    """Published for the matrix with the direct link Frankfurt–Tokyo."""
    trees = direct_trees(published_delays_ms(), [tuple(range(9))])
    spread_ms, offsets_ms = least_spread(trees)
    assert spread_ms == pytest.approx(84.4, abs=0.05)
    assert max(arrival_spreads_ms(trees, offsets_ms).values()) == pytest.approx(spread_ms)
    rate_bytes_per_ms = PAYLOAD_BYTES / STREAM_MS
    least_t_ms = published_delays_ms().max() + STREAM_MS
    assert timed(trees, 99.29 * rate_bytes_per_ms).t_ms == pytest.approx(least_t_ms, abs=1e-6)
    assert timed(trees, 32e9).t_ms == pytest.approx(least_t_ms, abs=1e-6)
    # All at once, Amsterdam waits from London (2.82) to Tokyo (102.13).
    spreads = arrival_spreads_ms(trees, dict.fromkeys(range(9), 0.0))
    assert max(spreads.values()) == pytest.approx(102.13 - 2.82)


def test_regional_round() -> None:
    trees = shortest_path_trees(ROUTING, REGIONS)
    # Without memory Chicago–Los Angeles–New York decides: 27.325 + 19.065 − 8.26.
    assert timed(trees, 0).t_ms == pytest.approx(38.13 + 2 * STREAM_MS, abs=1e-6)
    assert timed(trees, 32e9).t_ms == pytest.approx(32.255 + 2 * STREAM_MS, abs=1e-6)


@pytest.mark.parametrize("delays_ms", BOTH_DELAYS, ids=["published", "routed"])
def test_lemma_for_every_triple_and_no_quadruple(delays_ms: np.ndarray) -> None:
    for triple in itertools.combinations(range(9), 3):
        trees = direct_trees(delays_ms, [triple])
        found = timed(trees, 0)
        assert found.shortfall is None
        offsets_ms, latency_ms = lemma_offsets(delays_ms.tolist(), triple)
        assert found.t_ms == pytest.approx(latency_ms + STREAM_MS, abs=1e-6)
        for city, offset_ms in offsets_ms.items():
            assert found.offsets_ms[city] == pytest.approx(offset_ms, abs=1e-6)
    feasible = [
        timed(direct_trees(delays_ms, [quadruple]), 0).shortfall is None
        for quadruple in itertools.combinations(range(9), 4)
    ]
    assert len(feasible) == 126
    assert not any(feasible)


def test_one_millisecond_more_in_one_direction_breaks_a_triple() -> None:
    for triple in itertools.combinations(range(9), 3):
        delays_ms = published_delays_ms()
        delays_ms[triple[0], triple[1]] += 1
        found = timed(direct_trees(delays_ms, [triple]), 0)
        assert found.shortfall is not None
        # Six alignment equations share the millisecond among three receivers.
        assert found.shortfall.spread_ms == pytest.approx(1 / 3, abs=1e-3)


def test_pairs_never_need_memory() -> None:
    delays_ms = published_delays_ms()
    delays_ms[0, 1] += 7
    found = timed(direct_trees(delays_ms, [(0, 1)]), 0)
    assert found.shortfall is None
    assert found.t_ms == pytest.approx(8.26 + 7 + STREAM_MS)
    assert set(found.offsets_ms.values()) == {0}


@pytest.mark.parametrize(
    ("multicast", "aggregation", "streams"),
    [(True, True, 1), (False, True, 2), (True, False, 2), (False, False, 2)],
)
def test_the_access_link_of_a_triangle(multicast: bool, aggregation: bool, streams: int) -> None:
    trees = direct_trees(published_delays_ms(), [(0, 1, 2)])
    least_ms = least_duration_ms(
        NINE, trees, PAYLOAD_BYTES, multicast=multicast, aggregation=aggregation
    )
    assert least_ms == pytest.approx(streams * STREAM_MS)


def test_without_aggregation_memory_does_not_matter() -> None:
    trees = shortest_path_trees(ROUTING, ALL)
    found = timed(trees, 0, aggregation=False)
    assert found.shortfall is None
    assert found.t_ms == pytest.approx(104.88 + 8 * STREAM_MS)
    assert set(found.held_bytes.values()) == {0}


@settings(max_examples=40)
@given(data=st.data())
def test_more_memory_or_capacity_never_lengthens_a_round(data: st.DataObject) -> None:
    topology = data.draw(networks())
    cliques = [
        [topology.index(code) for code in clique] for clique in data.draw(rounds_of(topology.codes))
    ]
    trees = shortest_path_trees(route(topology), cliques)
    share = st.sampled_from([0.0, 1e-3, 0.01, 0.1, 0.3, 0.7, 1.0, 2.0])
    less, more = sorted((data.draw(share), data.draw(share)))
    payload_bytes = data.draw(st.sampled_from([1e6, 1e8, 2e9]))

    def t_ms(topology: Topology, memory_share: float) -> float:
        memory_bytes = memory_share * payload_bytes
        found = timed(trees, memory_bytes, topology=topology, payload_bytes=payload_bytes)
        return np.inf if found.shortfall else found.t_ms

    small = t_ms(topology, less)
    assert t_ms(topology, more) <= small + 1e-6
    links = [link.model_copy(update={"rate_gbps": 2 * link.rate_gbps}) for link in topology.links]
    faster = Topology(name="faster", cities=topology.cities, links=tuple(links))
    if less >= 0.1:  # below, the limit on slowing down moves with the capacity
        assert t_ms(faster, less) <= small + 1e-6


def test_a_memory_for_the_whole_payload_never_binds() -> None:
    """A stream of 0.08 ms has left before the last one arrives: all of it waits."""
    trees = shortest_path_trees(ROUTING, ALL)
    found = timed(trees, 1e6, payload_bytes=1e6)
    assert found.t_ms == pytest.approx(104.88 + 5 * 0.08)
    assert max(found.held_bytes.values()) == 1e6
    almost = timed(trees, 0.999e6, payload_bytes=1e6)
    assert almost.shortfall is None
    assert max(almost.held_bytes.values()) == pytest.approx(0.999e6)
    assert almost.duration_ms > 80

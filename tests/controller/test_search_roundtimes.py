"""Round times: trees in the table, packing, alignment, bounds; against independent answers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import CODES, NINE, PAYLOAD_BYTES, STREAM_MS, networks

from controller.multicast import check_tree
from controller.offsets import least_spread
from controller.schedule import load_schedule
from controller.search.alignment import aligned_choices
from controller.search.packing import Group, assignment_time_ms, pack
from controller.search.partitions import Labels, canonical, labels_of
from controller.search.roundtimes import GAP_MS, RoundTimes
from controller.search.treetable import TreeTable, count_spanning_trees
from controller.timing import lemma_offsets, time_round
from testbed.routing import route
from testbed.topology import Topology

NINE_TABLE = TreeTable(NINE)
DELAYS_MS = route(NINE).delays_ms().tolist()


def times_of(topology: Topology, memory_bytes: float, nodes: int = 2_000) -> RoundTimes:
    return RoundTimes(topology, payload_bytes=PAYLOAD_BYTES, memory_bytes=memory_bytes, nodes=nodes)


NINE_AMPLE = times_of(NINE, 32e9)
NINE_NONE = times_of(NINE, 0.0)


def labels_for(schedule: str, number: int) -> Labels:
    cliques = load_schedule(schedule, NINE).rounds[number]
    return labels_of(([CODES.index(code) for code in clique] for clique in cliques), 9)


@given(topology=networks(most=5))
def test_table_lists_every_tree_once(topology: Topology) -> None:
    table = TreeTable(topology)
    count = len(topology.cities)
    everyone = tuple(range(1, count))
    choice = table.choose(0, everyone, keep_all=True)
    # Two parallel links make two trees, as the theorem counts them.
    assert len(choice.usage) == count_spanning_trees(topology)
    assert choice.latency_ms.min() == pytest.approx(max(route(topology).delays_ms()[0]))
    for usage in choice.usage:
        edges = np.flatnonzero(usage).tolist()
        codes = topology.codes
        assert not check_tree(topology, codes[0], edges, codes[1:])


def test_nine_cities_have_285_spanning_trees() -> None:
    assert count_spanning_trees(NINE) == 285
    assert NINE_TABLE.complete
    choice = NINE_TABLE.choose(0, (3, 6))
    for usage, delays_ms, spanning in zip(
        choice.usage, choice.delays_ms, choice.spanning, strict=True
    ):
        paths = [NINE_TABLE.path(0, int(spanning), city) for city in (3, 6)]
        assert {edge for path in paths for edge in path} == set(np.flatnonzero(usage).tolist())
        lengths = [sum(NINE.edges[edge].delay_ms for edge in path) for path in paths]
        assert lengths == pytest.approx(delays_ms.tolist())


# Two streams of 10 ms share a link, with latencies 0 and 5: 10/T + 10/(T − 5) = 1 gives
# T² − 25 T + 50 = 0, T = (25 + √425) / 2.
def test_rates_of_two_streams_by_hand() -> None:
    groups = [Group(np.array([[10.0]]), np.array([late]), 10.0) for late in (0.0, 5.0)]
    assert assignment_time_ms(groups, (0, 0)) == pytest.approx((25 + 425**0.5) / 2)


@st.composite
def packings(draw: st.DrawFn) -> list[Group]:
    edges = draw(st.integers(1, 4))
    groups = []
    for _ in range(draw(st.integers(1, 4))):
        choices = draw(st.integers(1, 4))
        used = st.lists(st.booleans(), min_size=edges, max_size=edges)
        rows = [draw(used) for _ in range(choices)]
        late = [float(draw(st.integers(0, 40))) for _ in range(choices)]
        groups.append(Group(np.array(rows) * 20.0, np.array(late), 20.0))
    return groups


@given(groups=packings())
def test_packing_finds_the_least_time(groups: list[Group]) -> None:
    found = pack(groups, lower_ms=0.0, gap_ms=1e-3, nodes=10_000)
    options = itertools.product(*(range(len(group.latency_ms)) for group in groups))
    best_ms = min(assignment_time_ms(groups, picks) for picks in options)
    assert found.t_ms == pytest.approx(best_ms, abs=2e-3)
    assert found.lower_ms <= best_ms + 1e-6
    assert found.t_ms == pytest.approx(assignment_time_ms(groups, found.picks))


# The lemma: any three cities can be aligned, on shortest paths at longest + middle −
# shortest; with other trees never later.
def test_all_triples_can_be_aligned() -> None:
    triples = list(itertools.combinations(range(9), 3))
    assert len(triples) == 84
    for triple in triples:
        choices = aligned_choices(NINE_TABLE, triple)
        assert choices.latency_ms.min() <= lemma_offsets(DELAYS_MS, triple)[1] + 1e-6


def test_aligned_trees_need_no_buffer() -> None:
    # A clique of four: not on shortest paths, but with trees that meet in London.
    clique = [CODES.index(code) for code in ("nyc", "ams", "fra", "sin")]
    found = NINE_NONE.evaluate(labels_of([clique], 9))
    assert np.isfinite(found.t_ms)
    assert least_spread(found.trees)[0] == pytest.approx(0.0, abs=1e-5)


def test_no_trees_align_six_cities() -> None:
    found = NINE_NONE.evaluate(labels_of([range(6)], 9))
    assert found.t_ms == found.lower_ms == np.inf


# One stream on each link: the largest delay, Frankfurt–Singapore, and one stream's time.
def test_pairs_take_one_stream_a_link() -> None:
    found = NINE_AMPLE.evaluate(labels_for("pairs", 1))
    assert found.t_ms == pytest.approx(72.625 + STREAM_MS, abs=1e-6)
    assert found.exact


@pytest.mark.parametrize("times", [NINE_AMPLE, NINE_NONE])
@pytest.mark.parametrize("name", ["triangles", "regional", "pairs"])
def test_the_linear_program_confirms_the_packing(name: str, times: RoundTimes) -> None:
    for number in range(len(load_schedule(name, NINE).rounds)):
        found = times.evaluate(labels_for(name, number))
        timing = time_round(
            NINE,
            found.trees,
            payload_bytes=PAYLOAD_BYTES,
            memory_bytes=times.memory_bytes,
            multicast=True,
            aggregation=True,
            rates="per-stream",
        )
        assert timing.shortfall is None
        # The linear program is exact to a thousandth.
        assert found.t_ms == pytest.approx(timing.t_ms, rel=1e-3)


@settings(max_examples=40)
@given(data=st.data(), topology=networks(most=5))
def test_bounds_hold_and_memory_never_hurts(data: st.DataObject, topology: Topology) -> None:
    count = len(topology.cities)
    raw = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    labels = canonical(raw)
    if max(labels) == count - 1:
        return
    ample, none = times_of(topology, 32e9), times_of(topology, 0.0)
    assert ample.lower_ms(labels) <= ample.evaluate(labels).lower_ms + 1e-9
    assert ample.evaluate(labels).lower_ms <= ample.evaluate(labels).t_ms + 1e-9
    assert ample.evaluate(labels).lower_ms <= none.evaluate(labels).t_ms + GAP_MS
    some = times_of(topology, PAYLOAD_BYTES / 8)
    assert ample.evaluate(labels).lower_ms <= some.evaluate(labels).t_ms + GAP_MS
    assert some.evaluate(labels).t_ms <= none.evaluate(labels).t_ms + GAP_MS


def test_a_limit_only_saves_effort() -> None:
    labels = labels_for("regional", 0)
    fresh = times_of(NINE, 32e9)
    refused = fresh.evaluate(labels, limit_ms=250.0)
    assert refused.t_ms == np.inf
    assert refused.lower_ms > 250.0
    assert fresh.evaluate(labels) == NINE_AMPLE.evaluate(labels)

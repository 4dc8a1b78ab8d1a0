"""Plans as a whole: the published settings, input checks, the independent checker."""

import functools
import math
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES, STREAM_MS, networks, rounds_of

from controller.check import check_plan
from controller.choose import TreeChooser
from controller.demand import Demand
from controller.multicast import shortest_path_trees
from controller.plan import Plan
from controller.planner import format_bytes, make_plan
from controller.schedule import NAMED, Schedule, load_schedule
from testbed.errors import InputError
from testbed.generate import make_topology
from testbed.routing import route


@functools.cache
def plan(
    name: str,
    memory_bytes: float = 32e9,
    *,
    multicast: bool = True,
    aggregation: bool = True,
    trees: str = "best",
) -> Plan:
    return make_plan(
        NINE,
        load_schedule(name, NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=memory_bytes,
        scale=100,
        multicast=multicast,
        aggregation=aggregation,
        trees=trees,
        rounds=4,
    )


# Latency part + busiest link × 143.2 ms of the slowest round. The paper reports
# about 565 ms (Triangles, no memory) and 676 ms (All-to-All, 32 GB).
@pytest.mark.parametrize(
    ("name", "memory_bytes", "trees", "latency_ms", "streams"),
    [
        ("triangles", 0, "shortest-path", 135.975, 3),
        # Aligned trees with two streams a link; the lemma holds along them as well.
        ("triangles", 0, "best", 178.53, 2),
        ("triangles", 32e9, "shortest-path", 104.88, 3),
        ("triangles", 32e9, "best", 157.095, 2),
        ("pairs", 0, "best", 72.625, 1),
        ("pairs", 32e9, "best", 72.625, 1),
        ("all-to-all", 32e9, "shortest-path", 104.88, 5),
        ("all-to-all", 32e9, "best", 109.99, 4),
        ("regional", 0, "best", 38.13, 2),
        ("regional", 32e9, "best", 32.255, 2),
    ],
)
def test_round_times(
    name: str, memory_bytes: float, trees: str, latency_ms: float, streams: int
) -> None:
    made = plan(name, memory_bytes, trees=trees)
    assert made.feasible
    assert made.reason == ""
    assert made.prediction.busiest_link_streams == streams
    assert made.prediction.t_ms == pytest.approx(latency_ms + streams * STREAM_MS, abs=0.01)
    assert made.round_interval_ms >= made.prediction.t_ms * 1.02 + 5
    assert made.round_interval_ms == int(made.round_interval_ms)


def test_triangles_without_memory_agree_with_the_paper_within_one_percent() -> None:
    made = plan("triangles", 0, trees="shortest-path")
    assert made.prediction.t_ms == pytest.approx(565, rel=0.01)


def test_all_to_all_with_memory_is_near_the_paper() -> None:
    # 1 % above 676 ms: with four streams a link the smallest delay is 110, not 103 ms.
    assert plan("all-to-all").prediction.t_ms == pytest.approx(676, rel=0.0105)


def test_all_to_all_without_memory_is_refused_with_its_reason() -> None:
    made = plan("all-to-all", 0)
    assert not made.feasible
    assert made.reason == (
        "all-to-all round 0: nyc must hold 86.4 ms of stream (216 MB) from chi until sin arrives, "
        "memory is 0: 216 MB short (86.4 ms)"
    )
    faults = check_plan(made)
    assert faults
    assert all("in a memory of 0" in fault for fault in faults)


def test_predictions_hold_lifetime_and_objective() -> None:
    triangles = plan("triangles", 0).prediction
    assert triangles.a_rms == pytest.approx(1.5)
    assert triangles.objective_ms == pytest.approx(triangles.t_ms * 2)
    assert triangles.survival == (1, 0.5, 0)
    regional = plan("regional").prediction
    assert regional.a_rms is None
    assert regional.objective_ms is None


def test_the_trees_are_chosen_round_by_round() -> None:
    assert plan("triangles").trees == "shortest-path, least-load"
    assert plan("triangles", 0).trees == "shortest-path, joint"
    assert plan("all-to-all", 0.3e9).trees == "joint"
    assert plan("all-to-all").trees == "least-load"
    assert plan("all-to-all", multicast=False).trees == "shortest-path"


def test_ablations_multiply_the_load() -> None:
    unicast = plan("all-to-all", multicast=False)
    assert all(stream.edges == () for stream in unicast.period[0].streams)
    # Without multicast the busiest link carries a copy for each pair of cities behind it.
    assert unicast.prediction.t_ms == pytest.approx(
        104.88 + unicast.prediction.busiest_link_streams * STREAM_MS
    )
    host_sums = plan("all-to-all", 0, aggregation=False)
    assert host_sums.feasible
    assert host_sums.prediction.t_ms == pytest.approx(104.88 + 8 * STREAM_MS)
    assert set(host_sums.period[0].held_bytes.values()) == {0}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("memory_bytes", [0, 0.3e9, 32e9])
def test_plans_pass_the_independent_checker(name: str, memory_bytes: float) -> None:
    for multicast in (True, False):
        for aggregation in (True, False):
            made = plan(name, memory_bytes, multicast=multicast, aggregation=aggregation)
            if made.feasible:
                assert check_plan(made) == []
            else:
                assert (name, memory_bytes, aggregation) == ("all-to-all", 0, True)


@settings(max_examples=40)
@given(data=st.data())
def test_any_plan_passes_the_independent_checker(data: st.DataObject) -> None:
    topology = data.draw(networks())
    rounds = tuple(
        data.draw(rounds_of(topology.codes)) for _ in range(data.draw(st.integers(1, 2)))
    )
    payload_bytes = data.draw(st.sampled_from([1e4, 1e7, 2e9, 1e11]))
    share = data.draw(st.sampled_from([0.0, 0.01, 0.3, 1.0, 5.0]))
    made = make_plan(
        topology,
        Schedule("drawn", rounds),
        payload_bytes=payload_bytes,
        memory_bytes=share * payload_bytes,
        multicast=data.draw(st.booleans()),
        aggregation=data.draw(st.booleans()),
    )
    faults = check_plan(made)
    if made.feasible:
        assert faults == []
    else:
        assert faults
        assert all("in a memory of" in fault for fault in faults)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payload_bytes": 0}, "payload must be a number above 0, not 0"),
        ({"payload_bytes": math.nan}, "payload must be a number above 0, not nan"),
        ({"payload_bytes": math.inf}, "payload"),
        ({"scale": 0}, "scale must be a number above 0"),
        ({"scale": -1}, "scale"),
        ({"memory_bytes": -1}, "memory must be a number of bytes, 0 or more, not -1"),
        ({"memory_bytes": math.inf}, "memory"),
        ({"rounds": 0}, "rounds must be 1 or more, not 0"),
        ({"trees": "least_load"}, 'unknown trees "least_load"; did you mean "least-load"?'),
        ({"trees": "least-load", "multicast": False}, "least-load trees need multicast"),
        ({"schedule": Schedule("x", ())}, 'schedule "x": a schedule has one round or more'),
        ({"schedule": Schedule("x", ((("nyc", "nyx"),),))}, 'did you mean "nyc"?'),
        ({"schedule": Schedule("x", ((("nyc", "chi"), ("chi", "lax")),))}, '"chi" appears twice'),
    ],
)
def test_values_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    values: dict[str, object] = {
        "schedule": load_schedule("regional", NINE),
        "payload_bytes": PAYLOAD_BYTES,
        "memory_bytes": 0,
        **changes,
    }
    with pytest.raises(InputError) as caught:
        make_plan(NINE, **values)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_four_named_schedules_are_planned_in_seconds() -> None:
    start = time.process_time()
    for name in NAMED:
        plan.__wrapped__(name)
        plan.__wrapped__(name, 0)
    assert time.process_time() - start < 5


def test_another_process_makes_the_same_plan() -> None:
    code = (
        "from controller.planner import make_plan;"
        "from controller.schedule import load_schedule;"
        "from testbed.topology import load_topology;"
        "t = load_topology('nine-cities');"
        "print(make_plan(t, load_schedule('triangles', t), payload_bytes=1.79e9,"
        " memory_bytes=32e9, scale=100, rounds=4).model_dump_json())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == plan("triangles").model_dump_json()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (12, "12 B"),
        (264e6, "264 MB"),
        (1.79e9, "1.79 GB"),
        (32e9, "32 GB"),
        (1500, "1.5 kB"),
    ],
)
def test_bytes_are_written_short(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_known_trees_are_used_where_they_are_better_and_only_there() -> None:
    """Trees of a search, for a round whose shortest paths load one link with three streams."""
    settings = {"payload_bytes": PAYLOAD_BYTES, "memory_bytes": 32e9}
    schedule = load_schedule("triangles", NINE)
    cliques = [[NINE.index(code) for code in clique] for clique in schedule.rounds[1]]
    better = TreeChooser(route(NINE), Demand(PAYLOAD_BYTES, 32e9), "best").choose(cliques)
    plain = make_plan(NINE, schedule, **settings, trees="shortest-path")
    told = make_plan(NINE, schedule, **settings, trees="shortest-path", known=[(), better.trees])
    assert plain.prediction.t_ms == pytest.approx(534.48)
    assert told.prediction.t_ms == pytest.approx(443.495)
    assert told.trees == "shortest-path, searched"
    worse = shortest_path_trees(route(NINE), cliques)
    again = make_plan(NINE, schedule, **settings, known=[(), worse])
    assert again.prediction.t_ms == pytest.approx(443.495)
    assert "searched" not in again.trees


def test_without_exactness_large_networks_get_trees_from_a_heuristic() -> None:
    topology = make_topology(16, seed=1)
    rounds = ((topology.codes[:8], topology.codes[8:]),)
    quick = make_plan(
        topology, Schedule("halves", rounds), payload_bytes=2e9, memory_bytes=32e9, exact=False
    )
    assert quick.feasible
    assert "heuristic" in quick.trees
    assert check_plan(quick) == []

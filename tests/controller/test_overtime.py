"""Rates that change over time, unpaced senders, striping, what trees gain."""

import pytest
from made_networks import NINE, PAYLOAD_BYTES, STREAM_MS, indices

from controller.check import check_plan
from controller.demand import Demand
from controller.fluid import unpaced_round
from controller.multicast import shortest_path_trees
from controller.plan import Plan
from controller.planner import make_plan
from controller.roundtiming import RoundTiming
from controller.schedule import Schedule, load_schedule
from controller.staggered import busiest_bound_ms, staggered
from controller.striping import stripe
from controller.timeline import Timeline, time_varying
from controller.timing import time_demand
from controller.treegain import ranking, tree_gains
from controller.treeset import TreeCatalogue
from testbed.errors import InputError
from testbed.routing import route
from testbed.topology import City, Link, Topology

ROUTING = route(NINE)
CROSS = indices(load_schedule("triangles", NINE).rounds[1])
SHORT = shortest_path_trees(ROUTING, CROSS)
AMPLE = Demand(PAYLOAD_BYTES, 32e9)


def plan(name: str, rates: str, trees: str = "shortest-path", memory_bytes: float = 32e9) -> Plan:
    return make_plan(
        NINE,
        load_schedule(name, NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=memory_bytes,
        trees=trees,
        rates=rates,
    )


def crossing() -> tuple[Topology, Schedule]:
    """Two pairs on a line of four cities, 10 ms apart; both cross the middle link."""
    cities = tuple(City(code=f"c{i}", name="C", region="r", lat=0, lon=0) for i in range(4))
    links = tuple(Link(a=f"c{i}", b=f"c{i + 1}", delay_ms=10, delay_back_ms=10) for i in range(3))
    topology = Topology(name="line", cities=cities, links=links)
    return topology, Schedule("crossing", ((("c0", "c3"), ("c1", "c2")),))


def test_the_fluid_by_hand() -> None:
    """Middle link: c1 alone for 10 ms, both at half rate, then the rest of c0."""
    topology, schedule = crossing()
    members = [[topology.index(code) for code in clique] for clique in schedule.rounds[0]]
    trees = shortest_path_trees(route(topology), members)
    found = unpaced_round(topology, trees, PAYLOAD_BYTES)
    # The link is never idle: 2 × 143.2, and 20 ms more to the end for the last of c0.
    assert found.t_ms == pytest.approx(2 * STREAM_MS + 20, abs=0.1)
    later = unpaced_round(
        topology, trees, PAYLOAD_BYTES, starts_ms={0: 0.0, 3: 0.0, 1: 140.0, 2: 140.0}
    )
    # c0 reaches the link first, c1 goes last and has 10 ms left: 10 + 2 × 143.2 + 10.
    assert later.t_ms == pytest.approx(2 * STREAM_MS + 20, abs=4.5)


@pytest.mark.parametrize(
    ("name", "fluid_ms", "emulated_ms"), [("triangles", 464.77, 468), ("all-to-all", 735.07, 739)]
)
def test_unpaced_rounds_are_what_a_quick_emulation_measured(
    name: str, fluid_ms: float, emulated_ms: float
) -> None:
    """Published: 468 and 739 ms on packets; the fluid lacks their headers and bursts."""
    members = indices(load_schedule(name, NINE).rounds[-1])
    found = unpaced_round(NINE, shortest_path_trees(ROUTING, members), PAYLOAD_BYTES)
    assert found.t_ms == pytest.approx(fluid_ms, abs=0.1)
    assert found.t_ms == pytest.approx(emulated_ms, rel=0.01)


def test_chosen_starts_beat_the_unpaced_triangles_and_nothing_beats_them() -> None:
    found = staggered(NINE, SHORT, AMPLE)
    assert found is not None
    # NYC–LON carries three streams from 0 on; the last byte then has 32.125 ms left.
    assert found.bound_ms == pytest.approx(3 * STREAM_MS + 32.125)
    assert found.round.t_ms == pytest.approx(found.bound_ms, abs=0.1)
    made = plan("triangles", "unpaced")
    assert made.prediction.t_ms < 464.7
    assert made.period[1].queued
    assert check_plan(made) == []
    late = made.period[1].model_copy(update={"t_ms": made.period[1].t_ms - 20})
    faults = check_plan(made.model_copy(update={"period": (made.period[0], late)}))
    assert any("through queues" in fault for fault in faults)


def test_unpaced_all_to_all_cannot_be_beaten_on_shortest_paths() -> None:
    trees = shortest_path_trees(ROUTING, [list(range(9))])
    found = unpaced_round(NINE, trees, PAYLOAD_BYTES)
    assert found.t_ms == pytest.approx(busiest_bound_ms(NINE, trees, AMPLE), abs=0.1)


def test_a_small_memory_keeps_senders_from_being_unpaced() -> None:
    assert staggered(NINE, SHORT, Demand(PAYLOAD_BYTES, 0.3e9)) is None
    assert plan("triangles", "unpaced", memory_bytes=0.3e9).prediction.t_ms == pytest.approx(
        plan("triangles", "per-stream", memory_bytes=0.3e9).prediction.t_ms
    )


@pytest.mark.parametrize("memory_bytes", [32e9, 0.3e9])
def test_time_varying_rates_hold_along_the_timeline(memory_bytes: float) -> None:
    varying = plan("triangles", "time-varying", memory_bytes=memory_bytes)
    constant = plan("triangles", "per-stream", memory_bytes=memory_bytes)
    assert check_plan(varying) == []
    assert varying.prediction.t_ms < constant.prediction.t_ms - 5
    assert any(stream.pieces for stream in varying.period[1].streams)


def test_without_memory_time_varying_rates_still_align() -> None:
    varying = plan("triangles", "time-varying", memory_bytes=0)
    assert check_plan(varying) == []
    assert (
        varying.prediction.t_ms <= plan("triangles", "per-stream", memory_bytes=0).prediction.t_ms
    )


def test_queues_free_the_other_branches_of_a_tree() -> None:
    paced = time_varying(NINE, SHORT, AMPLE, slots=20, close_ms=1)
    queued = time_varying(NINE, SHORT, AMPLE, slots=20, close_ms=1, queues=True)
    assert isinstance(paced, Timeline)
    assert isinstance(queued, Timeline)
    assert busiest_bound_ms(NINE, SHORT, AMPLE) <= queued.t_ms < paced.t_ms - 30


def test_what_time_varying_rates_refuse() -> None:
    with pytest.raises(InputError, match="without a resend window"):
        time_varying(NINE, SHORT, Demand(PAYLOAD_BYTES, 32e9, resend_ms=1.0))
    trees = shortest_path_trees(ROUTING, [list(range(9))])
    refused = time_varying(NINE, trees, Demand(PAYLOAD_BYTES, 0.0))
    assert isinstance(refused, RoundTiming)
    assert refused.shortfall is not None


def test_stripes_gain_nothing_where_cuts_decide_and_half_where_they_do_not() -> None:
    found = stripe(TreeCatalogue(NINE), CROSS, AMPLE)
    assert found.t_ms == pytest.approx(157.095 + 2 * STREAM_MS)
    # Two parallel links: half the payload on each, if the access link allows it.
    cities = tuple(
        City(code=code, name="C", region="r", lat=0, lon=0, access_rate_gbps=400)
        for code in ("aa", "bb")
    )
    links = tuple(Link(a="aa", b="bb", delay_ms=d, delay_back_ms=d) for d in (5, 8))
    topology = Topology(name="two", cities=cities, links=links)
    two = stripe(TreeCatalogue(topology), [[0, 1]], AMPLE)
    assert two.t_ms == pytest.approx(8 + STREAM_MS / 2)
    alone = time_demand(topology, shortest_path_trees(route(topology), [[0, 1]]), AMPLE)
    assert alone.t_ms == pytest.approx(5 + STREAM_MS)
    for stripes in two.stripes.values():
        assert sum(share for _, share in stripes) == pytest.approx(1)


def test_better_trees_change_the_ranking() -> None:
    """With 32 GB the paper has All-to-All first; on the best trees Triangles are."""
    schedules = [load_schedule(name, NINE) for name in ("triangles", "all-to-all")]
    rows = tree_gains(
        NINE,
        schedules,
        payload_bytes=PAYLOAD_BYTES,
        memories_bytes=[0.0, 32e9],
        families=("shortest-path", "best"),
    )
    assert ranking(rows, "shortest-path", 0.0) == ["triangles"]
    assert ranking(rows, "best", 0.0) == ["triangles"]
    assert ranking(rows, "best", 32e9) == ["triangles", "all-to-all"]
    gained = {(row.schedule, row.trees, row.memory_bytes): row.objective_ms for row in rows}
    assert gained["triangles", "best", 32e9] == pytest.approx(2 * 443.495, abs=0.1)
    assert gained["all-to-all", "best", 32e9] == pytest.approx(1.5 * 682.79, abs=0.1)

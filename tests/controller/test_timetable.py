"""A controller that starts at any time finds the rounds that one from the beginning would have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import load_schedule
from controller.timetable import Timetable
from testbed.topology import load_topology

NINE = load_topology("nine-cities")
START_NS = 1_000_000_007
BEFORE_NS = 0


@pytest.fixture(scope="module")
def plan() -> Plan:
    schedule = load_schedule("triangles", NINE)
    made = make_plan(
        NINE, schedule, payload_bytes=1e8, memory_bytes=1e12, rounds=5, trees="shortest-path"
    )
    return made.model_copy(update={"round_interval_ms": 10.0})


def test_rounds_come_one_early_and_go_half_a_round_late(plan: Plan) -> None:
    changes = list(Timetable(plan, 0).changes(-1))
    assert changes[:4] == [
        (0, 1, None),
        (10_000_000, 2, None),
        (15_000_000, None, 0),
        (20_000_000, 3, None),
    ]
    assert changes[-1] == (45_000_000, None, 3)


def test_before_the_start_is_known_only_round_0_is_there(plan: Plan) -> None:
    times = Timetable(plan, None)
    assert (list(times.live(5)), times.current(5), list(times.changes(5))) == ([0], -1, [])
    assert not times.started


@given(after_ns=st.integers(-20_000_000, 80_000_000))
def test_a_late_start_goes_on_where_an_early_one_would_be(plan: Plan, after_ns: int) -> None:
    times, now_ns = Timetable(plan, START_NS), START_NS + after_ns
    live = set(Timetable(plan, None).live(0))
    left = []
    for due_ns, entering, leaving in times.changes(BEFORE_NS):
        if due_ns > now_ns:
            left.append((due_ns, entering, leaving))
            continue
        live |= {entering} - {None}
        live -= {leaving}
    assert set(times.live(now_ns)) == live
    assert list(times.changes(now_ns)) == left


def test_packets_are_on_their_way_as_long_as_the_longest_tree(plan: Plan) -> None:
    longest_ms = max(d for r in plan.period for s in r.streams for d in s.delays_ms.values())
    assert Timetable(plan, 0).drain_s == pytest.approx(longest_ms / 1e3)

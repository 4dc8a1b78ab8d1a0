"""What follows from a plan for one agent."""

from pathlib import Path
from typing import Any

import pytest
from agent_plans import make_plan

from agents.context import AgentContext
from controller.plan import Plan
from controller.planner import make_plan as plan_schedule
from controller.schedule import load_schedule
from testbed.errors import InputError
from testbed.topology import load_topology


def context(plan: Plan, city: int = 0, **options: Any) -> AgentContext:
    return AgentContext(plan=plan, city=city, start_ns=10**9, out_dir=Path(), **options)


def test_expectations() -> None:
    plan = make_plan(rounds=2, interval_ms=250, multicast=True)
    ctx = context(plan, city=1)
    first, second = ctx.expectations
    assert (first.senders, first.mask, first.clique) == ((0, 2), 0b101, 0)
    assert second.start_ns - first.start_ns == 250_000_000
    assert ctx.groups(1) == [("239.0.1.1", 5000), ("239.0.1.3", 5000)]
    assert context(make_plan(), city=1).groups(0) == []


def test_payload_is_divided_by_the_scale() -> None:
    assert context(make_plan(blocks=7, scale=100)).layout.blocks == 7


def test_deadline_is_the_end_of_the_last_round_plus_timeout_plus_a_second() -> None:
    ctx = context(make_plan(rounds=3, interval_ms=200), timeout_ms=50)
    assert ctx.deadline_ns == 10**9 + 600_000_000 + 50_000_000 + 10**9


def test_all_cities_agree_on_the_job_and_another_seed_is_another_job() -> None:
    plan = make_plan()
    assert context(plan, 0).job_id == context(plan, 2).job_id
    assert context(plan, seed=1).job_id != context(plan, seed=2).job_id


@pytest.mark.parametrize(
    ("mtu_bytes", "burst", "wrong"),
    [(9000, 7, False), (9000, 8, True), (1500, 0, True), (65535, 2, True), (65535, 1, False)],
)
def test_a_burst_must_fit_one_call(mtu_bytes: int, burst: int, wrong: bool) -> None:
    plan = make_plan(blocks=100)
    if wrong:
        with pytest.raises(InputError, match=f"burst_datagrams is {burst}"):
            context(plan, mtu_bytes=mtu_bytes, burst_datagrams=burst)
    else:
        context(plan, mtu_bytes=mtu_bytes, burst_datagrams=burst)


def test_the_ring_takes_its_share_of_the_memory_at_the_access_rate() -> None:
    plan = make_plan(memory_bytes=4e9, scale=10)
    assert context(plan).resend_bytes == 0
    ctx = context(plan, resend_ms=20.0)
    assert ctx.recovers
    assert ctx.memory_bytes == 4e8
    assert ctx.resend_bytes == pytest.approx(20e-3 * 100e9 / 8 / 10)
    assert not context(make_plan(aggregation=False), resend_ms=20.0).recovers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resend_ms": -1.0}, "resend_ms must be a number, 0 or more, not -1"),
        ({"resend_ms": float("nan")}, "resend_ms must be a number, 0 or more, not nan"),
        ({"repair": True}, "repair needs recovery: set resend_ms"),
        (
            {"resend_ms": 90.0},
            r"resend_ms: 90 ms × 100 Gbit/s of nyc = 1125000000 bytes to keep, more than the "
            r"aggregator's memory of 1000000000 bytes \(both at scale 1\); lower",
        ),
    ],
)
def test_what_recovery_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        context(make_plan(), **options)


def test_the_planner_counts_the_resend_buffer_as_the_agents_do() -> None:
    topology = load_topology("nine-cities")
    schedule = load_schedule("triangles", topology)
    planned = plan_schedule(
        topology, schedule, payload_bytes=1e8, memory_bytes=32e9, resend_ms=12.5
    )
    for city, code in enumerate(topology.codes):
        own = context(planned, city, resend_ms=planned.resend_ms)
        assert own.resend_bytes * planned.scale == planned.period[0].resend_bytes[code] > 0

"""The schedules that come with the experiments, planned at the default payload."""

from pathlib import Path

import pytest
from made_networks import NINE, PAYLOAD_BYTES

from controller.check import check_plan
from controller.planner import make_plan
from controller.schedule import load_schedule

SCHEDULES = Path(__file__).parents[2] / "experiments" / "schedules"


@pytest.mark.parametrize(
    ("name", "memory_bytes", "t_ms", "lifetime"),
    [
        ("best-32gb", 32e9, 233.43, 1 + 1.5**0.5),
        ("best-no-memory", 0.0, 234.125, 1 + 1.5**0.5),
        ("pairs-four-rounds", 0.0, 236.28, 2.6621),
        ("pairs-three-rounds", 0.0, 215.825, 2.9375),
    ],
)
def test_one_stream_on_each_link(
    name: str, memory_bytes: float, t_ms: float, lifetime: float
) -> None:
    schedule = load_schedule(SCHEDULES / f"{name}.yaml", NINE)
    assert schedule.name == name
    plan = make_plan(NINE, schedule, payload_bytes=PAYLOAD_BYTES, memory_bytes=memory_bytes)
    assert plan.feasible
    assert not check_plan(plan)
    assert plan.prediction.busiest_link_streams == 1
    # Found by the optimiser, and by hand: one stream's 143.2 ms and the largest delay.
    assert plan.prediction.t_ms == pytest.approx(t_ms, abs=0.02)
    assert plan.prediction.a_rms == pytest.approx(lifetime, abs=1e-4)

"""What a run's times are held against."""

import pytest

from experiments.verdict import Promise, RoundTime, check_times
from testbed.findings import judge

PLAN = Promise(feasible=True)
FAULTS = Promise(feasible=True, asked=True)
REFUSED = Promise(feasible=False)


@pytest.mark.parametrize(
    ("measured_ms", "promise", "verdict"),
    [
        (100.5, PLAN, "PASS"),
        (90.0, PLAN, "FAIL"),
        (110.0, PLAN, "FAIL"),
        (None, PLAN, "FAIL"),
        (110.0, FAULTS, "PASS"),  # recovery takes its time
        (90.0, FAULTS, "DEGRADED"),  # what never came is not waited for
        (None, FAULTS, "DEGRADED"),
        (90.0, REFUSED, "DEGRADED"),
        (110.0, REFUSED, "DEGRADED"),
    ],
)
def test_asked_faults_may_change_t_and_nothing_else_may(
    measured_ms: float | None, promise: Promise, verdict: str
) -> None:
    assert judge(check_times([RoundTime(0, 100.0, measured_ms)], promise, 1.0)) == verdict

"""The timer slack of a thread is what it was after a block that needs precise timers."""

from testbed.timers import precise_timers, set_timer_slack


def test_timers_are_precise_within_a_block_only() -> None:
    before_ns = set_timer_slack(30_000)
    with precise_timers():
        assert set_timer_slack(1) == 1
    assert set_timer_slack(before_ns) == 30_000

"""How late the kernel may wake a thread up (prctl(2), PR_SET_TIMERSLACK)."""

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.libc import check, libc

_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30


def set_timer_slack(slack_ns: int) -> int:
    """Let this thread's timers fire so late at most, not 50 µs; returns what it was before.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    call = libc().prctl
    before_ns: int = call(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    check(call(_PR_SET_TIMERSLACK, slack_ns, 0, 0, 0), "set the timer slack")
    return before_ns


@contextmanager
def precise_timers() -> Iterator[None]:
    """Let this thread wake up when it asked to, for the length of a block."""
    before_ns = set_timer_slack(1)
    try:
        yield
    finally:
        set_timer_slack(before_ns)

"""What is to happen at given times of a run, to the nanosecond of its clock."""

import heapq
import time
from collections.abc import Callable

from testbed.errors import CliquenetError
from testbed.processes import Supervisor

Action = Callable[[], None]

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
_SLACK_NS = 60_000
"""A sleep may end later than asked by the timer slack of a process, 50 µs."""
_EARLY_FRACTION = 256
"""Linux ends a wait on descriptors late by up to a thousandth of it; so ours end early."""
_PRECISE_NS = 20 * NS_PER_MS
"""Before an action nothing but its time is waited for: a wait on descriptors that is
about as short as a tick of the kernel, 10 ms, may end a part of one late."""


class Agenda:
    """Actions by their time; in between, the supervisor looks after the processes."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._actions: list[tuple[int, int, Action]] = []
        self._count = 0

    def at(self, time_ns: int, action: Action) -> None:
        """Do something at a time of the monotonic clock; at once, if it is past."""
        heapq.heappush(self._actions, (time_ns, self._count, action))
        self._count += 1

    def run(self, done: Callable[[], bool], limit_ns: int, what: str) -> None:
        """Do what is due, until a condition holds; actions that are left are dropped.

        Raises
        ------
        CliquenetError
            The condition did not hold by ``limit_ns``, or an action or a process failed.
        """
        while not done():
            now_ns = time.monotonic_ns()
            due_ns = self._actions[0][0] if self._actions else limit_ns
            if now_ns >= limit_ns:
                raise CliquenetError(f"{what}: not in time")
            if now_ns < due_ns:
                self._wait(min(due_ns, limit_ns) - now_ns)
            else:
                # Sleeps that are precise leave unseen what happened to the children.
                self._supervisor.step(0.0)
                heapq.heappop(self._actions)[2]()

    def _wait(self, left_ns: int) -> None:
        """Wait for the supervisor's children, but never beyond the given time."""
        whole_ms = (left_ns - max(left_ns // _EARLY_FRACTION, _PRECISE_NS)) // NS_PER_MS
        if whole_ms > 0:
            self._supervisor.step(whole_ms / 1000)
        elif left_ns > _SLACK_NS:
            time.sleep((left_ns - _SLACK_NS) / NS_PER_S)
        # Else the caller's look at the clock is wait enough.

"""When the rules of each round come and go."""

from collections.abc import Iterator

from controller.plan import Plan

_NS_PER_MS = 1_000_000


class Timetable:
    """Times of a run's rounds.

    The rules of round 0 are there from the beginning; those of any other come when the
    round before it begins, and go half an interval after the next one has begun. Those
    of the last round stay.

    Parameters
    ----------
    plan
        The run.
    start_ns
        Start of round 0, CLOCK_MONOTONIC; None if it is not known yet.
    """

    def __init__(self, plan: Plan, start_ns: int | None) -> None:
        self._rounds = plan.rounds
        self._interval_ns = round(plan.round_interval_ms * _NS_PER_MS)
        self._start_ns = start_ns
        delays_ms = (d for r in plan.period for s in r.streams for d in s.delays_ms.values())
        self.drain_s = max(delays_ms, default=0.0) / 1e3
        """How long packets are on their way at most."""

    @property
    def started(self) -> bool:
        """Whether the start is known."""
        return self._start_ns is not None

    def current(self, now_ns: int) -> int:
        """The latest round that has begun, −1 before the first."""
        if self._start_ns is None:
            return -1
        return max(-1, min(self._rounds - 1, (now_ns - self._start_ns) // self._interval_ns))

    def live(self, now_ns: int) -> range:
        """Rounds whose rules should be there."""
        if self._start_ns is None:
            return range(1)
        past = (now_ns - self._start_ns - self._interval_ns // 2) // self._interval_ns
        first = max(0, min(self._rounds - 1, past))
        return range(first, min(self._rounds, self.current(now_ns) + 2))

    def changes(self, since_ns: int) -> Iterator[tuple[int, int | None, int | None]]:
        """What changes after a time: when, and the round that comes or the one that goes."""
        if self._start_ns is None:
            return
        for k in range(self._rounds):
            begin_ns = self._start_ns + k * self._interval_ns
            half_ns = begin_ns + self._interval_ns // 2
            if begin_ns > since_ns and k + 1 < self._rounds:
                yield begin_ns, k + 1, None
            if half_ns > since_ns and k > 0:
                yield half_ns, None, k - 1

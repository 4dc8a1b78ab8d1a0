"""Which rounds are live: at most two, so that late packets of one still find it open.

Half an interval after a round's start its predecessor is closed and its
successor is opened, at the time when the controller swaps their trees.
"""

from agents.context import AgentContext

NEVER_NS = 1 << 62


class RoundWindow:
    """Opens and closes rounds as time goes by; round 0 is open from the beginning.

    Attributes
    ----------
    due_ns
        CLOCK_MONOTONIC time of the next change.
    """

    def __init__(self, ctx: AgentContext) -> None:
        self._rounds = ctx.plan.rounds
        self._interval_ns = ctx.interval_ns
        self._current = 0
        self.due_ns = ctx.start_ns + self._interval_ns // 2

    def advance(self, now_ns: int) -> list[tuple[int | None, int | None]]:
        """Changes that are due: (round to close, round to open), in order."""
        changes: list[tuple[int | None, int | None]] = []
        while self.due_ns <= now_ns:
            k = self._current
            closing = k - 1 if k > 0 else None
            opening = k + 1 if k + 1 < self._rounds else None
            changes.append((closing, opening))
            self._current += 1
            self.due_ns = self.due_ns + self._interval_ns if opening is not None else NEVER_NS
        return changes

"""Which blocks should have been complete by now, as senders send them in order (ours).

A block that lacks something although a later one has been complete for a while lost it
before the aggregator, which does not know and holds the rest until its time-out.
"""

from agents.recovery.gaps import NEVER_NS

OVERDUE_NS = 10_000_000
"""How long after a later block; a gap on the last hop closes well before."""


class Overdue:
    """Follows the complete blocks of one round.

    Attributes
    ----------
    due_ns
        When `poll` has something to say.
    """

    def __init__(self) -> None:
        self.due_ns = NEVER_NS
        self._end = 0
        self._marked = 0

    def complete(self, end: int, now_ns: int) -> None:
        """A complete sum came of the block before ``end``."""
        if end <= self._end:
            return
        self._end = end
        if self.due_ns == NEVER_NS:
            self._marked = end
            self.due_ns = now_ns + OVERDUE_NS

    def poll(self, now_ns: int) -> int:
        """Blocks below the number returned are overdue; 0 as long as `due_ns` has not come."""
        if now_ns < self.due_ns:
            return 0
        overdue, self._marked = self._marked, self._end
        self.due_ns = now_ns + OVERDUE_NS if self._marked > overdue else NEVER_NS
        return overdue

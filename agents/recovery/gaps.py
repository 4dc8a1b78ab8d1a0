"""The receiver's side of recovery: which datagrams are missing, and when to ask for them.

A pure state machine; numbers are unwrapped, times come from the caller. It is
for one sequence: a sender that starts anew needs a new tracker.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.recovery.bucket import TokenBucket
from agents.recovery.rto import Rto
from agents.recovery.serial import WRAP, unwrap

NEVER_NS = 1 << 62
WAIT_NS = 500_000
"""How long a gap may be mere reordering, and …"""
NEWER_DATAGRAMS = 3
"""… how many newer datagrams say that it is not."""
MAX_GAPS = 4096
"""Bounds the memory; beyond it the oldest gap is given up."""

Range = tuple[int, int]
"""First number, and count."""


@dataclass(frozen=True)
class Closed:
    """Datagrams that were missing and have come."""

    first: int
    count: int
    took_ns: int
    """Since they were noticed to be missing."""
    tries: int
    """How often they were asked for; 0: they were only late."""


@dataclass
class GapCounters:
    """What happened to a sequence, in datagrams."""

    noticed: int = 0
    """Missing when a newer one, or word of one, came."""
    overflowed: int = 0
    """Of these, reached this host, whose socket was full: whatever was noticed in the
    first buffer after that."""
    late: int = 0
    """Of those noticed, came without being asked for."""
    recovered: int = 0
    """Of those noticed, came after being asked for."""
    unavailable: int = 0
    """Of those noticed, nobody has any more."""
    requested: int = 0
    """Asked for, repetitions included."""
    duplicate: int = 0
    """Came more than once."""


@dataclass(eq=False)
class _Gap:
    """Consecutive missing datagrams, first … end − 1, with one history."""

    first: int
    end: int
    noticed_ns: int
    received_before: int
    due_ns: int
    tries: int = 0
    asked_ns: int = 0
    measured: bool = False
    given_up: bool = False


class GapTracker:
    """Watches one sequence of datagrams.

    Parameters
    ----------
    rto, bucket
        When to ask again, and how much may be asked for.
    counters
        Totals, of earlier sequences too.

    Attributes
    ----------
    next_seq
        One more than the highest number that is known to have been sent.
    pending
        Datagrams that are missing and still hoped for.
    due_ns
        When `poll` has something to do.
    """

    def __init__(self, rto: Rto, bucket: TokenBucket, counters: GapCounters) -> None:
        self.next_seq = 0
        self.pending = 0
        self.due_ns = NEVER_NS
        self.counters = counters
        self._rto = rto
        self._bucket = bucket
        self._begun = False
        self._received = 0
        self._gaps: list[_Gap] = []
        self._unasked: deque[_Gap] = deque(maxlen=MAX_GAPS)
        self._closed: list[Closed] = []

    def arrive(self, wire_seq: int, count: int, now_ns: int) -> Sequence[Range]:
        """Take note of consecutive datagrams.

        Parameters
        ----------
        wire_seq, count
            Number of the first as it came, 32 bits; and how many.
        now_ns
            Time of arrival.

        Returns
        -------
        sequence of (offset, count)
            Those that had not come before.
        """
        first = unwrap(wire_seq, self.next_seq) if self._begun else wire_seq
        self._begun = True
        end, known = first + count, self.next_seq
        new: list[Range] = []
        if first < known:
            new = self._close(first, min(end, known), now_ns)
        if end > known:
            start = max(first, known)
            self._miss(start, now_ns)
            new.append((start, end - start))
            self.next_seq = end
        arrived = sum(part for _, part in new)
        self._received += arrived
        self.counters.duplicate += count - arrived
        self._hurry(now_ns)
        self._bound()
        return [(seq - first, part) for seq, part in new]

    def announce(self, wire_next: int, wire_oldest: int, now_ns: int) -> tuple[int, int]:
        """Take note of what the sender says: the number it uses next, and the oldest it holds.

        It says so after all that it has sent, by the same way: what misses then is late
        no more, and is asked for at once.

        Returns
        -------
        tuple of int
            The number used next, unwrapped; and how many missing datagrams are older
            than the oldest that is held: they are given up.
        """
        upcoming = unwrap(wire_next, self.next_seq) if self._begun else wire_next
        self._begun = True
        self._miss(upcoming, now_ns)
        self.next_seq = max(self.next_seq, upcoming)
        self._bound()
        self._unasked.clear()
        for gap in self._gaps:
            self._make_due(gap, now_ns)
        oldest = upcoming - (wire_next - wire_oldest) % WRAP
        return upcoming, self._give_up(self._gaps[0].first, oldest) if self._gaps else 0

    def unavailable(self, wire_seq: int, count: int) -> int:
        """Stop hoping for datagrams; how many of them were missing."""
        first = unwrap(wire_seq, self.next_seq)
        return self._give_up(first, first + count)

    def abandon(self) -> int:
        """Stop hoping for anything: the sequence has ended; how many were missing."""
        return self._give_up(0, self.next_seq)

    def settled(self, seq: int) -> bool:
        """Whether everything below a number has come or been given up."""
        return seq <= self.next_seq and all(gap.given_up or gap.first >= seq for gap in self._gaps)

    def poll(self, now_ns: int) -> list[Range]:
        """Ranges to ask for now; numbers of 32 bits."""
        if now_ns < self.due_ns:
            return []
        asked: list[Range] = []
        for gap in tuple(self._gaps):
            if gap.due_ns > now_ns:
                continue
            granted = self._bucket.take(gap.end - gap.first, now_ns)
            if granted == 0:
                break
            if granted < gap.end - gap.first:
                self._split(gap, gap.first + granted)
            if gap.tries:
                self._rto.back_off(now_ns)
            gap.tries += 1
            gap.asked_ns = now_ns
            gap.due_ns = now_ns + self._rto.timeout_ns(gap.tries)
            asked.append((gap.first, granted))
        self.counters.requested += sum(count for _, count in asked)
        due_ns = min((gap.due_ns for gap in self._gaps), default=NEVER_NS)
        self.due_ns = due_ns if due_ns > now_ns else self._bucket.ready_ns(now_ns)
        return [(first % WRAP, count) for first, count in asked]

    def closed(self) -> list[Closed]:
        """What has been closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def _miss(self, end: int, now_ns: int) -> None:
        """Notice that the numbers up to ``end`` have been left out."""
        first = self.next_seq
        if end <= first:
            return
        gap = _Gap(first, end, now_ns, self._received, now_ns + WAIT_NS)
        self._gaps.append(gap)
        self._unasked.append(gap)
        self.pending += end - first
        self.counters.noticed += end - first
        self.due_ns = min(self.due_ns, gap.due_ns)

    def _bound(self) -> None:
        """Give the oldest gaps up where there are too many."""
        surplus = len(self._gaps) - MAX_GAPS
        if surplus > 0:
            self._give_up(self._gaps[0].first, self._gaps[surplus - 1].end)
            del self._gaps[:surplus]

    def _hurry(self, now_ns: int) -> None:
        """Make gaps due that enough newer datagrams have passed."""
        while self._unasked:
            if self._received - self._unasked[0].received_before < NEWER_DATAGRAMS:
                return
            self._make_due(self._unasked.popleft(), now_ns)

    def _make_due(self, gap: _Gap, now_ns: int) -> None:
        """Let a gap be asked for now, unless it was already, or is given up."""
        if not gap.tries and not gap.given_up:
            gap.due_ns = min(gap.due_ns, now_ns)
            self.due_ns = min(self.due_ns, now_ns)

    def _close(self, first: int, end: int, now_ns: int) -> list[Range]:
        """Take the missing ones of first … end − 1 off the list; returns them."""
        closed: list[Range] = []
        for gap in self._cut(first, end):
            count = gap.end - gap.first
            closed.append((gap.first, count))
            self._closed.append(Closed(gap.first, count, now_ns - gap.noticed_ns, gap.tries))
            if gap.given_up:
                self.counters.unavailable -= count
            else:
                self.pending -= count
            if gap.tries:
                self.counters.recovered += count
            else:
                self.counters.late += count
            self._gaps.remove(gap)
            if gap.tries == 1 and not gap.measured:
                self._rto.sample(now_ns - gap.asked_ns)
            self._progress(gap, now_ns)
        return closed

    def _progress(self, answered: _Gap, now_ns: int) -> None:
        """Restart the timers of what was asked for together with a part that has come."""
        if not answered.tries:
            return
        for gap in self._gaps:
            if gap.asked_ns == answered.asked_ns and gap.tries and not gap.given_up:
                gap.measured = True
                gap.due_ns = now_ns + self._rto.timeout_ns(gap.tries)

    def _give_up(self, first: int, end: int) -> int:
        """Stop hoping for the missing ones of first … end − 1; how many there were."""
        lost = 0
        for gap in self._cut(first, end):
            if not gap.given_up:
                gap.given_up = True
                gap.due_ns = NEVER_NS
                lost += gap.end - gap.first
        self.pending -= lost
        self.counters.unavailable += lost
        return lost

    def _cut(self, first: int, end: int) -> list[_Gap]:
        """The gaps within first … end − 1, after cutting those that reach beyond."""
        for edge in (first, end):
            at = self._place(edge) - 1
            if at >= 0 and self._gaps[at].end > edge:
                self._split(self._gaps[at], edge)
        return self._gaps[self._place(first) : self._place(end)]

    def _place(self, seq: int) -> int:
        """Where the first gap is that begins with a number, or beyond."""
        return bisect_left(self._gaps, seq, key=lambda gap: gap.first)

    def _split(self, gap: _Gap, at: int) -> None:
        """Cut a gap in two; the upper part becomes a gap of its own."""
        upper = replace(gap, first=at)
        gap.end = at
        self._gaps.insert(self._place(at), upper)
        if not upper.tries:
            self._unasked.append(upper)

"""The sender's side of recovery: what to answer, and when to say where the stream stands.

Pure state machines; numbers are unwrapped, times come from the caller.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from agents.recovery.bucket import TokenBucket
from agents.recovery.gaps import NEVER_NS, Range
from agents.recovery.serial import unwrap


@dataclass
class ResendCounters:
    """What was asked for, in datagrams."""

    resent: int = 0
    gone: int = 0
    """Had left the ring."""
    ahead: int = 0
    """Had not been sent yet."""
    limited: int = 0
    """Not sent for being above the rate limit; whoever needs them asks again."""


class Answer(NamedTuple):
    """What follows from one request: ranges of unwrapped numbers."""

    resend: list[Range]
    gone: list[Range]


class Resender:
    """Answers requests from a ring of datagrams.

    Parameters
    ----------
    bucket
        How much may be sent again.
    """

    def __init__(self, bucket: TokenBucket) -> None:
        self.counters = ResendCounters()
        self._bucket = bucket

    def answer(
        self, wanted: Iterable[Range], oldest_seq: int, next_seq: int, now_ns: int
    ) -> Answer:
        """Sort a request into what can be sent again, and what is gone.

        However often a request names a number, it is answered once.

        Parameters
        ----------
        wanted
            Numbers of 32 bits, and counts.
        oldest_seq, next_seq
            What the ring holds.
        now_ns
            Time of the request.
        """
        answer = Answer([], [])
        counters = self.counters
        for first, count in merged((unwrap(seq, next_seq), count) for seq, count in wanted):
            end = first + count
            counters.ahead += max(0, end - max(first, next_seq))
            end = min(end, next_seq)
            held = max(first, oldest_seq)
            if first < min(end, oldest_seq):
                gone = min(end, oldest_seq) - first
                answer.gone.append((first, gone))
                counters.gone += gone
            if held < end:
                granted = self._bucket.take(end - held, now_ns)
                counters.limited += end - held - granted
                counters.resent += granted
                if granted:
                    answer.resend.append((held, granted))
        return answer


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Put ranges that overlap or touch together, ascending: no number is in two of them."""
    found: list[Range] = []
    for first, count in sorted(ranges):
        if found and first <= found[-1][0] + found[-1][1]:
            start = found[-1][0]
            found[-1] = start, max(found[-1][0] + found[-1][1], first + count) - start
        else:
            found.append((first, count))
    return found


class Heartbeat:
    """Says when the stream has been silent for long enough to tell where it stands.

    The pause doubles as long as nothing is sent.

    Parameters
    ----------
    first_ns, longest_ns
        Silence before the first heartbeat, and between two of them at most.

    Attributes
    ----------
    due_ns
        When the next one is to be sent.
    """

    def __init__(self, first_ns: int, longest_ns: int) -> None:
        self.due_ns = NEVER_NS
        self._first_ns = first_ns
        self._longest_ns = longest_ns
        self._pause_ns = first_ns
        self._next_seq = -1

    def watch(self, next_seq: int, now_ns: int) -> bool:
        """Whether a heartbeat is due, given the number that the stream uses next."""
        if next_seq != self._next_seq:
            self._next_seq = next_seq
            self._pause_ns = self._first_ns
            self.due_ns = now_ns + self._pause_ns
            return False
        if now_ns < self.due_ns:
            return False
        self._pause_ns = min(2 * self._pause_ns, self._longest_ns)
        self.due_ns = now_ns + self._pause_ns
        return True

    def hurry(self, now_ns: int) -> None:
        """Make one due now: somebody does not know where the stream stands."""
        self.due_ns = min(self.due_ns, now_ns)

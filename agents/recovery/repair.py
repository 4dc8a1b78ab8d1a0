"""What an island asks the senders themselves for, and when: blocks that no sum brings any more.

A pure state machine. It does not remember what is missing; at each request it is
told, so whatever came in the meantime by any way is not asked for again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.recovery.bucket import TokenBucket
from agents.recovery.gaps import NEVER_NS, WAIT_NS, Range
from agents.recovery.rto import Rto
from agents.weights import contributors

MAX_BLOCKS = 256
"""Blocks of one sender that may be asked for and still be to come: one that is slow, or
far away, is not asked for ever more."""

Seen = Callable[[int], npt.NDArray[np.uint64]]
"""Contributors that have come of each block of a live round; shape (blocks,)."""


@dataclass(frozen=True)
class Request:
    """Ask a sender for blocks of a round."""

    round: int
    source: int
    ranges: tuple[Range, ...]


class _Asked:
    """What was asked of one sender in one round; arrays of shape (blocks,)."""

    def __init__(self, blocks: int) -> None:
        self.due_ns = np.zeros(blocks, np.int64)
        self.asked_ns = np.zeros(blocks, np.int64)
        self.tries = np.zeros(blocks, np.int64)
        self.overtaken = np.zeros(blocks, np.bool_)
        self.refused = False
        self.full = False
        """Whether more is to be asked for as soon as an answer comes."""


@dataclass(frozen=True)
class _Round:
    """A live round."""

    lost: npt.NDArray[np.bool_]
    """Blocks that no aggregator completes any more, shape (blocks,)."""
    asked: dict[int, _Asked]


class Repairs:
    """Which blocks to ask which sender for.

    Parameters
    ----------
    seen
        What has come.
    timers
        Time-out of each sender, by city.
    bucket
        How many blocks may be asked for.

    Attributes
    ----------
    due_ns
        When `poll` has something to do.
    requested, refused
        Blocks asked for (repetitions included), and blocks that a sender could not give.
    """

    def __init__(self, seen: Seen, timers: Callable[[int], Rto], bucket: TokenBucket) -> None:
        self.due_ns = NEVER_NS
        self.requested = 0
        self.refused = 0
        self._seen = seen
        self._make_timer = timers
        self._timers: dict[int, Rto] = {}
        self._bucket = bucket
        self._rounds: dict[int, _Round] = {}

    def open_round(self, round_index: int, mask: int, blocks: int) -> None:
        """Take up a round; ``mask`` has a bit for each sender."""
        asked = {source: _Asked(blocks) for source in contributors(mask)}
        self._rounds[round_index] = _Round(np.zeros(blocks, np.bool_), asked)

    def close_round(self, round_index: int) -> None:
        """Forget a round."""
        self._rounds.pop(round_index, None)

    def lose(self, round_index: int, block: int, count: int, now_ns: int) -> None:
        """No sum completes these blocks any more; whatever they lack is to be asked for."""
        state = self._rounds.get(round_index)
        if state is None or state.lost[block : block + count].all():
            return
        state.lost[block : block + count] = True
        self.due_ns = min(self.due_ns, now_ns)

    def arrived(self, round_index: int, source: int, block: int, now_ns: int) -> None:
        """A block and perhaps the next ones came from a sender itself.

        It answers in the order in which it was asked: what should have come before these
        is lost, and asked for again without waiting for the time-out. Only once, and only
        by the answer to a first request: any other may be one to an earlier request.
        """
        state = self._rounds.get(round_index)
        asked = state.asked.get(source) if state else None
        if state is None or asked is None:
            return
        if asked.full:
            self.due_ns = min(self.due_ns, now_ns)
        if asked.tries[block] != 1:
            return
        asked_ns = asked.asked_ns[block]
        self._timer(source).sample(now_ns - int(asked_ns))
        missing = self._missing(round_index, state, source)
        missing = missing[asked.tries[missing] == 1]
        before = asked.asked_ns[missing] < asked_ns
        before |= (asked.asked_ns[missing] == asked_ns) & (missing < block)
        overtaken = missing[before]
        if len(overtaken):
            soon_ns = now_ns + WAIT_NS
            asked.due_ns[overtaken] = np.minimum(asked.due_ns[overtaken], soon_ns)
            asked.overtaken[overtaken] = True
            self.due_ns = min(self.due_ns, soon_ns)

    def refuse(self, round_index: int, source: int) -> None:
        """A sender does not have a round any more: stop asking it."""
        state = self._rounds.get(round_index)
        asked = state.asked.get(source) if state else None
        if state is None or asked is None or asked.refused:
            return
        asked.refused = True
        self.refused += len(self._missing(round_index, state, source))

    def poll(self, now_ns: int) -> list[Request]:
        """Requests to make now."""
        if now_ns < self.due_ns:
            return []
        requests = []
        self.due_ns = NEVER_NS
        for round_index, state in self._rounds.items():
            for source, asked in state.asked.items():
                missing = self._missing(round_index, state, source)
                if asked.refused or len(missing) == 0:
                    continue
                due = missing[asked.due_ns[missing] <= now_ns]
                # Whatever is missing and not due is on its way.
                wanted = max(0, min(len(due), MAX_BLOCKS - (len(missing) - len(due))))
                granted = self._bucket.take(wanted, now_ns)
                if granted:
                    self._ask(source, asked, due[:granted], now_ns)
                    requests.append(Request(round_index, source, to_ranges(due[:granted])))
                asked.full = wanted < len(due)
                waits_ns = asked.due_ns[missing]
                next_ns = int(waits_ns[waits_ns > now_ns].min(initial=NEVER_NS))
                if granted < wanted:
                    next_ns = self._bucket.ready_ns(now_ns)
                self.due_ns = min(self.due_ns, next_ns)
        return requests

    def _ask(self, source: int, asked: _Asked, blocks: npt.NDArray[np.intp], now_ns: int) -> None:
        """Note that blocks are asked for, and when to do so again."""
        timer = self._timer(source)
        if ((asked.tries[blocks] > 0) & ~asked.overtaken[blocks]).any():
            timer.back_off(now_ns)
        asked.overtaken[blocks] = False
        asked.tries[blocks] += 1
        asked.asked_ns[blocks] = now_ns
        for tries in set(asked.tries[blocks].tolist()):
            those = blocks[asked.tries[blocks] == tries]
            asked.due_ns[those] = now_ns + timer.timeout_ns(tries)
        self.requested += len(blocks)

    def _missing(self, round_index: int, state: _Round, source: int) -> npt.NDArray[np.intp]:
        """Lost blocks that lack a sender's contribution, ascending."""
        lacks = (self._seen(round_index) >> np.uint64(source)) & np.uint64(1) == 0
        return np.flatnonzero(state.lost & lacks)

    def _timer(self, source: int) -> Rto:
        if source not in self._timers:
            self._timers[source] = self._make_timer(source)
        return self._timers[source]


def to_ranges(numbers: npt.NDArray[np.intp]) -> tuple[Range, ...]:
    """Put ascending numbers together into ranges."""
    if len(numbers) == 0:
        return ()
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    firsts = numbers[np.concatenate(([0], cuts))]
    counts = np.diff(np.concatenate(([0], cuts, [len(numbers)])))
    return tuple(zip(firsts.tolist(), counts.tolist(), strict=True))

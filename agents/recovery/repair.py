"""What an island asks the senders themselves for, and when: blocks that no sum brings any more.

A pure state machine. It does not remember what is missing; at each request it is
told, so whatever came in the meantime by any way is not asked for again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.recovery.bucket import TokenBucket
from agents.recovery.gaps import NEVER_NS, Range
from agents.recovery.rto import Rto
from agents.weights import contributors

MAX_BLOCKS = 256
"""Blocks per request: what one sender sends again in one go."""

Seen = Callable[[int], npt.NDArray[np.uint64]]
"""Contributors that have come of each block of a live round; shape (blocks,)."""


@dataclass(frozen=True)
class Request:
    """Ask a sender for blocks of a round."""

    round: int
    source: int
    ranges: tuple[Range, ...]


@dataclass
class _Asked:
    """The state towards one sender in one round."""

    due_ns: int
    tries: int = 0
    asked_ns: int = 0
    outstanding: int = 0
    measured: bool = False
    refused: bool = False


@dataclass
class _Round:
    """A live round."""

    mask: int
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
        self._rounds[round_index] = _Round(mask, np.zeros(blocks, np.bool_), {})

    def close_round(self, round_index: int) -> None:
        """Forget a round."""
        self._rounds.pop(round_index, None)

    def lose(self, round_index: int, block: int, count: int, now_ns: int) -> None:
        """No sum completes these blocks any more; whatever they lack is to be asked for."""
        state = self._rounds.get(round_index)
        if state is None or state.lost[block : block + count].all():
            return
        state.lost[block : block + count] = True
        for source in contributors(state.mask):
            asked = state.asked.setdefault(source, _Asked(now_ns))
            if not asked.outstanding:
                asked.due_ns = now_ns
        self.due_ns = min(self.due_ns, now_ns)

    def arrived(self, round_index: int, source: int, count: int, now_ns: int) -> None:
        """Blocks came from a sender itself."""
        state = self._rounds.get(round_index)
        asked = state.asked.get(source) if state else None
        if asked is None or not asked.outstanding:
            return
        timer = self._timer(source)
        if asked.tries == 1 and not asked.measured:
            timer.sample(now_ns - asked.asked_ns)
        asked.measured = True
        asked.outstanding = max(0, asked.outstanding - count)
        asked.due_ns = now_ns
        if asked.outstanding:
            asked.due_ns += timer.timeout_ns(asked.tries)
        else:
            asked.tries = 0
        self.due_ns = min(self.due_ns, asked.due_ns)

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
                if asked.due_ns <= now_ns and not asked.refused:
                    request = self._ask(round_index, state, source, asked, now_ns)
                    requests += [request] if request else []
                if not asked.refused:
                    self.due_ns = min(self.due_ns, asked.due_ns)
        return requests

    def _ask(
        self, round_index: int, state: _Round, source: int, asked: _Asked, now_ns: int
    ) -> Request | None:
        missing = self._missing(round_index, state, source)
        asked.outstanding = 0
        if len(missing) == 0:
            asked.due_ns = NEVER_NS
            return None
        granted = self._bucket.take(min(MAX_BLOCKS, len(missing)), now_ns)
        if granted == 0:
            asked.due_ns = self._bucket.ready_ns(now_ns)
            return None
        timer = self._timer(source)
        if asked.tries:
            timer.back_off()
        asked.tries += 1
        asked.measured = False
        asked.asked_ns = now_ns
        asked.outstanding = granted
        asked.due_ns = now_ns + timer.timeout_ns(asked.tries)
        self.requested += granted
        return Request(round_index, source, to_ranges(missing[:granted]))

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

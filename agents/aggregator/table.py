"""The aggregator's memory: slots that hold the sums of blocks still incomplete.

No input or output here: contributions go in, sums come out through a callback.
One way, addressed by a hash of the block, as in the paper. A burst whose blocks
are all in the same state is added in a few vector operations; any other burst
block by block. Both ways give the same result.

Of each block in a live round the table knows who was seen and who has left
(emitted). Whoever is seen but not emitted is in the block's slot, so a slot
never needs to be searched, duplicates are recognised at any time, and the sums
that leave for one block have disjoint contributors.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.aggregator.memory import Arena, Slots, mixed_slots, span
from agents.wire import Cause, Elements, StreamLayout

NEVER_NS = 1 << 62


class Emission(NamedTuple):
    """Sums of consecutive blocks that leave the table together."""

    round: int
    block: int
    """The first block."""
    values: Elements
    """Shape (count, n_elem); may be a view of the table, valid during the callback."""
    bitmap: int
    """Contributors, by city index."""
    cause: Cause


class OpenBlock(NamedTuple):
    """A block whose sum is still held."""

    round: int
    block: int
    first_ns: int
    """When its first contribution came."""
    missing: int
    """Contributors that have not come, by city index."""


Sink = Callable[[Emission], None]


@dataclass
class TableCounters:
    """What happened in a table, in blocks."""

    drops: Counter[str] = field(default_factory=Counter)
    """Contributions refused, by reason: round, block, contributor, duplicate, overlap."""
    emitted: Counter[str] = field(default_factory=Counter)
    """Sums that left, by cause."""
    late: int = 0
    """Contributions to blocks of which a partial sum had already left."""


@dataclass
class _Round:
    """What is known of the blocks of one live round; arrays of shape (blocks,)."""

    index: int
    mask: int
    """Whoever is expected."""
    seen: npt.NDArray[np.uint64]
    emitted: npt.NDArray[np.uint64]
    slots: Slots | None
    """Slot of each block, where the hash is not simply the remainder."""
    contributions: int = 0
    complete: int = 0
    """Blocks whose contributors have all left."""


class Table:
    """Slots with tags, first arrivals and sums.

    Parameters
    ----------
    slots
        Capacity in blocks; the hard limit.
    layout
        How streams are cut into blocks.
    sink
        Called with everything that leaves.
    hashing
        ``mod``: block modulo slots; ``mix``: a mixing hash of round and block.
    collision
        ``evict-old``: the older block leaves as a partial sum (the paper);
        ``forward-new``: the newcomer passes unaggregated (ATP).
    timeout_ns
        How long after its first arrival an incomplete block is kept.
    vectorised
        Whether bursts may be taken at once; off only to compare.

    Attributes
    ----------
    occupied, high_water
        Slots in use now, and at most so far.
    """

    def __init__(
        self,
        slots: int,
        layout: StreamLayout,
        sink: Sink,
        *,
        hashing: Literal["mod", "mix"] = "mod",
        collision: Literal["evict-old", "forward-new", "priority"] = "evict-old",
        timeout_ns: int = NEVER_NS,
        vectorised: bool = True,
    ) -> None:
        self.slots = slots
        self.occupied = 0
        self.high_water = 0
        self.counters = TableCounters()
        self._layout = layout
        self._sink = sink
        self._mixes = hashing == "mix"
        self._evicts_old = collision == "evict-old"
        self._timeout_ns = timeout_ns
        self._vectorised = vectorised
        self._rounds: dict[int, _Round] = {}
        self._arena = Arena(slots, layout.elements)
        self._row_of = np.zeros(slots, np.uint32)
        self._round_of = np.zeros(slots, np.uint32)
        self._block_of = np.zeros(slots, np.uint32)
        self._bitmap = np.zeros(slots, np.uint64)  # 0: the slot is free
        self._first_ns = np.zeros(slots, np.int64)
        self._arrivals: deque[tuple[int, int, int, int]] = deque()

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""
        return self._arrivals[0][0] + self._timeout_ns if self._arrivals else NEVER_NS

    def open_round(self, round_index: int, mask: int) -> None:
        """Accept contributions of a round; ``mask`` has a bit for each expected one."""
        blocks = self._layout.blocks
        self._rounds[round_index] = _Round(
            index=round_index,
            mask=mask,
            seen=np.zeros(blocks, np.uint64),
            emitted=np.zeros(blocks, np.uint64),
            slots=mixed_slots(round_index, blocks, self.slots) if self._mixes else None,
        )

    def close_round(self, round_index: int) -> None:
        """Let the held sums of a round leave (cause flush) and forget the round."""
        state = self._rounds.get(round_index)
        if state is None:
            return
        for block in np.flatnonzero(state.seen != state.emitted):
            self._evict(self._slot(state, int(block)), Cause.FLUSH)
        del self._rounds[round_index]

    def drain(self) -> None:
        """Close all rounds, the oldest first."""
        for round_index in sorted(self._rounds):
            self.close_round(round_index)

    def progress(self, round_index: int) -> tuple[int, int]:
        """Contributions taken, and blocks complete, of a live round."""
        state = self._rounds[round_index]
        return state.contributions, state.complete

    def seen(self, round_index: int) -> npt.NDArray[np.uint64]:
        """Contributors that have come of each block of a live round, shape (blocks,)."""
        return self._rounds[round_index].seen

    def oldest(self) -> OpenBlock | None:
        """Whatever has been held for the longest time, if anything is held."""
        slots = np.flatnonzero(self._bitmap)
        if len(slots) == 0:
            return None
        slot = slots[np.argmin(self._first_ns[slots])]
        round_index, block = int(self._round_of[slot]), int(self._block_of[slot])
        state = self._rounds[round_index]
        missing = state.mask & ~int(state.seen[block])
        return OpenBlock(round_index, block, int(self._first_ns[slot]), missing)

    def add(
        self, round_index: int, contributors: int, block: int, values: Elements, now_ns: int
    ) -> None:
        """Take consecutive blocks of one contributor (or of one set of them).

        Parameters
        ----------
        round_index, contributors
            The round, and the bits of whoever is in these sums.
        block
            The first block.
        values
            Shape (count, n_elem); not kept.
        now_ns
            Time of arrival.
        """
        count, width = values.shape
        state = self._rounds.get(round_index)
        if state is None:
            self.counters.drops["round"] += count
        elif contributors == 0 or contributors & ~state.mask:
            self.counters.drops["contributor"] += count
        elif not self._fits(block, count, width):
            self.counters.drops["block"] += count
        elif not self._vectorised or not self._add_run(state, contributors, block, values, now_ns):
            for i in range(count):
                self._add_block(state, contributors, block + i, values[i : i + 1], now_ns)

    def expire(self, now_ns: int) -> None:
        """Let sums leave whose first contribution came ``timeout_ns`` ago or earlier."""
        while self.next_timeout_ns <= now_ns:
            first_ns, round_index, block, count = self._arrivals.popleft()
            state = self._rounds.get(round_index)
            if state is None:
                continue
            for b in range(block, block + count):
                held = state.seen[b] != state.emitted[b]
                slot = self._slot(state, b)
                if held and self._first_ns[slot] == first_ns:
                    self._evict(slot, Cause.TIMEOUT)

    def _fits(self, block: int, count: int, width: int) -> bool:
        """Whether the stream has such blocks, of this many elements each."""
        last = block + count - 1
        elements_of = self._layout.elements_of
        return last < self._layout.blocks and elements_of(block) == width == elements_of(last)

    def _add_run(
        self, state: _Round, contributors: int, block: int, values: Elements, now_ns: int
    ) -> bool:
        """Take a burst at once if its blocks are in the same state; else change nothing."""
        count, width = values.shape
        blocks = slice(block, block + count)
        seen, emitted = int(state.seen[block]), int(state.emitted[block])
        alike = (state.seen[blocks] == seen).all() and (state.emitted[blocks] == emitted).all()
        index = self._index(state, block, count)
        if not alike or seen & contributors or index is None:
            return False
        now_seen = seen | contributors
        held, done = seen != emitted, now_seen == state.mask
        if not held and not done and self._bitmap[index].any():
            return False
        self._note(state, blocks, now_seen, count, late=emitted != 0)
        if held:
            rows = self._row_of[index].tolist()
            self._arena.values[span(rows), :width] += values
        elif not done:
            rows = self._occupy(state, index, block, count, now_ns)
            self._arena.values[span(rows), :width] = values
        if not done:
            self._bitmap[index] = now_seen ^ emitted
            return True
        if held:
            values = self._arena.values[span(rows), :width]
            self._release(index, rows)
        self._emit(state, block, values, now_seen ^ emitted, Cause.COMPLETE)
        return True

    def _add_block(
        self, state: _Round, contributors: int, block: int, values: Elements, now_ns: int
    ) -> None:
        """Take one block, shape (1, n_elem)."""
        seen, emitted = int(state.seen[block]), int(state.emitted[block])
        if seen & contributors:
            known = seen & contributors == contributors
            self.counters.drops["duplicate" if known else "overlap"] += 1
            return
        now_seen = seen | contributors
        self._note(state, block, now_seen, 1, late=emitted != 0)
        slot = self._slot(state, block)
        if seen != emitted:
            self._arena.values[self._row_of[slot], : values.shape[1]] += values[0]
            self._bitmap[slot] = now_seen ^ emitted
            if now_seen == state.mask:
                self._evict(slot, Cause.COMPLETE)
        elif now_seen == state.mask:
            self._emit(state, block, values, contributors, Cause.COMPLETE)
        elif self._bitmap[slot] and not self._evicts_old:
            self._emit(state, block, values, contributors, Cause.BYPASS)
        else:
            if self._bitmap[slot]:
                self._evict(slot, Cause.COLLISION)
            (row,) = self._occupy(state, slot, block, 1, now_ns)
            self._arena.values[row, : values.shape[1]] = values[0]
            self._bitmap[slot] = contributors

    def _note(
        self, state: _Round, blocks: slice | int, now_seen: int, count: int, *, late: bool
    ) -> None:
        """Remember whose contributions were taken."""
        state.seen[blocks] = now_seen
        state.contributions += count
        self.counters.late += count if late else 0

    def _occupy(
        self, state: _Round, index: slice | Slots | int, block: int, count: int, now_ns: int
    ) -> list[int]:
        """Tag free slots with consecutive blocks; return their rows of the arena."""
        rows = self._arena.take(count)
        self._row_of[index] = rows if count > 1 else rows[0]
        self._round_of[index] = state.index
        self._block_of[index] = block if count == 1 else np.arange(block, block + count)
        self._first_ns[index] = now_ns
        self._arrivals.append((now_ns, state.index, block, count))
        self.occupied += count
        self.high_water = max(self.high_water, self.occupied)
        return rows

    def _release(self, index: slice | Slots | int, rows: list[int]) -> None:
        """Free slots; their sums stay readable until the next contribution."""
        self._bitmap[index] = 0
        self._arena.give(rows)
        self.occupied -= len(rows)

    def _evict(self, slot: int, cause: Cause) -> None:
        """Let one slot's sum leave."""
        state, block = self._rounds[int(self._round_of[slot])], int(self._block_of[slot])
        bitmap, row = int(self._bitmap[slot]), int(self._row_of[slot])
        width = self._layout.elements_of(block)
        self._release(slot, [row])
        self._emit(state, block, self._arena.values[row : row + 1, :width], bitmap, cause)

    def _emit(self, state: _Round, block: int, values: Elements, bitmap: int, cause: Cause) -> None:
        """Hand over sums of consecutive blocks in the same state."""
        count = len(values)
        emitted = int(state.emitted[block]) | bitmap
        state.emitted[block : block + count] = emitted
        state.complete += count if emitted == state.mask else 0
        self.counters.emitted[cause.name.lower()] += count
        self._sink(Emission(state.index, block, values, bitmap, cause))

    def _slot(self, state: _Round, block: int) -> int:
        return block % self.slots if state.slots is None else int(state.slots[block])

    def _index(self, state: _Round, block: int, count: int) -> slice | Slots | None:
        """Slots of consecutive blocks, or None if they wrap or are not all different."""
        if state.slots is not None:
            index = state.slots[block : block + count]
            return index if len(set(index.tolist())) == count else None
        first = block % self.slots
        return slice(first, first + count) if first + count <= self.slots else None

"""The aggregator's memory: slots that hold what has come of blocks still incomplete.

No input or output here: contributions go in, sums come out through a callback. The
rules are those of the package, and this is the reference for any faster table.

Of each block in an open round the table knows who was seen and who has left. Who
was seen and has not left is held, so no slot need be searched.
"""

from typing import NamedTuple

from agents.aggregator.arithmetic import Part, widen
from agents.aggregator.fastpath import FastPath
from agents.aggregator.ledger import (
    NEVER_NS,
    Bitmaps,
    Emission,
    Outlet,
    RoundLedger,
    Sink,
    TableCounters,
)
from agents.aggregator.sets import Sets
from agents.aggregator.stores import Accumulators, Buffers, Store
from agents.names import Collision, Hash, MemoryModel
from agents.wire import Cause, DType, StreamLayout, Values, check_sources
from testbed.errors import InputError

__all__ = ["NEVER_NS", "Emission", "Sink", "Table", "TableCounters"]


class OpenBlock(NamedTuple):
    """A block of which something is still held."""

    round: int
    block: int
    first_ns: int
    """When its first contribution came."""
    missing: int
    """Contributors that have not come, by city index."""


class Table:
    """Slots with tags, first arrivals and sums.

    Parameters
    ----------
    slots
        Capacity in blocks; the hard limit.
    layout
        How streams are cut into blocks.
    sink
        Called with everything that leaves; must not call the table.
    hashing, ways, collision, memory_model, ordered
        See the package.
    dtype
        What the elements are.
    timeout_ns
        How long after its first arrival an incomplete block is kept.
    vectorised
        Whether bursts may be taken at once; off only to compare.

    Attributes
    ----------
    slots
        Blocks that can be held: the capacity less the remainder that fills no set.
    counters
        What happened so far.

    Raises
    ------
    InputError
        Fewer slots than ways, or ``ordered`` without ``hold``.
    """

    def __init__(
        self,
        slots: int,
        layout: StreamLayout,
        sink: Sink,
        *,
        hashing: Hash = "mod",
        collision: Collision = "evict-old",
        timeout_ns: int = NEVER_NS,
        vectorised: bool = True,
        ways: int = 1,
        memory_model: MemoryModel = "accumulate",
        dtype: DType = DType.I32,
        ordered: bool = False,
    ) -> None:
        self._outlet = Outlet(sink, dtype)
        self.counters = self._outlet.counters
        self._sets = Sets(slots, ways, hashing, collision)
        self.slots = self._sets.slots
        self._layout = layout
        self._timeout_ns = timeout_ns
        self._dtype = dtype
        self._rounds: dict[int, RoundLedger] = {}
        if ordered and memory_model != "hold":
            raise InputError(
                "ordered sums need every contribution to be kept until its block is complete; "
                "set the memory model to hold, or ordered to off"
            )
        self._fast: FastPath | None = None
        self._store: Store
        if memory_model == "hold":
            self._store = Buffers(self.slots, layout.elements, dtype, ordered=ordered)
        else:
            self._store = accumulators = Accumulators(self.slots, layout.elements, dtype)
            if vectorised:
                self._fast = FastPath(self._sets, accumulators, self._outlet)

    @property
    def occupied(self) -> int:
        """Rows of the memory in use now."""
        return self._store.arena.in_use

    @property
    def high_water(self) -> int:
        """Rows in use at most so far."""
        return self._store.arena.high_water

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""
        return min(NEVER_NS, self._sets.first_ns + self._timeout_ns)

    def open_round(self, round_index: int, mask: int) -> None:
        """Accept contributions of a round; ``mask`` has a bit for each expected one.

        Raises
        ------
        InputError
            The mask has more bits than the header.
        """
        check_sources(mask.bit_length())
        ledger = self._sets.open_round(round_index, mask, self._layout.blocks)
        self._rounds[round_index] = ledger

    def close_round(self, round_index: int) -> None:
        """Let the held blocks of a round leave (cause flush) and forget the round."""
        ledger = self._rounds.get(round_index)
        if ledger is None:
            return
        for block in ledger.held():
            self._evict(self._sets.slot(ledger, block), Cause.FLUSH)
        del self._rounds[round_index]
        self._sets.forget_before(self._rounds)

    def drain(self) -> None:
        """Close all rounds in the order in which they were opened."""
        for round_index in tuple(self._rounds):
            self.close_round(round_index)

    def progress(self, round_index: int) -> tuple[int, int]:
        """Contributions taken, and blocks complete, of an open round."""
        ledger = self._rounds[round_index]
        return ledger.contributions, ledger.complete

    def seen(self, round_index: int) -> Bitmaps:
        """Contributors that have come of each block of a live round, shape (blocks,)."""
        return self._rounds[round_index].seen

    def oldest(self) -> OpenBlock | None:
        """Whatever has been held for the longest time, if anything is held."""
        found = self._sets.oldest()
        if found is None:
            return None
        round_index, block, first_ns = found
        ledger = self._rounds[round_index]
        return OpenBlock(round_index, block, first_ns, ledger.mask & ~int(ledger.seen[block]))

    def add(
        self,
        round_index: int,
        contributors: int,
        block: int,
        values: Values,
        now_ns: int,
        *,
        flags: int = 0,
        exponent: int = 0,
    ) -> None:
        """Take consecutive blocks of one contributor (or of one set of them).

        Parameters
        ----------
        round_index, contributors
            The round, and the bits of whoever is in these sums.
        block
            The first block.
        values
            Shape (count, n_elem), as on the wire; not kept.
        now_ns
            Time of arrival; never less than before.
        flags, exponent
            Of all of these blocks; the exponent only means something to ``i32-exponent``.
        """
        count, width = values.shape
        ledger = self._rounds.get(round_index)
        if ledger is None:
            self.counters.drops["round"] += count
        elif contributors == 0 or contributors & ~ledger.mask:
            self.counters.drops["contributor"] += count
        elif not self._layout.has(block, count, width):
            self.counters.drops["block"] += count
        else:
            exponent = exponent if self._dtype is DType.I32_EXPONENT else 0
            part = Part(widen(values, self._dtype), contributors, flags, exponent)
            if self._fast is None or not self._fast.take(ledger, block, part, now_ns):
                for i in range(count):
                    one = part._replace(values=part.values[i : i + 1])
                    self._add_block(ledger, block + i, one, now_ns)

    def expire(self, now_ns: int) -> None:
        """Let blocks leave that were stored ``timeout_ns`` ago or earlier."""
        while self.next_timeout_ns <= now_ns:
            for slot in self._sets.pop_oldest():
                self._evict(slot, Cause.TIMEOUT)

    def _add_block(self, ledger: RoundLedger, block: int, part: Part, now_ns: int) -> None:
        """Take one block, values of shape (1, n_elem)."""
        seen, emitted = int(ledger.seen[block]), int(ledger.emitted[block])
        if seen & part.bitmap:
            known = seen & part.bitmap == part.bitmap
            self.counters.drops["duplicate" if known else "overlap"] += 1
            return
        now_seen = seen | part.bitmap
        self.counters.late += 1 if emitted else 0
        if now_seen == ledger.mask:
            ledger.note(block, now_seen, 1)
            if seen != emitted:
                self._evict(self._sets.slot(ledger, block), Cause.COMPLETE, part)
            else:
                self._outlet.emit(ledger, block, part, Cause.COMPLETE)
            return
        slot = self._make_room(ledger, block)
        held = ledger.holds(block)
        ledger.note(block, now_seen, 1)
        if slot is None:
            self._outlet.emit(ledger, block, part, Cause.BYPASS)
        elif held:
            self._store.add(slot, part)
        else:
            self._sets.occupy(ledger, slot, block, 1, now_ns)
            self._store.put(slot, part)

    def _make_room(self, ledger: RoundLedger, block: int) -> int | None:
        """Slot with room for one more contribution to a block that stays incomplete.

        A block may have to leave for it, even the own one, which then is not held
        any more. None if the contribution has to pass unaggregated.
        """
        sets = self._sets
        held = ledger.holds(block)
        slot = sets.slot(ledger, block) if held else sets.free_way(ledger, block)
        if slot is None:
            slot = sets.victim_in_set(ledger, block)
            if slot is not None:
                self._evict(slot, Cause.COLLISION)
        elif self._store.full:
            victim = sets.victim_anywhere(ledger, block)
            if victim is None:
                return None
            self._evict(victim, Cause.COLLISION)
            if victim == slot:
                slot = sets.free_way(ledger, block)
        return slot

    def _evict(self, slot: int, cause: Cause, last: Part | None = None) -> None:
        """Let the block in a slot leave, with a last contribution that needs no memory."""
        sets = self._sets
        ledger, block = self._rounds[int(sets.round[slot])], int(sets.block[slot])
        bitmap = int(ledger.seen[block]) ^ int(ledger.emitted[block])
        width = self._layout.elements_of(block)
        sets.release(slot)
        for part in self._store.take(slot, bitmap, last, whole=bitmap == ledger.mask):
            self._outlet.emit(ledger, block, part._replace(values=part.values[:, :width]), cause)

"""Where a block lies: the sets of slots, their tags, and who has to go for a newcomer.

A block's set follows from its number (``mod``) or from a hash of round and block
(``mix``); in it, a block may take any of the ways. Slot = set · ways + way.
"""

from collections import deque
from collections.abc import Container
from typing import Final, NamedTuple

import numpy as np

from agents.aggregator.ledger import NEVER_NS, RoundLedger
from agents.aggregator.memory import Slots, check_ways, mixed_slots
from agents.names import Collision, Hash

Index = slice | Slots | int

_ROUNDS: Final = 1 << 32


class Arrival(NamedTuple):
    """Blocks that were stored together."""

    first_ns: int
    serial: int
    round: int
    slots: Index
    """In the order of their blocks."""


class Sets:
    """Tags of all slots, and the order in which they were taken.

    Parameters
    ----------
    slots
        Capacity in blocks; a remainder that fills no set is not used.
    ways
        Slots of a set.
    hashing
        How a block finds its set.
    collision
        Who has to go if there is no room.

    Attributes
    ----------
    slots
        Those that are used, sets · ways.
    used, round, block
        Whether a slot is taken, and by what; shape (slots,).

    Raises
    ------
    InputError
        There are fewer slots than ways.
    """

    def __init__(self, slots: int, ways: int, hashing: Hash, collision: Collision) -> None:
        check_ways(slots, ways)
        self.ways = ways
        self.sets = slots // ways
        self.slots = self.sets * ways
        self._mixes = hashing == "mix"
        self._collision = collision
        self.used = np.zeros(self.slots, np.bool_)
        self.round = np.zeros(self.slots, np.uint32)
        self.block = np.zeros(self.slots, np.uint32)
        self._first_ns = np.zeros(self.slots, np.int64)
        self._serial = np.zeros(self.slots, np.int64)
        self._stored = 0
        self._arrivals: deque[Arrival] = deque()

    @property
    def first_ns(self) -> int:
        """When the oldest block that may still be held was stored; `NEVER_NS` if there is none."""
        return self._arrivals[0].first_ns if self._arrivals else NEVER_NS

    def open_round(self, round_index: int, mask: int, blocks: int) -> RoundLedger:
        """Make the ledger of a round whose blocks will lie here."""
        return RoundLedger(
            index=round_index,
            mask=mask,
            seen=np.zeros(blocks, np.uint64),
            emitted=np.zeros(blocks, np.uint64),
            homes=mixed_slots(round_index, blocks, self.sets) if self._mixes else None,
            slots=np.zeros(blocks, np.intp) if self.ways > 1 else None,
        )

    def forget_before(self, open_rounds: Container[int]) -> None:
        """Drop the oldest arrivals while they are of no open round: none of them is held."""
        while self._arrivals and self._arrivals[0].round not in open_rounds:
            self._arrivals.popleft()

    def slot(self, ledger: RoundLedger, block: int) -> int:
        """Slot of a held block."""
        return self._home(ledger, block) if ledger.slots is None else int(ledger.slots[block])

    def held_slots(self, ledger: RoundLedger, block: int, count: int) -> slice | Slots | None:
        """Slots of consecutive held blocks; None if they are not consecutive themselves."""
        if ledger.slots is not None:
            return ledger.slots[block : block + count]
        return self._homes(ledger, block, count)

    def free_slots(self, ledger: RoundLedger, block: int, count: int) -> slice | Slots | None:
        """Lowest free slots for consecutive blocks; None if it takes a look at each."""
        homes = self._homes(ledger, block, count)
        if homes is None:
            return None
        if isinstance(homes, slice):
            if self.ways == 1:
                return None if True in self.used[homes].tolist() else homes
            homes = np.arange(homes.start, homes.stop)
        elif len(set(homes.tolist())) < count:
            return None
        used = self.used.reshape(self.sets, self.ways)[homes]
        return None if used.all(axis=1).any() else homes * self.ways + used.argmin(axis=1)

    def free_way(self, ledger: RoundLedger, block: int) -> int | None:
        """Lowest free slot of a block's set, if any."""
        first = self._home(ledger, block) * self.ways
        return next((s for s in range(first, first + self.ways) if not self.used[s]), None)

    def occupy(
        self, ledger: RoundLedger, index: Index, block: int, count: int, now_ns: int
    ) -> None:
        """Tag free slots with consecutive blocks."""
        self.used[index] = True
        self.round[index] = ledger.index
        self.block[index] = block if count == 1 else np.arange(block, block + count)
        self._first_ns[index] = now_ns
        self._serial[index] = self._stored
        if ledger.slots is not None and not isinstance(index, slice):
            ledger.slots[block : block + count] = index
        self._arrivals.append(Arrival(now_ns, self._stored, ledger.index, index))
        self._stored += 1

    def release(self, index: Index) -> None:
        """Free slots."""
        self.used[index] = False

    def pop_oldest(self) -> list[int]:
        """Slots of the oldest arrival whose blocks are held since; forget the arrival."""
        return self._still_held(self._arrivals.popleft())

    def oldest(self) -> tuple[int, int, int] | None:
        """Round, block and first arrival of what was stored first of all that is held."""
        slots = np.flatnonzero(self.used)
        if len(slots) == 0:
            return None
        slot = slots[np.lexsort((self.block[slots], self._serial[slots]))[0]]
        return int(self.round[slot]), int(self.block[slot]), int(self._first_ns[slot])

    def victim_in_set(self, ledger: RoundLedger, block: int) -> int | None:
        """Slot of a full set that has to be freed for a block; None if the block has to go."""
        first = self._home(ledger, block) * self.ways
        if self._collision == "evict-old":
            return first + int(self._first_ns[first : first + self.ways].argmin())
        return self._less_urgent(np.arange(first, first + self.ways), ledger.index, block)

    def victim_anywhere(self, ledger: RoundLedger, block: int) -> int | None:
        """Slot of a full memory that has to be freed for a block; None if the block has to go."""
        if self._collision == "evict-old":
            while not (held := self._still_held(self._arrivals[0])):
                self._arrivals.popleft()
            return held[0]
        return self._less_urgent(np.flatnonzero(self.used), ledger.index, block)

    def _less_urgent(self, slots: Slots, round_index: int, block: int) -> int | None:
        """Of taken slots, that of the greatest (round, block), if greater than a newcomer's.

        Rounds are compared as serial numbers (RFC 1982), seen from the newcomer's,
        so that round 0 follows on 2³² − 1.
        """
        if self._collision == "forward-new":
            return None
        ahead = (self.round[slots].astype(np.int64) - round_index + _ROUNDS // 2) % _ROUNDS
        last = np.lexsort((self.block[slots], ahead))[-1]
        greatest = int(ahead[last]), int(self.block[slots[last]])
        return int(slots[last]) if greatest > (_ROUNDS // 2, block) else None

    def _still_held(self, arrival: Arrival) -> list[int]:
        """Slots of an arrival that have not been freed, or taken anew, since."""
        if isinstance(arrival.slots, int):
            slots = np.array([arrival.slots])
        elif isinstance(arrival.slots, slice):
            slots = np.arange(arrival.slots.start, arrival.slots.stop)
        else:
            slots = arrival.slots
        held: list[int] = slots[self.used[slots] & (self._serial[slots] == arrival.serial)].tolist()
        return held

    def _home(self, ledger: RoundLedger, block: int) -> int:
        """Set of a block."""
        return block % self.sets if ledger.homes is None else int(ledger.homes[block])

    def _homes(self, ledger: RoundLedger, block: int, count: int) -> slice | Slots | None:
        """Sets of consecutive blocks; None if they wrap."""
        if ledger.homes is not None:
            return ledger.homes[block : block + count]
        first = block % self.sets
        return slice(first, first + count) if first + count <= self.sets else None

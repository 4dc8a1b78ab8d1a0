"""What a table knows of the blocks of its open rounds, and what it hands over."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.aggregator.arithmetic import Part, narrow
from agents.aggregator.memory import Slots
from agents.wire import Cause, DType, Flag, Values

NEVER_NS: Final = 1 << 62

Bitmaps = npt.NDArray[np.uint64]


class Emission(NamedTuple):
    """Sums of consecutive blocks that leave the table together."""

    round: int
    block: int
    """The first block."""
    values: Values
    """Shape (count, n_elem), as on the wire; may be a view, valid during the callback."""
    bitmap: int
    """Contributors, by city index."""
    cause: Cause
    flags: int = 0
    exponent: int = 0


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
    saturated: int = 0
    """Sums that left with the flag SATURATED."""
    nonfinite: int = 0
    """Sums that left with the flag NONFINITE."""


@dataclass
class RoundLedger:
    """One open round; arrays of shape (blocks,)."""

    index: int
    mask: int
    """Whoever is expected."""
    seen: Bitmaps
    emitted: Bitmaps
    homes: Slots | None
    """Set of each block, where it is not simply the remainder."""
    slots: Slots | None
    """Slot of each held block, where a set has several."""
    contributions: int = 0
    complete: int = 0
    """Blocks whose contributors have all left."""

    def holds(self, block: int) -> bool:
        """Whether something of a block is in memory."""
        return bool(self.seen[block] != self.emitted[block])

    def held(self) -> list[int]:
        """All blocks of which something is in memory, ascending."""
        blocks: list[int] = np.flatnonzero(self.seen != self.emitted).tolist()
        return blocks

    def note(self, blocks: slice | int, now_seen: int, count: int) -> None:
        """Remember whose contributions were taken."""
        self.seen[blocks] = now_seen
        self.contributions += count


class Outlet:
    """Hands over what leaves, as a datagram will carry it, and counts it.

    Parameters
    ----------
    sink
        Called with everything that leaves.
    dtype
        What the elements are.

    Attributes
    ----------
    counters
        Of the whole table.
    """

    def __init__(self, sink: Sink, dtype: DType) -> None:
        self.counters = TableCounters()
        self._sink = sink
        self._dtype = dtype

    def emit(self, ledger: RoundLedger, block: int, part: Part, cause: Cause) -> None:
        """Hand over sums of consecutive blocks in the same state."""
        count = len(part.values)
        emitted = int(ledger.emitted[block]) | part.bitmap
        ledger.emitted[block : block + count] = emitted
        ledger.complete += count if emitted == ledger.mask else 0
        self.counters.emitted[cause.name.lower()] += count
        values, nonfinite = narrow(part.values, self._dtype)
        if nonfinite is None:
            self._hand_over(ledger, block, part._replace(values=values), cause)
            return
        for i, bad in enumerate(nonfinite):
            flags = part.flags | (Flag.NONFINITE if bad else 0)
            one = part._replace(values=values[i : i + 1], flags=flags)
            self._hand_over(ledger, block + i, one, cause)

    def _hand_over(self, ledger: RoundLedger, block: int, part: Part, cause: Cause) -> None:
        values, bitmap, flags, exponent = part
        if flags:
            self.counters.saturated += len(values) if flags & Flag.SATURATED else 0
            self.counters.nonfinite += len(values) if flags & Flag.NONFINITE else 0
        self._sink(Emission(ledger.index, block, values, bitmap, cause, int(flags), exponent))

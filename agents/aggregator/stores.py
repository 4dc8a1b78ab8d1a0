"""What the memory keeps of a held block: one accumulator, or every contribution.

Both stores keep rows of one arena by slot. Which block lies in a slot, and who has
contributed, is the table's concern.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from agents.aggregator.arithmetic import I32_MAX, Part, add, in_memory, magnitude
from agents.aggregator.memory import Arena, span
from agents.aggregator.sets import Index
from agents.wire import DType, Values


class Store(Protocol):
    """Where the contributions of held blocks lie."""

    arena: Arena

    @property
    def full(self) -> bool:
        """Whether one more contribution to a held block finds no row."""

    def put(self, slot: int, part: Part) -> None:
        """Keep a block's first contribution."""

    def add(self, slot: int, part: Part) -> None:
        """Keep a further one."""

    def take(self, slot: int, bitmap: int, last: Part | None, *, whole: bool) -> list[Part]:
        """Free a slot's rows; return what leaves, in order.

        Parameters
        ----------
        slot
            Where the block lies.
        bitmap
            All of its contributors, ``last`` included.
        last
            A contribution that completes the block and needs no row of its own.
        whole
            Whether these are all that the round expects.

        Returns
        -------
        list of Part
            Readable until the next contribution is kept.
        """


class Accumulators:
    """One row for each held block, to which contributions are added as they come.

    A row's sum is known never to leave int32 while the sum of its contributions'
    magnitudes stays in it; so whole bursts need no check of every element.
    """

    def __init__(self, rows: int, elements: int, dtype: DType) -> None:
        self.arena = Arena(rows, elements, in_memory(dtype))
        self.full = False
        self._dtype = dtype
        self._row_of = np.zeros(rows, np.uint32)
        self._reach = np.zeros(rows, np.int64)
        self._exponent = np.zeros(rows, np.int16)
        self._flags: dict[int, int] = {}

    def put(self, slot: int, part: Part) -> None:
        """Keep a block's first contribution."""
        self._keep(slot, part.values)
        self._exponent[slot] = part.exponent
        if part.flags:
            self._flags[slot] = part.flags

    def add(self, slot: int, part: Part) -> None:
        """Add a further one."""
        row = self._row_of[slot]
        total = self.arena.values[row : row + 1, : part.values.shape[1]]
        exponent, flags = add(total, int(self._exponent[slot]), part, self._dtype)
        self._exponent[slot] = exponent
        if self._dtype is DType.I32:
            self._reach[slot] = magnitude(total)
        if flags | part.flags:
            self._flags[slot] = self._flags.get(slot, 0) | flags | part.flags

    def take(self, slot: int, bitmap: int, last: Part | None, *, whole: bool) -> list[Part]:
        """Free a slot; return its sum. See `Store.take`."""
        if last is not None:
            self.add(slot, last)
        row = int(self._row_of[slot])
        self.arena.give([row])
        values = self.arena.values[row : row + 1]
        flags = self._flags.pop(slot, 0)
        return [Part(values, bitmap, flags, int(self._exponent[slot]))]

    def put_run(self, index: Index, part: Part) -> bool:
        """Keep the first contributions of as many blocks as there are slots.

        Returns
        -------
        bool
            False if there is more to keep than their elements; then nothing has changed.
        """
        if part.flags or self._dtype is DType.I32_EXPONENT:
            return False
        self._keep(index, part.values)
        return True

    def add_run(self, index: Index, part: Part) -> bool:
        """Add to as many blocks as there are slots.

        Returns
        -------
        bool
            False if flags have to be kept apart or a sum might saturate; then
            nothing has changed.
        """
        values = part.values
        if part.flags or self._flags or self._dtype is DType.I32_EXPONENT:
            return False
        if self._dtype is DType.I32:
            reach = max(self._reach[index].tolist()) + magnitude(values)
            if reach > I32_MAX:
                return False
            self._reach[index] = reach
        rows = span(self._row_of[index].tolist())
        memory = self.arena.values[:, : values.shape[1]]
        if self._dtype is DType.I32:
            memory[rows] += values
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                memory[rows] += values
        return True

    def take_run(self, index: Index) -> Values:
        """Free slots; return their sums, shape (count, elements)."""
        rows = self._row_of[index].tolist()
        self.arena.give(rows)
        return self.arena.values[span(rows)]

    def _keep(self, index: Index, values: Values) -> None:
        """Copy blocks into rows of their own."""
        rows = self.arena.take(len(values))
        self._row_of[index] = rows if len(rows) > 1 else rows[0]
        self.arena.values[span(rows), : values.shape[1]] = values
        if self._dtype is DType.I32:
            self._reach[index] = magnitude(values)


@dataclass(frozen=True)
class _Kept:
    """A contribution in a row of its own."""

    row: int
    width: int
    bitmap: int
    flags: int
    exponent: int


class Buffers:
    """One row for each contribution; the sum is formed when the block leaves.

    Parameters
    ----------
    rows, elements, dtype
        Of the memory.
    ordered
        Whether contributions are summed by ascending contributor instead of as
        they came, and leave one by one where some are missing.
    """

    def __init__(self, rows: int, elements: int, dtype: DType, *, ordered: bool) -> None:
        self.arena = Arena(rows, elements, in_memory(dtype))
        self._dtype = dtype
        self._ordered = ordered
        self._kept: dict[int, list[_Kept]] = {}

    @property
    def full(self) -> bool:
        """Whether one more contribution finds no row."""
        return self.arena.in_use == len(self.arena.values)

    def put(self, slot: int, part: Part) -> None:
        """Keep a block's first contribution."""
        self._kept[slot] = []
        self.add(slot, part)

    def add(self, slot: int, part: Part) -> None:
        """Keep a further one."""
        (row,) = self.arena.take(1)
        width = part.values.shape[1]
        self.arena.values[row, :width] = part.values[0]
        self._kept[slot].append(_Kept(row, width, part.bitmap, part.flags, part.exponent))

    def take(self, slot: int, bitmap: int, last: Part | None, *, whole: bool) -> list[Part]:
        """Free a slot's rows; return the sum, or the contributions. See `Store.take`."""
        kept = self._kept.pop(slot)
        self.arena.give([k.row for k in kept])
        parts = [self._part(k) for k in kept]
        if last is not None:
            parts.append(last)
        if self._ordered:
            parts.sort(key=lambda part: part.bitmap & -part.bitmap)
            if not whole:
                return parts
        return [self._total(parts)]

    def _part(self, kept: _Kept) -> Part:
        values = self.arena.values[kept.row : kept.row + 1, : kept.width]
        return Part(values, kept.bitmap, kept.flags, kept.exponent)

    def _total(self, parts: list[Part]) -> Part:
        """Sum of contributions in the order given."""
        total, bitmap, flags, exponent = parts[0]
        total = total.copy()
        for part in parts[1:]:
            exponent, saturated = add(total, exponent, part, self._dtype)
            bitmap |= part.bitmap
            flags |= part.flags | saturated
        return Part(total, bitmap, flags, exponent)

"""From an island's parameter vector to the blocks of its stream, and back.

A parameter vector is a table of a few blocks; a stream is far longer. So each
table row is sent many times, and a number that every process can work out, new
for every round and block, is added to it: no two datagrams are alike, a block
costs one addition, and a sum is turned back into a sum of rows by subtracting
the contributors' numbers. Ours.

All numbers are integers, small enough that any sum of 64 islands is exact in the
run's element type, in whatever order it is formed:

- ``i32``: contents stay below 1.5 · 2²⁴ in size, sums below 2³¹.
- ``i32-exponent``: the same mantissas; the exponent is common to all contributors of
  a block and changes every few blocks, so that nothing is rounded.
- ``f32``: contents are at most 2¹⁸, sums at most 2²⁴, up to which float32 holds every integer.

``bf16`` holds integers up to 2⁸ only, which leaves nothing to check a sum with.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from agents.wire import MAX_SOURCES, DType, Elements, StreamLayout, Values
from testbed.errors import InputError

TABLE_BLOCKS = 16
ROUND_SHIFT = 4
"""Each round starts so many rows further on in the table."""
CACHED_SETS = 32
SCALED_BLOCKS = 64
"""As many blocks in a row have one exponent; …"""
EXPONENTS = (-3, 0, 11, -20, 5)
"""… these in turn."""

_OFFSET_STREAM = 1


@dataclass(frozen=True)
class Range:
    """How large contents are."""

    start_rms: int
    """Of a start vector's elements; a step of rounding is one."""
    table: int
    """Vectors stay below it …"""
    offset: int
    """… and a block's number within it."""


_RANGES = {
    DType.I32: Range(1 << 22, 1 << 24, 1 << 23),
    DType.I32_EXPONENT: Range(1 << 22, 1 << 24, 1 << 23),
    DType.F32: Range(1 << 15, 1 << 17, 1 << 17),
}


def range_of(dtype: DType) -> Range:
    """How large contents of an element type are.

    Raises
    ------
    InputError
        No sum of it could be checked.
    """
    if dtype not in _RANGES:
        raise InputError("bf16 cannot be checked: it holds no exact sum of islands; use f32")
    return _RANGES[dtype]


def contributors(bitmap: int) -> tuple[int, ...]:
    """City indices of the bits that are set, ascending."""
    return tuple(i for i in range(MAX_SOURCES) if bitmap >> i & 1)


def table_shape(layout: StreamLayout) -> tuple[int, int]:
    """Rows and elements of a parameter vector: every round sends each row in full."""
    if layout.blocks == 1:
        return 1, layout.last_elements
    full = layout.blocks - (layout.last_elements < layout.elements)
    return min(TABLE_BLOCKS, full), layout.elements


class Weights:
    """The coding of parameter vectors into blocks, for one run.

    Parameters
    ----------
    seed
        Another seed, other numbers.
    layout
        How a stream is cut into blocks.
    dtype
        What their elements are.

    Attributes
    ----------
    shape
        Rows and elements of a table, see `table_shape`.
    scaled
        Whether blocks have exponents.

    Raises
    ------
    InputError
        No sum of such elements could be checked.
    """

    def __init__(self, seed: int, layout: StreamLayout, dtype: DType = DType.I32) -> None:
        self.shape = table_shape(layout)
        self.scaled = dtype is DType.I32_EXPONENT
        self._offset_limit = range_of(dtype).offset
        self._seed = seed
        self._blocks = layout.blocks
        self._offset_of = lru_cache(CACHED_SETS)(self._sum_offsets)

    def fill(self, round_index: int, bitmap: int, table: Elements, block: int, out: Values) -> None:
        """Write the blocks of some islands' sum (one bit: of one island alone).

        Parameters
        ----------
        round_index, bitmap
            The round, and the islands as a set of bits by city index.
        table
            Sum of their tables.
        block
            First block.
        out
            Where to, shape (count, n_elem): ``count`` consecutive blocks, cut
            to their first ``n_elem`` elements. What the table is too narrow
            for, in a stream of one short block, is left as it is.
        """
        rows = len(table)
        offsets = self._offset_of(round_index, bitmap)
        count, width = out.shape
        done = 0
        while done < count:
            row = self.row(round_index, block + done)
            step = min(count - done, rows - row)
            at = block + done
            np.add(
                table[row : row + step, :width],
                offsets[at : at + step, np.newaxis],
                out=out[done : done + step, : table.shape[1]],
            )
            done += step

    def row(self, round_index: int, block: int) -> int:
        """Table row that a block carries."""
        return (block + ROUND_SHIFT * round_index) % self.shape[0]

    def rows(self, round_index: int, block: int, count: int) -> npt.NDArray[np.intp]:
        """Table rows that consecutive blocks carry, shape (count,)."""
        return (np.arange(block, block + count) + ROUND_SHIFT * round_index) % self.shape[0]

    def exponents(self, block: int, count: int) -> npt.NDArray[np.intp]:
        """Exponents of consecutive blocks, shape (count,); zeros unless `scaled`."""
        if not self.scaled:
            return np.zeros(count, np.intp)
        turns = np.arange(block, block + count) // SCALED_BLOCKS % len(EXPONENTS)
        return np.array(EXPONENTS)[turns]

    def offset(self, round_index: int, bitmap: int, block: int) -> int:
        """What a block's sum over some islands holds beside the sum of their rows."""
        return int(self._offset_of(round_index, bitmap)[block])

    def _sum_offsets(self, round_index: int, bitmap: int) -> npt.NDArray[np.int32]:
        """Sum of the block offsets of some islands in one round, shape (blocks,)."""
        total, limit = np.zeros(self._blocks, np.int32), self._offset_limit
        for island in contributors(bitmap):
            key = [self._seed, _OFFSET_STREAM, island, round_index]
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
            total += generator.integers(-limit, limit, total.shape, np.int32)
        return total

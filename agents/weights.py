"""Block contents that every process can work out for itself.

A weight vector is far larger than what its checking needs: each island has a
table of a few random blocks, repeated along the vector with another offset for
every round and block. So a block is one addition, and the true sum of any set
of contributors is one addition to the sum of their tables. Ours.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from agents.wire import MAX_SOURCES, Elements

TABLE_BLOCKS = 16
TABLE_LIMIT = 1 << 24
OFFSET_LIMIT = 1 << 23
"""Contents stay below 1.5 · 2²⁴ in size, so the sum of 64 islands fits an int32."""
ROUND_SHIFT = 4
"""Each round starts so many rows further on in the table."""
CACHED_SETS = 32

_TABLE_STREAM, _OFFSET_STREAM = 0, 1


def contributors(bitmap: int) -> tuple[int, ...]:
    """City indices of the bits that are set, ascending."""
    return tuple(i for i in range(MAX_SOURCES) if bitmap >> i & 1)


class Weights:
    """The weight vectors of all islands, for one run.

    Parameters
    ----------
    seed
        Another seed, other contents.
    blocks, elements
        Blocks of a vector, and elements of a full block.
    """

    def __init__(self, seed: int, blocks: int, elements: int) -> None:
        self._seed = seed
        self._blocks = blocks
        self._elements = elements
        self._table_of = lru_cache(CACHED_SETS)(self._sum_tables)
        self._offset_of = lru_cache(CACHED_SETS)(self._sum_offsets)

    def fill(self, round_index: int, bitmap: int, block: int, out: Elements) -> None:
        """Write the true sum of some islands' blocks (one bit: that island's own).

        Parameters
        ----------
        round_index, bitmap
            The round, and the islands as a set of bits by city index.
        block
            First block.
        out
            Where to, shape (count, n_elem): ``count`` consecutive blocks, cut
            to their first ``n_elem`` elements.
        """
        table = self._table_of(bitmap)
        offsets = self._offset_of(round_index, bitmap)
        count, width = out.shape
        done = 0
        while done < count:
            row = (block + done + ROUND_SHIFT * round_index) % TABLE_BLOCKS
            step = min(count - done, TABLE_BLOCKS - row)
            at = block + done
            np.add(
                table[row : row + step, :width],
                offsets[at : at + step, np.newaxis],
                out=out[done : done + step],
            )
            done += step

    def _sum_tables(self, bitmap: int) -> Elements:
        """Sum of the tables of some islands, shape (TABLE_BLOCKS, elements)."""
        total = np.zeros((TABLE_BLOCKS, self._elements), np.int32)
        for island in contributors(bitmap):
            generator = self._generator(_TABLE_STREAM, island)
            total += generator.integers(-TABLE_LIMIT, TABLE_LIMIT, total.shape, np.int32)
        return total

    def _sum_offsets(self, round_index: int, bitmap: int) -> npt.NDArray[np.int32]:
        """Sum of the block offsets of some islands in one round, shape (blocks,)."""
        total = np.zeros(self._blocks, np.int32)
        for island in contributors(bitmap):
            generator = self._generator(_OFFSET_STREAM, island, round_index)
            total += generator.integers(-OFFSET_LIMIT, OFFSET_LIMIT, total.shape, np.int32)
        return total

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, *key])))

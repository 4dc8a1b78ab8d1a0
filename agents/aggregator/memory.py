"""How large an aggregator's memory is, where a block lies in it, and the memory itself."""

from typing import Any

import numpy as np
import numpy.typing as npt

from agents.reserve import reserve
from agents.wire import ELEMENT_BYTES, ELEMENT_DTYPE, Values
from testbed.errors import InputError

Slots = npt.NDArray[np.intp]

_LEAST_BURSTS = 8
"""A ring always has room to build and send from, however little is kept for resends."""


def memory_slots(memory_bytes: float, fifo_datagrams: int, senders: int, block_bytes: int) -> int:
    """Slots of a memory of M bytes plus the chip's packet FIFO.

    Parameters
    ----------
    memory_bytes
        M as packets see it (scaled).
    fifo_datagrams
        Datagrams per sender that the chip holds even with M = 0.
    senders
        Streams that meet here at most.
    block_bytes
        Payload of a full block.

    Raises
    ------
    InputError
        Not even one block fits.
    """
    total = int(memory_bytes) + fifo_datagrams * senders * block_bytes
    if total < block_bytes:
        raise InputError(
            f"aggregator memory: {memory_bytes:.0f} bytes + {fifo_datagrams} datagrams × "
            f"{senders} senders × {block_bytes} bytes = {total} bytes, less than one block of "
            f"{block_bytes}; raise the memory or fifo_datagrams"
        )
    return total // block_bytes


def ring_rows(resend_bytes: float, row_bytes: int, burst_datagrams: int) -> int:
    """Datagrams that the resend ring holds: its share of M, but at least some bursts."""
    return max(_LEAST_BURSTS * burst_datagrams, int(resend_bytes // row_bytes))


def check_ways(slots: int, ways: int) -> None:
    """Refuse a memory that does not even fill one set.

    Raises
    ------
    InputError
        There are fewer slots than ways.
    """
    if slots < ways:
        raise InputError(
            f"aggregator memory: {slots} blocks // {ways} ways = no set of slots; "
            f"raise the memory to {ways} blocks or more, or lower ways"
        )


class Arena:
    """One contiguous memory of ``rows`` blocks of four-byte elements.

    The row freed last is handed out first. So only as much of the memory is
    touched as is held at once: in the virtual machine a page's first touch
    costs as much as adding up a megabyte.

    Attributes
    ----------
    values
        Shape (rows, elements).
    in_use, high_water
        Rows handed out now, and at most so far.
    """

    def __init__(self, rows: int, elements: int, dtype: np.dtype[Any] = ELEMENT_DTYPE) -> None:
        memory = reserve(rows * elements * ELEMENT_BYTES)
        self.values: Values = np.frombuffer(memory, dtype).reshape(rows, elements)
        self.in_use = 0
        self.high_water = 0
        self._freed: list[int] = []
        self._untouched = 0

    def take(self, count: int) -> list[int]:
        """Hand out free rows; consecutive ones where possible.

        Raises
        ------
        MemoryError
            The memory is full.
        """
        freed = self._freed
        reused = freed[-count:]
        del freed[-count:]
        first_new = self._untouched
        self._untouched += count - len(reused)
        if self._untouched > len(self.values):
            raise MemoryError(f"more than the {len(self.values)} blocks of the memory are in use")
        self.in_use += count
        self.high_water = max(self.high_water, self.in_use)
        return reused + list(range(first_new, self._untouched))

    def give(self, rows: list[int]) -> None:
        """Take rows back."""
        self._freed.extend(rows)
        self.in_use -= len(rows)


def span(rows: list[int]) -> slice | list[int]:
    """Turn consecutive rows into a slice, which numpy need not copy."""
    first, count = rows[0], len(rows)
    consecutive = rows == list(range(first, first + count))
    return slice(first, first + count) if consecutive else rows


def mixed_slots(round_index: int, blocks: int, slots: int) -> Slots:
    """Slot of every block of a round, shape (blocks,), in 0 … slots − 1.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014) over round and block.
    """
    key = np.arange(1, blocks + 1, dtype=np.uint64) + np.uint64(round_index << 32)
    key = key * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((key ^ (key >> np.uint64(31))) % np.uint64(slots)).astype(np.intp)

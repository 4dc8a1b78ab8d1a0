"""The numbers of a collective: each host's own, what arrives, and the true sums."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from agents.wire import Elements, StreamLayout, Values, stream_layout
from controller.hostplan import NOTHING, OWN, WITH_OWN
from testbed.errors import InputError

_OPERAND_STREAM = 3


def chunk_layout(chunk_wire_bytes: float, mtu_bytes: int) -> StreamLayout:
    """How each chunk is cut into datagrams.

    Parameters
    ----------
    chunk_wire_bytes
        Bytes of a chunk on the wire (scaled).
    mtu_bytes
        Largest IP packet.

    Raises
    ------
    InputError
        A chunk is shorter than one datagram with one element.
    """
    try:
        return stream_layout(chunk_wire_bytes, mtu_bytes)
    except InputError as error:
        raise InputError(f"chunks are too small: {error}, or ask for fewer chunks") from error


class Operands:
    """One host's vector, in chunks, and the transfers that are arriving.

    Parameters
    ----------
    seed, city
        Decide the host's own numbers.
    chunks, layout
        How many chunks, and how each is cut into blocks.
    """

    def __init__(self, seed: int, city: int, chunks: int, layout: StreamLayout) -> None:
        self._seed, self._city = seed, city
        self._layout = layout
        own = [operand(seed, city, chunk, layout) for chunk in range(chunks)]
        self._values: npt.NDArray[np.int32] = np.stack(own)
        self._arriving: dict[int, tuple[Elements, npt.NDArray[np.bool_]]] = {}

    def rows(self, chunk: int, block: int, count: int) -> Elements:
        """Consecutive blocks of a chunk as it is now, shape (count, elements)."""
        return self._values[chunk, block : block + count]

    def copy(self, chunk: int) -> Elements:
        """A chunk as it is now, shape (blocks, elements), of its own."""
        copied: Elements = self._values[chunk].copy()
        return copied

    def begin_again(self, origins: str, keep: Collection[int]) -> None:
        """Begin chunks with what a schedule that takes over says.

        Parameters
        ----------
        origins
            A character per chunk; see `controller.hostplan.HOLD`.
        keep
            Transfers that still count; what has come of others is thrown away.
        """
        for chunk, origin in enumerate(origins):
            if origin in (OWN, NOTHING):
                self._values[chunk] = 0
            if origin in (OWN, WITH_OWN):
                self._values[chunk] += operand(self._seed, self._city, chunk, self._layout)
        self._arriving = {t: kept for t, kept in self._arriving.items() if t in keep}

    def take(self, transfer: int, block: int, values: Values) -> str:
        """Keep blocks of a transfer; returns why they are refused, or nothing."""
        count, width = values.shape
        if not self._layout.has(block, count, width):
            return "block"
        if transfer not in self._arriving:
            shape = (self._layout.blocks, self._layout.elements)
            self._arriving[transfer] = np.zeros(shape, np.int32), np.zeros(shape[0], np.bool_)
        kept, came = self._arriving[transfer]
        if came[block : block + count].any():
            return "duplicate"
        kept[block : block + count, :width] = values
        came[block : block + count] = True
        return ""

    def complete(self, transfer: int) -> bool:
        """Whether all blocks of a transfer have come."""
        return transfer in self._arriving and bool(self._arriving[transfer][1].all())

    def apply(self, transfer: int, chunk: int, *, adds: bool) -> None:
        """Add a complete transfer to its chunk, or put it in its place."""
        kept, _ = self._arriving.pop(transfer)
        if adds:
            self._values[chunk] += kept
        else:
            self._values[chunk] = kept

    def exact_chunks(self, cities: int) -> int:
        """How many chunks are the true sum over all hosts, bit for bit."""
        layout, used = self._layout, self._layout.total_elements
        exact = 0
        for chunk, have in enumerate(self._values):
            true = sum(operand(self._seed, city, chunk, layout) for city in range(cities))
            exact += np.array_equal(have.ravel()[:used], np.ravel(true)[:used])
        return exact


def operand(seed: int, city: int, chunk: int, layout: StreamLayout) -> Elements:
    """What a host brings for a chunk, shape (blocks, elements).

    Below 2²⁵ in size, so that the sum over 64 hosts fits an int32.
    """
    key = np.random.SeedSequence([seed, _OPERAND_STREAM, city, chunk])
    generator = np.random.Generator(np.random.PCG64(key))
    return generator.integers(-(1 << 25), 1 << 25, (layout.blocks, layout.elements), np.int32)

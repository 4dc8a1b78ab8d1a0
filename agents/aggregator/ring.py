"""The resend ring: an aggregator's latest datagrams, each where it was built and sent from.

Nothing is copied for the sake of recovery: a datagram is built in its row, goes
out from there, and stays until ``rows`` later ones have been built.
"""

import numpy as np
import numpy.typing as npt

from agents.reserve import reserve
from agents.wire import HEADER_BYTES
from testbed.errors import InputError


class ResendRing:
    """Rows of one datagram each, addressed by running number; no input or output here.

    Parameters
    ----------
    rows
        How many datagrams are kept.
    row_bytes
        Size of a full datagram.

    Attributes
    ----------
    memory
        Shape (rows, row_bytes). A page is touched when its first datagram is built.
    sizes
        Bytes of the datagram in each row, shape (rows,).
    sent_ns
        When it was sent first, shape (rows,).
    next_seq
        Number of the next datagram to build. It never wraps here; on the wire its
        lower 32 bits are sent.
    sent_seq
        Number of the first datagram that has not been sent yet. Whoever builds
        has them sent before they are ``rows``.

    Raises
    ------
    InputError
        There is no row, or a row holds no header.
    """

    def __init__(self, rows: int, row_bytes: int) -> None:
        if rows < 1 or row_bytes < HEADER_BYTES:
            raise InputError(f"a resend ring of {rows} × {row_bytes} bytes holds no datagram")
        self.rows = rows
        self.row_bytes = row_bytes
        self._bytes = reserve(rows * row_bytes)
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(self._bytes, np.uint8).reshape(
            rows, row_bytes
        )
        self.sizes: npt.NDArray[np.uint32] = np.zeros(rows, np.uint32)
        self.sent_ns: npt.NDArray[np.int64] = np.zeros(rows, np.int64)
        self.next_seq = 0
        self.sent_seq = 0

    @property
    def oldest_seq(self) -> int:
        """Number of the oldest datagram that is still here (`next_seq` if none is)."""
        return max(0, self.next_seq - self.rows)

    def room(self, limit: int) -> int:
        """Rows for the next burst: at most ``limit``, and none beyond the ring's end."""
        return min(limit, self.rows - self.next_seq % self.rows)

    def row(self, seq: int) -> int:
        """Row of a datagram."""
        return seq % self.rows

    def run(self, seq: int, count: int) -> int:
        """How many of ``count`` datagrams from ``seq`` on can be sent in one call.

        They lie in a row, and all but the last have full size.
        """
        first = seq % self.rows
        last = min(first + count, self.rows)
        short = np.flatnonzero(self.sizes[first:last] != self.row_bytes)
        return int(short[0]) + 1 if len(short) else last - first

    def view(self, seq: int, count: int) -> memoryview:
        """Bytes of consecutive datagrams: full ones, and the last as long as it is.

        The caller keeps to `room` and `run`: none lies beyond the ring's end.
        """
        first = seq % self.rows
        last = first + count - 1
        return self._bytes[first * self.row_bytes : last * self.row_bytes + int(self.sizes[last])]

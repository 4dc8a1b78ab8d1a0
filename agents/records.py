"""Fixed-size binary records that agents append while they run.

The host turns them into Parquet after the run: importing pyarrow in each
guest process would cost more than the run itself.
"""

import struct
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt


class Kind(IntEnum):
    """What happened. One record stands for one burst of consecutive blocks."""

    EMIT = 1
    """Island sent ``count`` blocks; ``src`` itself, ``value`` bytes on the wire."""
    AGGREGATE_IN = 2
    """Island received ``count`` aggregated blocks; ``value`` their contributor bitmap."""
    DATA_IN = 3
    """Island received ``count`` raw blocks of ``src``: aggregation is off, or they are repairs."""
    HELD = 4
    """Aggregator took ``count`` blocks of ``src``; ``value`` slots are in use after it."""
    AGGREGATE_OUT = 5
    """Aggregator sent ``count`` blocks for ``cause``; ``value`` their contributor bitmap."""
    NACK = 6
    """Island asked its aggregator for ``count`` datagrams from number ``block`` on."""
    RESEND = 7
    """Aggregator sent ``count`` datagrams again, from number ``block`` on."""
    GAP_CLOSED = 8
    """Island got ``count`` missing datagrams from number ``block`` on, ``value`` ns after
    it noticed; ``cause`` is how often they had been asked for (255: or more often)."""
    UNAVAILABLE = 9
    """Island was told that ``count`` missing datagrams are gone."""
    REPAIR_NACK = 10
    """Island asked ``src`` itself for ``count`` blocks."""
    REPAIR = 11
    """Island sent ``count`` blocks again, to city ``value``."""
    SURPLUS_IN = 12
    """Island received ``count`` blocks of which it had parts already, so that it could use
    none; ``src`` and ``value``, the contributors, as they came."""


EVENT_DTYPE = np.dtype(
    [
        ("t_ns", "<i8"),
        ("round", "<u4"),
        ("kind", "u1"),
        ("src", "u1"),
        ("cause", "u1"),
        ("exact", "u1"),
        ("block", "<u4"),
        ("count", "<u4"),
        ("value", "<u8"),
    ]
)
"""One event. ``t_ns`` is relative to the start of round 0; ``exact`` is 1 where
the sums of the burst were compared with the true ones and agree, 0 where they
do not agree, 2 where nothing was compared."""

NOT_CHECKED = 2
CHUNK_EVENTS = 2048

_EVENT = struct.Struct("<qIBBBBIIQ")


class Recorder:
    """Collects events in memory and writes them once, at the end."""

    def __init__(self) -> None:
        self._chunk = bytearray(CHUNK_EVENTS * EVENT_DTYPE.itemsize)
        self._used = 0
        self._full: list[bytearray] = []

    def add(
        self,
        t_ns: int,
        round_index: int,
        kind: Kind,
        src: int,
        block: int,
        count: int,
        value: int,
        *,
        cause: int = 0,
        exact: int = NOT_CHECKED,
    ) -> None:
        """Append one event."""
        self.page(1)
        _EVENT.pack_into(
            self._chunk, self._used, t_ns, round_index, kind, src, cause, exact, block, count, value
        )
        self._used += _EVENT.size

    def page(self, events: int) -> tuple[bytearray, int]:
        """Room for so many events: a chunk, and its bytes already used.

        Whoever writes there says with `written` how many bytes are used then.
        """
        if self._used + events * EVENT_DTYPE.itemsize > len(self._chunk):
            self._full.append(self._chunk[: self._used])
            self._chunk = bytearray(len(self._chunk))
            self._used = 0
        return self._chunk, self._used

    def written(self, used_bytes: int) -> None:
        """Set how many bytes of the chunk of `page` are used."""
        self._used = used_bytes

    def array(self) -> npt.NDArray[np.void]:
        """All events so far, shape (n,), dtype `EVENT_DTYPE`."""
        return np.frombuffer(self._bytes(), dtype=EVENT_DTYPE)

    def write(self, path: Path) -> None:
        """Write all events as raw little-endian records."""
        path.write_bytes(self._bytes())

    def _bytes(self) -> bytes:
        return b"".join([*self._full, self._chunk[: self._used]])


def read_events(path: Path) -> npt.NDArray[np.void]:
    """Read what `Recorder.write` wrote; shape (n,), dtype `EVENT_DTYPE`."""
    return np.frombuffer(path.read_bytes(), dtype=EVENT_DTYPE)

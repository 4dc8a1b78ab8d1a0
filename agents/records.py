"""Fixed-size binary records that agents append while they run.

The host turns them into Parquet after the run: importing pyarrow in each
guest process would cost more than the run itself.
"""

import struct
from enum import IntEnum
from mmap import mmap
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
    COMPUTED = 13
    """Host finished its step ``block`` of computing, ``value`` ns after it began it."""


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
do not agree, 2 where nothing was compared or a contributor's state was old."""

WRONG, EXACT, NOT_CHECKED = 0, 1, 2
CHUNK_EVENTS = 2048
"""Events of a chunk; its bytes are whole pages of memory."""

_CHUNK_BYTES = CHUNK_EVENTS * EVENT_DTYPE.itemsize
_UNUSED = 0
"""``kind`` of the room that a process left that was killed."""
_EVENT = struct.Struct("<qIBBBBIIQ")


class Recorder:
    """Takes events into pages of its file, where they survive a sudden end of the process.

    The pages are mapped: an event costs no system call, and is in the file as soon as
    it is written, for whoever reads it on the same machine.

    Parameters
    ----------
    path
        The file, raw little-endian records; without one, events stay in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else path.open("w+b")
        self._full: list[mmap] = []
        self._full_bytes = 0
        self._chunk = self._new_chunk()
        self._used = 0

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

    def page(self, events: int) -> tuple[mmap, int]:
        """Room for one event, or for none: a chunk, and its bytes already used.

        Whoever writes there says with `written` how many bytes are used then.
        """
        if self._used + events * EVENT_DTYPE.itemsize > _CHUNK_BYTES:
            if self._file is None:
                self._full.append(self._chunk)
            self._full_bytes += _CHUNK_BYTES
            self._chunk = self._new_chunk()
            self._used = 0
        return self._chunk, self._used

    def written(self, used_bytes: int) -> None:
        """Set how many bytes of the chunk of `page` are used."""
        self._used = used_bytes

    def array(self) -> npt.NDArray[np.void]:
        """All events so far, shape (n,), dtype `EVENT_DTYPE`."""
        if self._file is None:
            whole = b"".join([*self._full, self._chunk[: self._used]])
        else:
            self._file.seek(0)
            whole = self._file.read(self._full_bytes + self._used)
        return np.frombuffer(whole, dtype=EVENT_DTYPE)

    def close(self) -> None:
        """Cut the file to the events that it holds, and close it."""
        if self._file is not None:
            self._file.truncate(self._full_bytes + self._used)
            self._file.close()

    def _new_chunk(self) -> mmap:
        if self._file is None:
            return mmap(-1, _CHUNK_BYTES)
        self._file.truncate(self._full_bytes + _CHUNK_BYTES)
        return mmap(self._file.fileno(), _CHUNK_BYTES, offset=self._full_bytes)


def read_events(path: Path) -> npt.NDArray[np.void]:
    """Read what a `Recorder` wrote, closed or not; shape (n,), dtype `EVENT_DTYPE`."""
    events: npt.NDArray[np.void] = np.frombuffer(path.read_bytes(), dtype=EVENT_DTYPE)
    used: npt.NDArray[np.void] = events[events["kind"] != _UNUSED]
    return used

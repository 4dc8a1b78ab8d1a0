"""Bursts of datagrams, built and taken apart as a whole.

One structured array per buffer that UDP_SEGMENT sends or UDP_GRO receives; a
Python call per datagram only for its checksum. Whatever does not fit the format
is counted by its reason and handed to nobody.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from agents.wire import (
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC,
    VERSION,
    Cause,
    DType,
    PacketType,
    Values,
    datagram_bytes,
)

Bytes = npt.NDArray[np.uint8]
Headers = npt.NDArray[np.void]
Marks = npt.NDArray[np.integer[Any]]

_HEADER: Final = struct.Struct(">HBBBBHIIIHBBQQIhHII")
_WORDS = np.dtype(
    {
        "names": ["start", "job_id", "origin", "bitmap", "scale"],
        "formats": [">u8", ">u4", "V24", "V8", "V4"],
        "offsets": [0, 8, 0, 32, 44],
        "itemsize": HEADER_BYTES,
    }
)
"""The header in larger pieces, to compare several fields at once: ``start`` is
magic to n_elem, ``origin`` magic to cause, ``scale`` exponent and weight."""
_KEY: Final = ("origin", "bitmap", "scale")
"""What the datagrams of a run have in common."""


class Packer:
    """A reusable buffer in which bursts are built in place.

    Parameters
    ----------
    rows, elements
        Datagrams per burst at most, and elements of a full datagram.
    kind, job_id, epoch, src, dtype
        Header fields that never change in this buffer.

    Attributes
    ----------
    payload
        Elements to fill in, shape (rows, elements), as they are on the wire.
    """

    def __init__(
        self,
        rows: int,
        elements: int,
        *,
        kind: PacketType,
        job_id: int,
        epoch: int,
        src: int,
        dtype: DType = DType.I32,
    ) -> None:
        self.rows = rows
        self.elements = elements
        self._element_bytes = dtype.element_bytes
        self._row_bytes = datagram_bytes(elements, self._element_bytes)
        self._memory = memoryview(bytearray(rows * self._row_bytes))
        buffer = np.frombuffer(self._memory, np.uint8).reshape(rows, self._row_bytes)
        self._headers: Headers = buffer[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        self.payload: Values = buffer[:, HEADER_BYTES:].view(dtype.on_wire)
        self._ramp = np.arange(rows, dtype=np.uint64)
        fixed = {"magic": MAGIC, "version": VERSION, "type": kind, "dtype": dtype}
        fixed |= {"n_elem": elements, "job_id": job_id, "epoch": epoch, "src": src}
        for name, value in fixed.items():
            self._headers[name] = value

    def address(
        self,
        *,
        round_index: int,
        clique: int,
        bitmap: int,
        cause: int = Cause.NONE,
        flags: int = 0,
        exponent: int = 0,
    ) -> None:
        """Set the fields that are the same in all datagrams of a burst."""
        headers = self._headers
        headers["round"] = round_index
        headers["clique"] = clique
        headers["cause"] = cause
        headers["bitmap"] = bitmap
        headers["weight"] = bitmap.bit_count()
        headers["flags"] = flags
        headers["exponent"] = exponent

    def mark(self, flags: Marks, exponents: Marks) -> None:
        """Set flags and exponents of the first datagrams one by one, shape (count,)."""
        self._headers["flags"][: len(flags)] = flags
        self._headers["exponent"][: len(exponents)] = exponents

    def seal(
        self, count: int, block: int, seq: int, t_send_us: int, last_elements: int
    ) -> memoryview:
        """Number and checksum the first ``count`` datagrams.

        Parameters
        ----------
        count
            Datagrams of this burst; only the last may be short.
        block, seq
            Of the first one; the others follow on. ``seq`` wraps at 2³².
        t_send_us
            Time of sending, microseconds since the start of the run, wraps likewise.
        last_elements
            Elements of the last datagram.

        Returns
        -------
        memoryview
            The bytes to send, valid until the next call.
        """
        headers = self._headers[:count]
        headers["weight_id"] = self._ramp[:count] + np.uint64(block)
        headers["seq"] = (self._ramp[:count] + np.uint64(seq)) & np.uint64(0xFFFFFFFF)
        headers["t_send_us"] = t_send_us & 0xFFFFFFFF
        headers["n_elem"] = self.elements
        headers["n_elem"][-1] = last_elements
        headers["crc"] = 0
        size = self._row_bytes
        burst = self._memory[
            : (count - 1) * size + datagram_bytes(last_elements, self._element_bytes)
        ]
        headers["crc"] = [crc32c(burst[i * size : (i + 1) * size]) for i in range(count)]
        return burst


class Batch(NamedTuple):
    """Valid datagrams of one size: headers (n,) and elements (n, n_elem), views of the buffer."""

    headers: Headers
    values: Values


class Run(NamedTuple):
    """Consecutive blocks of one source: what a table takes in one step."""

    round: int
    clique: int
    src: int
    cause: int
    bitmap: int
    block: int
    seq: int
    values: Values
    """Shape (count, n_elem), a view of the receive buffer."""
    epoch: int = 0
    flags: int = 0
    exponent: int = 0


def parse(
    buffer: Bytes,
    length: int,
    segment: int,
    *,
    kind: PacketType,
    job_id: int,
    rejects: Counter[str],
    dtype: DType = DType.I32,
    or_kind: PacketType | None = None,
) -> list[Batch]:
    """Take the datagrams of one receive buffer apart and check each of them.

    Parameters
    ----------
    buffer, length
        Received bytes, and how many of them there are. Checksum fields are zeroed.
    segment
        Size of each datagram (UDP_GRO); the last one may be shorter.
    kind, job_id, dtype
        What is expected here.
    or_kind
        Another kind that is as welcome.
    rejects
        Gets one count per refused datagram under its reason: short, magic,
        version, type, dtype, job, length, crc.

    Returns
    -------
    list of Batch
        At most two: those of full size and the short last one.
    """
    whole, tail = divmod(length, segment)
    least_bytes = datagram_bytes(1, dtype.element_bytes)
    batches = []
    for offset, count, size in ((0, whole, segment), (whole * segment, 1, tail)):
        if count == 0 or (size == 0 and whole):
            continue
        if size < least_bytes:
            rejects["short"] += count
            continue
        rows = buffer[offset : offset + count * size].reshape(count, size)
        batch = _check(rows, (kind, or_kind or kind), job_id, dtype, rejects)
        if len(batch.headers):
            batches.append(batch)
    return batches


def _check(
    rows: Bytes,
    kinds: tuple[PacketType, PacketType],
    job_id: int,
    dtype: DType,
    rejects: Counter[str],
) -> Batch:
    """Check datagrams of one size, shape (n, size); count and leave out the bad ones."""
    size = rows.shape[1]
    n_elem, odd_bytes = divmod(size - HEADER_BYTES, dtype.element_bytes)
    headers: Headers = rows[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
    values: Values = rows[:, HEADER_BYTES : size - odd_bytes].view(dtype.on_wire)
    sent: list[int] = headers["crc"].tolist()
    headers["crc"] = 0
    actual = [crc32c(row) for row in rows]
    words = headers.view(_WORDS)
    start, count = _start_word(kinds[0], dtype, n_elem), len(rows)
    # Lists, because for a few datagrams numpy's comparisons cost more.
    usual = words["start"].tolist() == [start] * count and odd_bytes == 0
    if usual and words["job_id"].tolist() == [job_id] * count and sent == actual:
        return Batch(headers, values)
    reasons = {
        "magic": headers["magic"] != MAGIC,
        "version": headers["version"] != VERSION,
        "type": (headers["type"] != kinds[0]) & (headers["type"] != kinds[1]),
        "dtype": headers["dtype"] != dtype,
        "job": headers["job_id"] != job_id,
        "length": (headers["n_elem"] != n_elem) | (odd_bytes != 0),
        "crc": np.array(sent) != np.array(actual),
    }
    bad = np.logical_or.reduce(list(reasons.values()))
    for i in np.flatnonzero(bad):
        rejects[next(reason for reason, failed in reasons.items() if failed[i])] += 1
    return Batch(headers[~bad], values[~bad])


def _start_word(kind: PacketType, dtype: DType, n_elem: int) -> int:
    """First eight bytes of a valid header without flags, as one number."""
    return MAGIC << 48 | VERSION << 40 | kind << 32 | dtype << 16 | n_elem


def runs(batch: Batch) -> Iterator[Run]:
    """Split a batch into runs of consecutive blocks of one source, in order of arrival."""
    headers, values = batch
    words = headers.view(_WORDS)
    ids = headers["weight_id"].tolist()
    keys = [words[name].tolist() for name in _KEY]
    start, count = 0, len(ids)
    alike = all(key.count(key[0]) == count for key in keys)
    if not alike or ids != list(range(ids[0], ids[0] + count)):
        for i in range(1, count):
            if ids[i] != ids[i - 1] + 1 or any(key[i] != key[i - 1] for key in keys):
                yield _run(headers[start], values[start:i])
                start = i
    yield _run(headers[start], values[start:])


def _run(first: np.void, values: Values) -> Run:
    fields = _HEADER.unpack(first.tobytes())
    return Run(
        round=fields[8],
        clique=fields[9],
        src=fields[10],
        cause=fields[11],
        block=fields[12],
        bitmap=fields[13],
        seq=fields[14],
        values=values,
        epoch=fields[7],
        flags=fields[3],
        exponent=fields[15],
    )

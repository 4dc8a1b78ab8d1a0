"""The datagrams of the recovery protocol: requests, heartbeats, ends of rounds.

They have the header of every other datagram and a payload of 32-bit words:

========== ===================================================================
NACK       ranges of seq (first, count) of the stream whose epoch is in the header;
           with `REPAIR`: ranges of blocks of the header's round
UNAVAILABLE the ranges that nobody has any more, in the same way
HEARTBEAT  the seq used next, the oldest seq still held; the header's round is the
           first one that has not ended
END_ROUND  the same two numbers; the header's round has ended
========== ===================================================================
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c

from agents.recovery.gaps import Range
from agents.recovery.serial import WRAP
from agents.wire import (
    ELEMENT_BYTES,
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC,
    VERSION,
    DType,
    PacketType,
)

REPAIR: Final = 1 << 7
"""Flag: the ranges are blocks of an island's stream, not numbers of an aggregator's."""
MAX_RANGES: Final = 64
CONTROL_TYPES: Final = (
    PacketType.NACK,
    PacketType.UNAVAILABLE,
    PacketType.HEARTBEAT,
    PacketType.END_ROUND,
)
LONGEST_BYTES: Final = HEADER_BYTES + 2 * ELEMENT_BYTES * MAX_RANGES

_WORDS = np.dtype("<u4")
_STANDINGS = (PacketType.HEARTBEAT, PacketType.END_ROUND)


class Control(NamedTuple):
    """One datagram of the protocol."""

    kind: PacketType
    src: int
    """City of the sender."""
    epoch: int
    """Of the process whose stream is meant."""
    round: int = 0
    seq: int = 0
    """Running number among the sender's control datagrams."""
    flags: int = 0
    ranges: tuple[Range, ...] = ()
    """Of a HEARTBEAT or END_ROUND: the one pair (next, oldest)."""


def encode(message: Control, job_id: int) -> bytes:
    """Bytes of a control datagram; it has `MAX_RANGES` ranges at most."""
    words = np.array(message.ranges, _WORDS).ravel()
    header = np.zeros(1, HEADER_DTYPE)
    fields = {"magic": MAGIC, "version": VERSION, "type": message.kind, "dtype": DType.I32}
    fields |= {"flags": message.flags, "n_elem": len(words), "job_id": job_id}
    fields |= {"epoch": message.epoch, "round": message.round, "src": message.src}
    fields["seq"] = message.seq % WRAP
    for name, value in fields.items():
        header[name] = value
    payload = words.tobytes()
    header["crc"] = crc32c(header.tobytes() + payload)
    return header.tobytes() + payload


def decode(datagram: bytes, job_id: int, rejects: Counter[str]) -> Control | None:
    """Check a datagram and take it apart.

    Parameters
    ----------
    datagram
        As it came.
    job_id
        What is expected here.
    rejects
        Gets one count under the reason if it is refused: short, magic, version,
        type, dtype, job, length, crc, range.
    """
    reason, message = _decode(datagram, job_id)
    if message is None:
        rejects[reason] += 1
    return message


def chunks(ranges: Sequence[Range]) -> Iterable[tuple[Range, ...]]:
    """Cut a list of ranges into what fits one datagram each."""
    for start in range(0, len(ranges), MAX_RANGES):
        yield tuple(ranges[start : start + MAX_RANGES])


def _decode(datagram: bytes, job_id: int) -> tuple[str, Control | None]:
    if len(datagram) < HEADER_BYTES:
        return "short", None
    header = np.frombuffer(datagram[:HEADER_BYTES], HEADER_DTYPE)[0]
    payload = datagram[HEADER_BYTES:]
    checks = {
        "magic": header["magic"] == MAGIC,
        "version": header["version"] == VERSION,
        "type": header["type"] in CONTROL_TYPES,
        "dtype": header["dtype"] == DType.I32,
        "job": header["job_id"] == job_id,
        "length": ELEMENT_BYTES * int(header["n_elem"]) == len(payload)
        and 0 < len(payload) <= LONGEST_BYTES - HEADER_BYTES
        and len(payload) % (2 * ELEMENT_BYTES) == 0,
        "crc": header["crc"] == _checksum(datagram),
    }
    for reason, passed in checks.items():
        if not passed:
            return reason, None
    words = np.frombuffer(payload, _WORDS).tolist()
    ranges = tuple(zip(words[::2], words[1::2], strict=True))
    kind = PacketType(int(header["type"]))
    if kind in _STANDINGS and not _is_standing(ranges):
        return "range", None
    if kind not in _STANDINGS and not all(count for _, count in ranges):
        return "range", None
    return "", Control(
        kind=kind,
        src=int(header["src"]),
        epoch=int(header["epoch"]),
        round=int(header["round"]),
        seq=int(header["seq"]),
        flags=int(header["flags"]),
        ranges=ranges,
    )


def _is_standing(ranges: tuple[Range, ...]) -> bool:
    """Whether it is one pair of numbers, the oldest not above the next."""
    return len(ranges) == 1 and (ranges[0][0] - ranges[0][1]) % WRAP < WRAP // 2


def _checksum(datagram: bytes) -> int:
    at = HEADER_BYTES - ELEMENT_BYTES  # the crc field ends the header
    return int(crc32c(datagram[:at] + bytes(ELEMENT_BYTES) + datagram[HEADER_BYTES:]))

"""The packet format: a 56-byte header in network order, then little-endian elements.

Also how a stream is cut into datagrams, and what they cost on the wire.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError

MAGIC: Final = 0x434E
VERSION: Final = 1
MAX_SOURCES: Final = 64
MAX_SEGMENTS: Final = 7
"""Datagrams per burst: seven at MTU 9000 stay below 64 kB."""
MAX_PAYLOAD_BYTES: Final = 65507
"""Longest UDP payload: 65535 less the IP and UDP headers."""

ETHERNET_BYTES: Final = 14
IP_UDP_BYTES: Final = 28
ELEMENT_BYTES: Final = 4
LARGE_MTU: Final = 8276
"""The least MTU that holds 2048 elements: from it on, a datagram holds a power of two."""
ELEMENT_GRAIN: Final = 32
"""Below it, a datagram holds a multiple of this."""

HEADER_DTYPE = np.dtype(
    [
        ("magic", ">u2"),
        ("version", "u1"),
        ("type", "u1"),
        ("flags", "u1"),
        ("dtype", "u1"),
        ("n_elem", ">u2"),
        ("job_id", ">u4"),
        ("epoch", ">u4"),
        ("round", ">u4"),
        ("clique", ">u2"),
        ("src", "u1"),
        ("cause", "u1"),
        ("weight_id", ">u8"),
        ("bitmap", ">u8"),
        ("seq", ">u4"),
        ("exponent", ">i2"),
        ("weight", ">u2"),
        ("t_send_us", ">u4"),
        ("crc", ">u4"),
    ]
)
"""``weight_id`` is the block's index in the flat parameter vector; ``bitmap``
and ``weight`` are the set and the number of contributors; ``seq`` counts the
datagrams of one sender or of one aggregator."""
HEADER_BYTES: Final = HEADER_DTYPE.itemsize
ELEMENT_DTYPE = np.dtype("<i4")

Elements = npt.NDArray[np.int32]


class PacketType(IntEnum):
    """What a datagram is."""

    DATA = 1
    AGG = 2
    NACK = 3
    HEARTBEAT = 4
    UNAVAILABLE = 5
    END_ROUND = 6
    STATUS = 7


class Cause(IntEnum):
    """Why a sum left the aggregator."""

    NONE = 0
    COMPLETE = 1
    TIMEOUT = 2
    COLLISION = 3
    FLUSH = 4
    BYPASS = 5


class DType(IntEnum):
    """What the elements are. Runs use ``I32``; the others are reserved."""

    I32 = 1
    I32_EXPONENT = 2
    F32 = 3
    BF16 = 4


def elements_per_datagram(mtu_bytes: int) -> int:
    """Elements of a full datagram, so that nothing is ever fragmented.

    2048 on a jumbo path (8248 bytes of UDP payload), 352 at MTU 1500 (1464 bytes).

    Raises
    ------
    InputError
        The MTU does not hold a header and a few elements.
    """
    room = (mtu_bytes - IP_UDP_BYTES - HEADER_BYTES) // ELEMENT_BYTES
    if mtu_bytes >= LARGE_MTU:
        return 1 << (room.bit_length() - 1)
    elements = room // ELEMENT_GRAIN * ELEMENT_GRAIN
    if elements < ELEMENT_GRAIN:
        raise InputError(f"an MTU of {mtu_bytes} bytes holds no datagram; use 1500 or 9000")
    return elements


def burst_limit(elements: int) -> int:
    """How many full datagrams fit one UDP_SEGMENT burst."""
    return min(MAX_SEGMENTS, MAX_PAYLOAD_BYTES // datagram_bytes(elements))


def datagram_bytes(n_elem: int) -> int:
    """UDP payload of a datagram with ``n_elem`` elements."""
    return HEADER_BYTES + ELEMENT_BYTES * n_elem


def wire_bytes(n_elem: int) -> int:
    """Bytes that a shaped link charges for a datagram: Ethernet, IP, UDP, header, elements."""
    return ETHERNET_BYTES + IP_UDP_BYTES + datagram_bytes(n_elem)


@dataclass(frozen=True)
class StreamLayout:
    """How one stream is cut into blocks: all of ``elements``, the last of ``last_elements``."""

    blocks: int
    elements: int
    last_elements: int

    @property
    def wire_bytes(self) -> int:
        """Bytes of the whole stream on the wire."""
        return (self.blocks - 1) * wire_bytes(self.elements) + wire_bytes(self.last_elements)

    def elements_of(self, block: int) -> int:
        """Elements of one block."""
        return self.last_elements if block == self.blocks - 1 else self.elements

    def burst_bytes(self, block: int, count: int) -> int:
        """Bytes on the wire of ``count`` blocks from ``block`` on."""
        short = self.elements - self.elements_of(block + count - 1)
        return count * wire_bytes(self.elements) - ELEMENT_BYTES * short


def stream_layout(payload_wire_bytes: float, mtu_bytes: int) -> StreamLayout:
    """Cut a stream of so many bytes on the wire into blocks.

    The total agrees to within one element; where the rest is too short for a
    datagram of its own, to within half a header.

    Raises
    ------
    InputError
        The stream is shorter than one datagram with one element.
    """
    elements = elements_per_datagram(mtu_bytes)
    full, least = wire_bytes(elements), wire_bytes(1)
    if payload_wire_bytes < least:
        raise InputError(
            f"a payload of {payload_wire_bytes:.0f} bytes on the wire is less than one "
            f"datagram ({least} bytes); raise the payload or lower the scale"
        )
    whole = int(payload_wire_bytes // full)
    rest = payload_wire_bytes - whole * full
    if whole and rest < least / 2:
        return StreamLayout(whole, elements, elements)
    last = max(1, round((rest - wire_bytes(0)) / ELEMENT_BYTES))
    return StreamLayout(whole + 1, elements, last)

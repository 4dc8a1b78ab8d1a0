"""The packet format: a 56-byte header in network order, then little-endian elements.

Also how a stream is cut into datagrams, and what they cost on the wire.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError, suggestion

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
"""Of an element in memory, whatever its type; on the wire `DType.element_bytes`."""
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
Values = npt.NDArray[Any]
"""Elements of the run's type: int32, float32, or uint16 where bf16 is on the wire."""


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
    """What the elements are; one type for a whole run."""

    I32 = 1
    I32_EXPONENT = 2
    """Elements times two to the power of the header's exponent."""
    F32 = 3
    BF16 = 4
    """The upper half of a float32."""

    @property
    def on_wire(self) -> np.dtype[Any]:
        """Type of an element in a datagram."""
        return _ON_WIRE[self]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in a datagram."""
        return self.on_wire.itemsize


_ON_WIRE: Final[dict[DType, np.dtype[Any]]] = {
    DType.I32: ELEMENT_DTYPE,
    DType.I32_EXPONENT: ELEMENT_DTYPE,
    DType.F32: np.dtype("<f4"),
    DType.BF16: np.dtype("<u2"),
}
_DTYPES: Final = {dtype.name.lower().replace("_", "-"): dtype for dtype in DType}


class Flag(IntFlag):
    """What a sum's reader must know. Unknown bits are handed on like these."""

    SATURATED = 1
    """An element left the range of int32 and was set to its limit."""
    NONFINITE = 2
    """An element is infinite or no number."""
    STALE = 4
    """A contributor lacked a sum of an earlier round, and sent what it had before."""


def dtype_named(name: str) -> DType:
    """Element type of a config's name: i32, i32-exponent, f32, bf16.

    Raises
    ------
    InputError
        There is no such type.
    """
    if name not in _DTYPES:
        raise InputError(f'unknown dtype "{name}"; {suggestion(name, _DTYPES)}')
    return _DTYPES[name]


def check_sources(count: int) -> None:
    """Refuse more islands than a contributor bitmap has bits.

    Raises
    ------
    InputError
        There are more than `MAX_SOURCES`.
    """
    if count > MAX_SOURCES:
        raise InputError(
            f"{count} islands need {count} bits of contributors, the header has {MAX_SOURCES}; "
            f"use a topology of at most {MAX_SOURCES} cities"
        )


def elements_per_datagram(mtu_bytes: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """Elements of a full datagram, so that nothing is ever fragmented.

    With four bytes each, 2048 on a jumbo path (8248 bytes of UDP payload) and
    352 at MTU 1500 (1464 bytes).

    Raises
    ------
    InputError
        The MTU does not hold a header and a few elements.
    """
    room = (mtu_bytes - IP_UDP_BYTES - HEADER_BYTES) // element_bytes
    if mtu_bytes >= LARGE_MTU:
        return 1 << (room.bit_length() - 1)
    elements = room // ELEMENT_GRAIN * ELEMENT_GRAIN
    if elements < ELEMENT_GRAIN:
        raise InputError(f"an MTU of {mtu_bytes} bytes holds no datagram; use 1500 or 9000")
    return elements


def burst_limit(elements: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """How many full datagrams fit one UDP_SEGMENT burst."""
    return min(MAX_SEGMENTS, MAX_PAYLOAD_BYTES // datagram_bytes(elements, element_bytes))


def datagram_bytes(n_elem: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """UDP payload of a datagram with ``n_elem`` elements."""
    return HEADER_BYTES + element_bytes * n_elem


def wire_bytes(n_elem: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """Bytes that a shaped link charges for a datagram: Ethernet, IP, UDP, header, elements."""
    return ETHERNET_BYTES + IP_UDP_BYTES + datagram_bytes(n_elem, element_bytes)


@dataclass(frozen=True)
class StreamLayout:
    """How one stream is cut into blocks: all of ``elements``, the last of ``last_elements``."""

    blocks: int
    elements: int
    last_elements: int
    element_bytes: int = ELEMENT_BYTES
    """Of an element on the wire."""

    @property
    def wire_bytes(self) -> int:
        """Bytes of the whole stream on the wire."""
        return self.burst_bytes(0, self.blocks)

    @property
    def total_elements(self) -> int:
        """Elements of the whole stream."""
        return (self.blocks - 1) * self.elements + self.last_elements

    def elements_of(self, block: int) -> int:
        """Elements of one block."""
        return self.last_elements if block == self.blocks - 1 else self.elements

    def has(self, block: int, count: int, n_elem: int) -> bool:
        """Whether there are ``count`` blocks from ``block`` on, all of so many elements."""
        last = block + count - 1
        return last < self.blocks and self.elements_of(block) == n_elem == self.elements_of(last)

    def burst_bytes(self, block: int, count: int) -> int:
        """Bytes on the wire of ``count`` blocks from ``block`` on."""
        short = self.elements - self.elements_of(block + count - 1)
        return count * wire_bytes(self.elements, self.element_bytes) - self.element_bytes * short


def stream_layout(
    payload_wire_bytes: float, mtu_bytes: int, element_bytes: int = ELEMENT_BYTES
) -> StreamLayout:
    """Cut a stream of so many bytes on the wire into blocks.

    The total agrees to within one element; where the rest is too short for a
    datagram of its own, to within half a header.

    Raises
    ------
    InputError
        The stream is shorter than one datagram with one element.
    """
    elements = elements_per_datagram(mtu_bytes, element_bytes)
    full, least = wire_bytes(elements, element_bytes), wire_bytes(1, element_bytes)
    if payload_wire_bytes < least:
        raise InputError(
            f"a payload of {payload_wire_bytes:.0f} bytes on the wire is less than one "
            f"datagram ({least} bytes); raise the payload or lower the scale"
        )
    whole = int(payload_wire_bytes // full)
    rest = payload_wire_bytes - whole * full
    if whole and rest < least / 2:
        return StreamLayout(whole, elements, elements, element_bytes)
    last = max(1, round((rest - wire_bytes(0)) / element_bytes))
    return StreamLayout(whole + 1, elements, last, element_bytes)

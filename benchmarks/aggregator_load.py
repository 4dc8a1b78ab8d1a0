"""The other side of the aggregator's benchmark: senders, and the sink of the sums."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from agents.bursts import Packer
from agents.context import Endpoint
from agents.wire import (
    ELEMENT_DTYPE,
    HEADER_BYTES,
    HEADER_DTYPE,
    PacketType,
    StreamLayout,
    datagram_bytes,
)

JOB_ID: Final = 0x5EED
_UDP_SEGMENT: Final = 103
_UDP_GRO: Final = 104
_SOL_UDP: Final = 17
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_BUFFER_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 65507
_MOST_SEGMENTS: Final = 64
PARTS: Final = 16
"""Of a round. A round of an experiment has gigabytes, beside which what begins and ends it costs
nothing; a part fits the caches that senders and aggregator share."""


def segments(size: int) -> int:
    """Datagrams of ``size`` bytes in one call: at most 64, and at most what IP can carry."""
    return min(_MOST_SEGMENTS, _MOST_BYTES // size)


def receiving_socket() -> socket.socket:
    """A socket on a free port of the loopback interface, with UDP_GRO."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 1000))
    sock.bind(("127.0.0.1", 0))
    return sock


def sending_socket(size: int) -> socket.socket:
    """A socket whose bursts the kernel cuts into datagrams of ``size`` bytes."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    sock.setsockopt(_SOL_UDP, _UDP_SEGMENT, size)
    return sock


@dataclass(frozen=True)
class Shape:
    """What is sent: ``senders`` streams of ``blocks`` datagrams a part, whole bursts of them.

    Attributes
    ----------
    lag
        Bursts by which each sender is behind the one before it, as in a network
        whose senders are not in step: so many blocks are held at once.
    """

    size: int
    senders: int
    blocks: int
    lag: int

    @property
    def stride(self) -> int:
        """From a part's first block to that of the next one; numbers between are left out.

        A power of 2: the numbers of two parts differ in the same bits from block to block.
        """
        return 1 << (self.blocks - 1).bit_length()

    @property
    def layout(self) -> StreamLayout:
        """All blocks are full."""
        elements = (self.size - HEADER_BYTES) // 4
        return StreamLayout(PARTS * self.stride, elements, elements)

    @property
    def datagrams(self) -> int:
        """Of all senders in one part."""
        return self.senders * self.blocks

    @property
    def held_blocks(self) -> int:
        """Blocks between the first sender and the last."""
        return min(self.blocks, ((self.senders - 1) * self.lag + 1) * segments(self.size))


def order(bursts: int, senders: int, lag: int) -> Iterator[tuple[int, int]]:
    """Sender and number of each burst of a part, as they follow each other."""
    for step in range(bursts + (senders - 1) * lag):
        for sender in range(senders):
            if 0 <= step - sender * lag < bursts:
                yield sender, step - sender * lag


class Streams:
    """All datagrams of one part; the next part's differ in their round or block, and checksum.

    CRC-32C is linear: in datagrams of one length, the same other bits in all of them change
    all checksums by the same bits.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        self._shape = shape
        generator = np.random.default_rng(seed)
        rows = shape.senders * shape.blocks
        self._memory = np.zeros((rows, shape.size), np.uint8)
        self._headers = self._memory[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        self._bytes = memoryview(self._memory).cast("B")  # type: ignore[arg-type]
        values = self._memory[:, HEADER_BYTES:].view(ELEMENT_DTYPE)
        for sender in range(shape.senders):
            packer = self._packer(sender)
            mine = slice(sender * shape.blocks, (sender + 1) * shape.blocks)
            packer.payload[:] = generator.integers(-(2**26), 2**26, packer.payload.shape)
            packer.address(round_index=0, clique=0, bitmap=1 << sender)
            burst = packer.seal(shape.blocks, 0, 0, 0, shape.layout.elements)
            self._memory[mine] = np.frombuffer(burst, np.uint8).reshape(-1, shape.size)
        self.sums: npt.NDArray[np.int32] = values.reshape(shape.senders, shape.blocks, -1).sum(
            axis=0, dtype=np.int32
        )

    def _packer(self, sender: int) -> Packer:
        shape = self._shape
        return Packer(
            shape.blocks,
            shape.layout.elements,
            kind=PacketType.DATA,
            job_id=JOB_ID,
            epoch=1,
            src=sender,
        )

    def turn(self, part: int) -> None:
        """Let all datagrams be of another part; they are counted through all rounds."""
        round_index, base = part // PARTS, part % PARTS * self._shape.stride
        row = self._memory[0].copy()
        header = row[:HEADER_BYTES].view(HEADER_DTYPE)
        crc, first_block = int(header["crc"][0]), int(header["weight_id"][0])
        header["crc"], header["round"], header["weight_id"] = 0, round_index, base
        self._headers["round"] = round_index
        self._headers["weight_id"] ^= np.uint64(first_block ^ base)
        self._headers["crc"] ^= np.uint32(crc ^ crc32c(row))

    def burst(self, sender: int, block: int, count: int) -> memoryview:
        """Consecutive datagrams of one sender."""
        size = self._shape.size
        first = sender * self._shape.blocks + block
        return self._bytes[first * size : (first + count) * size]


class Sink:
    """Counts the sums that come back, and compares one of each buffer with the true one."""

    def __init__(self, shape: Shape, sums: npt.NDArray[np.int32]) -> None:
        self.blocks = 0
        self.wrong = 0
        self.socket = receiving_socket()
        self._sums = sums
        self._size = shape.size
        self._stride = shape.stride
        self._mask = (1 << shape.senders) - 1
        self._into = [bytearray(1 << 16)]
        self._row = np.frombuffer(self._into[0], np.uint8)[: shape.size]
        self._header = self._row[:HEADER_BYTES].view(HEADER_DTYPE)

    @property
    def address(self) -> Endpoint:
        """Where it listens."""
        address: Endpoint = self.socket.getsockname()
        return address

    def drain(self) -> None:
        """Take all that has come."""
        with suppress(BlockingIOError):
            while True:
                length = self.socket.recvmsg_into(self._into, 0, socket.MSG_DONTWAIT)[0]
                self.blocks += length // self._size
                self._check()

    def _check(self) -> None:
        header = self._header
        values = self._row[HEADER_BYTES:].view(ELEMENT_DTYPE)
        right = int(header["bitmap"][0]) == self._mask
        right &= bool((values == self._sums[int(header["weight_id"][0]) % self._stride]).all())
        self.wrong += not right


def datagram_elements(size: int) -> int:
    """Elements of a datagram of so many bytes."""
    elements = (size - HEADER_BYTES) // 4
    if datagram_bytes(elements) != size or elements < 1:
        raise ValueError(f"no datagram has {size} bytes")
    return elements

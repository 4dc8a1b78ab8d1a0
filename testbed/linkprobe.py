"""Frames of our own on single directions of links, timed by the kernel at either end.

A packet socket on the sending interface puts each frame through that interface's
shaper; a packet socket on the interface at the other end takes it before the switch
does. Their EtherType is the first of the two that IEEE 802 leaves to local experiments,
for which no switch has a rule, so they go no further and meet no stream.

Arrivals are read out of memory that the kernel fills (packet(7), ``PACKET_RX_RING``):
they cost no system call, however many there are.
"""

import ctypes
import errno
import mmap
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.errors import CliquenetError, MachineError
from testbed.namespaces import Namespace
from testbed.shaping import ETHERNET_HEADER_BYTES, ShapedInterface

ETHERTYPE = 0x88B5
SMALL_FRAME_BYTES = 60
"""The smallest Ethernet frame, without its checksum, which virtual links do not have."""
ARRIVAL = np.dtype(
    [
        ("train", "<u4"),
        ("number", "<u4"),
        ("frame_bytes", "<u4"),
        ("sent_ns", "<i8"),
        ("arrived_ns", "<i8"),
    ]
)
"""One frame that came; ``number`` counts the frames of its direction, times are those of
CLOCK_REALTIME."""

_HEADER = struct.Struct("=6s6s2sIIQ")
_TO, _FROM = bytes.fromhex("020002000002"), bytes.fromhex("020002000001")
_ETHERTYPE = struct.pack("!H", ETHERTYPE)
_ALL_PROTOCOLS = 0x0003
# <linux/if_packet.h>, <asm/socket.h>, <linux/filter.h>
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 263, 5, 6, 10, 23
_TPACKET_V2 = 1
_SO_SNDBUFFORCE, _SO_ATTACH_FILTER = 32, 26
_SEND_BUFFER_BYTES = 1 << 29
_BLOCK_BYTES = 1 << 14
_SLOT_BYTES = 128
_FROM_USER = 1
"""Status bit of a slot that the kernel has filled."""
_SLOT = np.dtype(
    {
        "names": ["status", "frame_bytes", "at", "seconds", "nanoseconds"],
        "formats": ["<u4", "<u4", "<u2", "<u4", "<u4"],
        "offsets": [0, 4, 12, 16, 20],
        "itemsize": _SLOT_BYTES,
    }
)
"""``struct tpacket2_hdr``: ``at`` is where the frame begins in the slot."""
_FRAME = np.dtype([("train", "<u4"), ("number", "<u4"), ("sent_ns", "<u8")])


@dataclass(frozen=True)
class Direction:
    """One direction of a link: where frames go in, and where they come out."""

    shaped: ShapedInterface
    """The sending interface, and what it should do to frames."""
    target: ShapedInterface
    """The interface at the other end, which shapes the way back."""

    @property
    def link(self) -> str:
        """Its name, such as ``nyc→chi``."""
        return self.shaped.link


def directions_of(shaped: Sequence[ShapedInterface]) -> tuple[Direction, ...]:
    """Pair the two ends of every link.

    Raises
    ------
    CliquenetError
        A direction without the one back.
    """
    by_name = {member.link: member for member in shaped}
    found = []
    for member in shaped:
        here, _, there = member.link.partition("→")
        back = by_name.get(f"{there}→{here}")
        if back is None:
            raise CliquenetError(f"link {member.link} has no direction back")
        found.append(Direction(member, back))
    return tuple(found)


class LinkProbe:
    """Sockets at both ends of every direction.

    Parameters
    ----------
    directions
        Where to send and receive.
    frames
        The most that are sent in any direction.

    Raises
    ------
    MachineError
        The kernel has no packet sockets with rings.
    """

    def __init__(self, directions: Sequence[Direction], frames: int) -> None:
        self._numbers = [0] * len(directions)
        self._stack = ExitStack()
        with ExitStack() as opening:
            try:
                self._targets = [opening.enter_context(_Ring(d.target, frames)) for d in directions]
                self._sources = [opening.enter_context(_open_source(d.shaped)) for d in directions]
            except OSError as error:
                raise MachineError(f"cannot probe links: {error.strerror}") from error
            self._stack = opening.pop_all()

    def __enter__(self) -> "LinkProbe":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def send(self, direction: int, train: int, frame_bytes: int) -> bool:
        """Send one frame; false if the sending interface refuses one of that size.

        One that the shaper drops at once has been sent.
        """
        number = self._numbers[direction]
        header = _HEADER.pack(_TO, _FROM, _ETHERTYPE, train, number, time.time_ns())
        try:
            self._sources[direction].send(header.ljust(frame_bytes, b"\0"))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return False
            if error.errno != errno.ENOBUFS:
                raise
        self._numbers[direction] += 1
        return True

    def arrivals(self, direction: int) -> npt.NDArray[np.void]:
        """What has come so far, in its order; shape (n,), dtype `ARRIVAL`."""
        return self._targets[direction].arrivals()

    def overflow(self, direction: int) -> int:
        """Frames for which the receiving socket had no room."""
        return self._targets[direction].overflow()


class _Ring:
    """A packet socket and the memory into which the kernel writes what it receives."""

    def __init__(self, end: ShapedInterface, frames: int) -> None:
        blocks = -(-frames * _SLOT_BYTES // _BLOCK_BYTES)
        slots = blocks * _BLOCK_BYTES // _SLOT_BYTES
        self._socket = _packet_socket(end.namespace)
        self._overflow = 0
        try:
            self._filter()
            self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
            ring = struct.pack("=4I", _BLOCK_BYTES, blocks, _SLOT_BYTES, slots)
            self._socket.setsockopt(_SOL_PACKET, _RX_RING, ring)
            self._memory = mmap.mmap(
                self._socket.fileno(), blocks * _BLOCK_BYTES, mmap.MAP_SHARED, mmap.PROT_READ
            )
            # Every protocol: the switch takes a frame before those who want a certain one.
            self._socket.bind((end.interface, _ALL_PROTOCOLS))
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> "_Ring":
        return self

    def __exit__(self, *exception: object) -> None:
        self._memory.close()
        self._socket.close()

    def arrivals(self) -> npt.NDArray[np.void]:
        raw = bytes(self._memory)
        slots = np.frombuffer(raw, dtype=_SLOT)
        used = np.flatnonzero(slots["status"] & _FROM_USER)
        found = np.zeros(len(used), dtype=ARRIVAL)
        if not len(used):
            return found
        heads = slots[used]
        found["frame_bytes"] = heads["frame_bytes"]
        found["arrived_ns"] = heads["seconds"].astype(np.int64) * 1_000_000_000
        found["arrived_ns"] += heads["nanoseconds"]
        starts = used * _SLOT_BYTES + heads["at"] + ETHERNET_HEADER_BYTES
        bytes_at = starts[:, np.newaxis] + np.arange(_FRAME.itemsize)
        frames = np.frombuffer(raw, dtype=np.uint8)[bytes_at].view(_FRAME)[:, 0]
        for name in ("train", "number", "sent_ns"):
            found[name] = frames[name]
        return found

    def overflow(self) -> int:
        # The kernel counts from one reading to the next.
        _, dropped = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        self._overflow += dropped
        return self._overflow

    def _filter(self) -> None:
        """Let our own EtherType in and nothing else (classic BPF)."""
        program = struct.pack(
            "=HBBIHBBIHBBIHBBI",
            *(0x28, 0, 0, 12),  # load the EtherType
            *(0x15, 0, 1, ETHERTYPE),  # skip one unless it is ours
            *(0x06, 0, 0, 0xFFFF),  # accept
            *(0x06, 0, 0, 0),  # ignore
        )
        held = ctypes.create_string_buffer(program)
        self._socket.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", 4, ctypes.addressof(held))
        )


def _open_source(shaped: ShapedInterface) -> socket.socket:
    source = _packet_socket(shaped.namespace)
    source.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
    source.bind((shaped.interface, 0))
    return source


def _packet_socket(namespace: Namespace | None) -> socket.socket:
    """A packet socket that receives nothing before it is bound to a protocol."""
    if namespace is None:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with namespace.entered():
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)

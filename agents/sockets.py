"""UDP sockets for bursts: segmentation offload, forced buffers, multicast membership.

The socket module lacks the names of several Linux options; their numbers here
are those of the kernel's headers.
"""

import ipaddress
import select
import socket
import struct
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

import numpy as np

from agents.bursts import Bytes
from agents.context import Endpoint
from testbed.errors import MachineError

_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_SO_RXQ_OVFL: Final = 40
_IP_MULTICAST_ALL: Final = 49
_SOL_UDP: Final = 17
_UDP_SEGMENT: Final = 103
_UDP_GRO: Final = 104
_CONTROL_BYTES: Final = 2 * socket.CMSG_SPACE(4)

BUFFER_BYTES: Final = 64 << 20
MULTICAST_TTL: Final = 32
_LARGEST_RECEIVE: Final = 1 << 16
_NS_PER_S: Final = 1_000_000_000
_LONG_WAIT_NS: Final = 1_000_000
_EARLY_FRACTION: Final = 256


def is_group(address: Endpoint) -> bool:
    """Whether an address is that of a multicast group."""
    return ipaddress.ip_address(address[0]).is_multicast


def interface_index(suffix: str) -> int:
    """Index of the one interface, in this network namespace, whose name ends so.

    Raises
    ------
    MachineError
        There is none, or more than one.
    """
    found = [(index, name) for index, name in socket.if_nameindex() if name.endswith(suffix)]
    if len(found) != 1:
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise MachineError(f"one interface must end with {suffix!r}; this namespace has: {names}")
    return found[0][0]


def _force_buffer(sock: socket.socket, forced: int, plain: int) -> int:
    """Make a socket buffer as large as allowed; return its size in bytes."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, forced, BUFFER_BYTES)
    except PermissionError:  # not root: whatever the system's limit allows
        sock.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)
    return sock.getsockopt(socket.SOL_SOCKET, plain)


class BurstSender:
    """Sends bursts; the kernel cuts each into datagrams of ``datagram_bytes``."""

    def __init__(
        self, datagram_bytes: int, interface: int | None, bind: Endpoint | None = None
    ) -> None:
        """Open the socket; ``interface`` is where multicast leaves, if any is sent.

        ``bind`` is its own address, whose port switches may know a path by; None is any.
        """
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        _force_buffer(self._sock, _SO_SNDBUFFORCE, socket.SO_SNDBUF)
        self._sock.setsockopt(_SOL_UDP, _UDP_SEGMENT, datagram_bytes)
        if bind is not None:
            self._sock.bind(bind)
        if interface is not None:
            option = self._sock.setsockopt
            option(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _mreqn("0.0.0.0", interface))  # noqa: S104
            option(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, MULTICAST_TTL)
            option(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)

    def send(self, burst: memoryview, to: Endpoint) -> None:
        """Send one burst.

        Raises
        ------
        OSError
            The kernel did not take all of it.
        """
        sent = self._sock.sendto(burst, to)
        if sent != len(burst):
            raise OSError(f"only {sent} of {len(burst)} bytes went to {to[0]}:{to[1]}")

    def fileno(self) -> int:
        """The socket's file descriptor."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class HasDescriptor(Protocol):
    """What can be waited for."""

    def fileno(self) -> int:
        """Descriptor."""


class BurstReceiver:
    """Receives what UDP_GRO has put together, into one buffer that is reused.

    Parameters
    ----------
    bind
        Address and port; the address is empty for multicast.
    interface
        Where multicast arrives, if any does.
    idle_ns
        Longest time that `receive` waits, in ticks of the kernel (10 ms in the virtual
        machine, whatever fraction of one is asked for); 0: it never waits.

    Attributes
    ----------
    overflow
        How often the kernel threw something away because this socket was full: a
        datagram, or several that UDP_GRO had put together.
    address
        Where the socket is bound.
    buffer
        Where `receive` puts what came; valid until its next call.
    buffer_bytes
        Size of the kernel's buffer as it was granted.
    """

    def __init__(self, bind: Endpoint, *, interface: int | None, idle_ns: int) -> None:
        self.overflow = 0
        self._interface = interface or 0
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        option = self._sock.setsockopt
        self.buffer_bytes = _force_buffer(self._sock, _SO_RCVBUFFORCE, socket.SO_RCVBUF)
        option(_SOL_UDP, _UDP_GRO, 1)
        option(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        option(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        if idle_ns:
            limit = struct.pack("ll", idle_ns // _NS_PER_S, idle_ns % _NS_PER_S // 1000)
            option(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        else:
            self._sock.setblocking(False)
        self._sock.bind(bind)
        self.address: Endpoint = self._sock.getsockname()
        self._into = [bytearray(_LARGEST_RECEIVE)]
        self.buffer: Bytes = np.frombuffer(self._into[0], np.uint8)

    def join(self, groups: Iterable[Endpoint]) -> None:
        """Join multicast groups on this socket's interface."""
        self._change(groups, socket.IP_ADD_MEMBERSHIP, "join")

    def leave(self, groups: Iterable[Endpoint]) -> None:
        """Leave multicast groups on this socket's interface."""
        self._change(groups, socket.IP_DROP_MEMBERSHIP, "leave")

    def _change(self, groups: Iterable[Endpoint], option: int, verb: str) -> None:
        for group, _ in groups:
            try:
                self._sock.setsockopt(socket.IPPROTO_IP, option, _mreqn(group, self._interface))
            except OSError as error:
                hint = "; raise net.ipv4.igmp_max_memberships" if verb == "join" else ""
                raise OSError(
                    error.errno, f"cannot {verb} {group}: {error.strerror}{hint}"
                ) from error

    def fileno(self) -> int:
        """Descriptor."""
        return self._sock.fileno()

    def wait(self, timeout_ns: int, *others: "HasDescriptor") -> "list[HasDescriptor]":
        """Sleep until something has arrived, here or at others, or the time is over.

        Returns those at which something has arrived.

        Linux lets `select` end late by a thousandth of its time-out. A long
        wait therefore ends early, and the caller comes back for the rest.
        """
        if timeout_ns > _LONG_WAIT_NS:
            timeout_ns -= timeout_ns // _EARLY_FRACTION
        timeout_s = max(0, timeout_ns) / 1e9
        sockets: list[HasDescriptor] = [self, *others]
        return select.select(sockets, [], [], timeout_s)[0]

    def receive(self, rejects: Counter[str]) -> tuple[int, int] | None:
        """Receive into `buffer`.

        Parameters
        ----------
        rejects
            Gets a count under ``truncated`` for what did not fit; it is left out.

        Returns
        -------
        tuple of int, or None
            How many bytes came, and the size of each datagram (`agents.bursts.parse`);
            None if nothing came in time.
        """
        while True:
            try:
                length, control, flags, _ = self._sock.recvmsg_into(self._into, _CONTROL_BYTES)
            except BlockingIOError:
                return None
            segment = self._notes(control, max(1, length))
            if not flags & socket.MSG_TRUNC:
                return length, segment
            rejects["truncated"] += 1

    def _notes(self, control: list[tuple[int, int, bytes]], segment: int) -> int:
        """Read what the kernel says beside the bytes; the size of each datagram."""
        for level, name, data in control:
            if level == _SOL_UDP and name == _UDP_GRO:
                segment = int.from_bytes(data[:4], "little")
            elif level == socket.SOL_SOCKET and name == _SO_RXQ_OVFL:
                self.overflow = int.from_bytes(data[:4], "little")
        return segment

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class ControlSocket:
    """A socket for single datagrams, which never waits.

    Parameters
    ----------
    bind
        Where it listens; None if it only sends.
    longest_bytes
        What is longer is cut off to one byte more, so that it is seen to be too long.

    Attributes
    ----------
    address
        Where it is bound.
    """

    def __init__(self, bind: Endpoint | None, longest_bytes: int) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._longest_bytes = longest_bytes
        if bind is not None:
            self._sock.bind(bind)
        self.address: Endpoint = self._sock.getsockname()

    def fileno(self) -> int:
        """Descriptor, for `BurstReceiver.wait`."""
        return self._sock.fileno()

    def receive(self) -> bytes | None:
        """The next datagram; None if there is none."""
        try:
            return self._sock.recv(self._longest_bytes + 1)
        except BlockingIOError:
            return None

    def send(self, datagram: bytes, to: Endpoint) -> None:
        """Send one datagram; the network may lose it, and so may a full buffer here."""
        with suppress(BlockingIOError):
            self._sock.sendto(datagram, to)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def _mreqn(group: str, interface: int) -> bytes:
    """``struct ip_mreqn``: group, local address (any), interface index."""
    return struct.pack("=4s4si", socket.inet_aton(group), bytes(4), interface)


def udp_counters() -> dict[str, int]:
    """The UDP counters of this network namespace, from ``/proc/net/snmp``."""
    with open("/proc/self/net/snmp") as file:  # noqa: PTH123
        rows = [line.split()[1:] for line in file if line.startswith("Udp:")]
    return {name: int(value) for name, value in zip(*rows, strict=True)}

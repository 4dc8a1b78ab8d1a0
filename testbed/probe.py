"""Echoes between all islands of an empty network: round-trip times, and packet sizes.

One process sends ICMP echoes from raw sockets that it opened inside the islands'
namespaces; the other end's kernel answers.
"""

import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.namespaces import Namespace

ECHO_PAYLOAD_BYTES = 56
ECHO_FRAME_BYTES = 14 + 20 + 8 + ECHO_PAYLOAD_BYTES
"""Ethernet, IPv4 and ICMP headers, payload."""
SPACING_S = 0.0010137
"""Time between two probes; no common divisor with round delays, so they rarely queue."""
PATIENCE_S = 1.0
"""How long to wait for an answer beyond the time that it should take."""

_SOL_RAW, _ICMP_FILTER = 255, 1
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
_SO_TIMESTAMPNS = 35
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_ICMP = struct.Struct("!BBHHH")
_STAMP = struct.Struct("!QHH")
_TIMESPEC = struct.Struct("=qq")
_RECEIVE_BYTES = 65536

Matrix = list[list[int | None]]
"""Nanoseconds by sender and receiver; ``None`` on the diagonal and for lost probes."""


@dataclass(frozen=True)
class Probes:
    """What the probes found."""

    rtt_ns: Matrix
    """Smallest round-trip time of the rounds."""
    too_large: tuple[tuple[int, int], ...]
    """Pairs between which a packet of the full MTU, not to be fragmented, got lost."""


def probe(
    namespaces: Sequence[Namespace],
    addresses: Sequence[str],
    *,
    mtu_bytes: int,
    patience_s: float = PATIENCE_S,
    rounds: int = 2,
) -> Probes:
    """Send echoes from each host to each other one, small ones and one of full size.

    Parameters
    ----------
    namespaces, addresses
        The hosts and their IPv4 addresses, in the same order.
    mtu_bytes
        Size of the large packet.
    patience_s
        How long to wait after the last probe; more than the longest round-trip time.
    rounds
        How often the small ones are sent. In the first round the switches learn
        their flows, which takes real time on the real clock.
    """
    prober = _Prober(namespaces, addresses)
    try:
        smallest: Matrix = [[None] * len(addresses) for _ in addresses]
        for number in range(rounds):
            for (i, j), rtt_ns in prober.round(number, ECHO_PAYLOAD_BYTES, patience_s).items():
                before = smallest[i][j]
                smallest[i][j] = rtt_ns if before is None else min(before, rtt_ns)
        large = prober.round(rounds, mtu_bytes - 28, patience_s)
    finally:
        prober.close()
    lost = tuple(pair for pair in prober.pairs if pair not in large)
    return Probes(smallest, lost)


class _Prober:
    """Raw sockets of all hosts and the sending and matching of echoes."""

    def __init__(self, namespaces: Sequence[Namespace], addresses: Sequence[str]) -> None:
        self._sockets = [_open(namespace) for namespace in namespaces]
        self._addresses = addresses
        count = len(addresses)
        self.pairs = [(i, j) for i in range(count) for j in range(count) if i != j]

    def close(self) -> None:
        """Close all sockets."""
        for raw in self._sockets:
            raw.close()

    def round(
        self, number: int, payload_bytes: int, patience_s: float
    ) -> dict[tuple[int, int], int]:
        """One echo per ordered pair; round-trip times in ns of those that were answered."""
        found: dict[tuple[int, int], int] = {}
        for i, j in self.pairs:
            packet = echo_request(number, i, j, payload_bytes, time.time_ns())
            self._sockets[i].sendto(packet, (self._addresses[j], 0))
            self._collect(number, payload_bytes, time.monotonic() + SPACING_S, found)
        self._collect(number, payload_bytes, time.monotonic() + patience_s, found)
        return found

    def _collect(
        self, number: int, payload_bytes: int, until_s: float, found: dict[tuple[int, int], int]
    ) -> None:
        while len(found) < len(self.pairs) and (left_s := until_s - time.monotonic()) > 0:
            ready, _, _ = select.select(self._sockets, [], [], left_s)
            for raw in ready:
                data, ancillary, _, _ = raw.recvmsg(_RECEIVE_BYTES, 64)
                answer = parse_reply(data, number, payload_bytes)
                if answer is not None:
                    pair, sent_ns = answer
                    found[pair] = _arrival_ns(ancillary) - sent_ns


def echo_request(number: int, i: int, j: int, payload_bytes: int, sent_ns: int) -> bytes:
    """An ICMP echo request from host ``i`` to host ``j``; says itself when it was sent."""
    payload = _STAMP.pack(sent_ns, i, j).ljust(payload_bytes, b"\0")
    header = _ICMP.pack(_ECHO_REQUEST, 0, 0, number, 0)
    checksum = internet_checksum(header + payload)
    return _ICMP.pack(_ECHO_REQUEST, 0, checksum, number, 0) + payload


def parse_reply(
    packet: bytes, number: int, payload_bytes: int
) -> tuple[tuple[int, int], int] | None:
    """Pair and sending time in an IPv4 packet, if it answers round ``number`` in full."""
    header_bytes = (packet[0] & 0xF) * 4
    if len(packet) != header_bytes + _ICMP.size + payload_bytes:
        return None
    kind, _, _, round_number, _ = _ICMP.unpack_from(packet, header_bytes)
    if kind != _ECHO_REPLY or round_number != number:
        return None
    sent_ns, i, j = _STAMP.unpack_from(packet, header_bytes + _ICMP.size)
    return (i, j), sent_ns


def internet_checksum(data: bytes) -> int:
    """Internet checksum (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _open(namespace: Namespace) -> socket.socket:
    with namespace.entered():
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    only_replies = ~(1 << _ECHO_REPLY) & 0xFFFFFFFF
    raw.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", only_replies))
    raw.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
    raw.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return raw


def _arrival_ns(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return time.time_ns()

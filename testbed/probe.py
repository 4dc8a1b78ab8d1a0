"""Measures the empty network: round-trip times and packet sizes between all islands.

One process sends ICMP echoes from raw sockets that it opened inside the islands'
namespaces; the other end's kernel answers. The expected times are pure arithmetic.
"""

import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.addressing import island_ip
from testbed.errors import CliquenetError
from testbed.namespaces import Namespace
from testbed.routing import route
from testbed.shaping import serialisation_ns, shape_for
from testbed.topology import Frozen, Topology

if TYPE_CHECKING:
    from testbed.network import Network

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


class RoundTrip(Frozen):
    """Round-trip time of an echo from one island to another, measured and calculated."""

    src: str
    dst: str
    rtt_ns: int | None
    """None if no answer came."""
    expected_ns: int
    lack: str = ""
    """What does not get there and back."""

    @property
    def name(self) -> str:
        """The path, such as ``nyc-chi``."""
        return f"{self.src}-{self.dst}"

    @property
    def error_us(self) -> float | None:
        """Measured against calculated, signed."""
        return None if self.rtt_ns is None else (self.rtt_ns - self.expected_ns) / 1e3


def measure_round_trips(network: "Network", *, scale: float) -> tuple[RoundTrip, ...]:
    """Measure every ordered pair of islands of a network that carries nothing else.

    Parameters
    ----------
    network
        A network whose switches hold their unicast rules.
    scale
        Divisor of rates that it was built with.

    Returns
    -------
    tuple of RoundTrip
        Ordered by sender, then receiver; of those that do not answer, too.
    """
    topology, mtu_bytes = network.topology, network.mtu_bytes
    unicast = route(topology).unicast()
    expected = expected_rtt_ns(topology, unicast, scale=scale, mtu_bytes=mtu_bytes)
    longest_ns = max((ns for row in expected for ns in row if ns is not None), default=0)
    probes = probe(
        network.islands(),
        [island_ip(city) for city in range(len(topology.codes))],
        mtu_bytes=mtu_bytes,
        patience_s=longest_ns / 1e9 + PATIENCE_S,
    )
    return round_trips(probes, topology.codes, expected, mtu_bytes)


def round_trips(
    probes: Probes, codes: Sequence[str], expected_ns: Matrix, mtu_bytes: int
) -> tuple[RoundTrip, ...]:
    """What the probes found of every ordered pair of islands, beside what was expected."""
    return tuple(
        RoundTrip(
            src=codes[i],
            dst=codes[j],
            rtt_ns=probes.rtt_ns[i][j],
            expected_ns=rtt_ns,
            lack=_lack(probes, (i, j), mtu_bytes),
        )
        for i, row in enumerate(expected_ns)
        for j, rtt_ns in enumerate(row)
        if rtt_ns is not None
    )


def expected_rtt_ns(
    topology: Topology, unicast: Mapping[str, Mapping[str, int]], *, scale: float, mtu_bytes: int
) -> Matrix:
    """Round-trip time of an echo between each two islands of the empty network.

    The delays of the links there and back, plus the serialisation of the frame on
    each link and on the four passes of an access link (formula: ours).

    Parameters
    ----------
    topology
        Cities and links.
    unicast
        Destination city to (city to the edge that leads on), as in the plan.
    scale
        Divisor of rates.
    mtu_bytes
        As for `shape_for`.
    """
    wan_ns = []
    for edge in topology.edges:
        shape = shape_for(edge.delay_ms, edge.rate_gbps, scale, mtu_bytes)
        per_frame_ns = serialisation_ns(ECHO_FRAME_BYTES, shape.rate_bytes_per_s)
        wan_ns.append(shape.delay_ns + per_frame_ns)
    access_ns = []
    for city in topology.cities:
        shape = shape_for(0.0, city.access_rate_gbps, scale, mtu_bytes)
        access_ns.append(serialisation_ns(ECHO_FRAME_BYTES, shape.rate_bytes_per_s))
    expected: Matrix = []
    for i, here in enumerate(topology.codes):
        row: list[int | None] = []
        for j, there in enumerate(topology.codes):
            ways = (*_way(topology, unicast, here, there), *_way(topology, unicast, there, here))
            access = 2 * (access_ns[i] + access_ns[j])
            row.append(None if i == j else access + sum(wan_ns[edge] for edge in ways))
        expected.append(row)
    return expected


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


def _lack(probes: Probes, pair: tuple[int, int], mtu_bytes: int) -> str:
    """What does not get from one island to another and back; empty if everything does."""
    if probes.rtt_ns[pair[0]][pair[1]] is None:
        return "no answer, an echo got lost"
    if pair in probes.too_large:
        return f"a packet of {mtu_bytes} bytes, not to be fragmented, does not get there and back"
    return ""


def _way(
    topology: Topology, unicast: Mapping[str, Mapping[str, int]], here: str, there: str
) -> list[int]:
    way = []
    while here != there:
        edge = unicast[there][here]
        way.append(edge)
        here = topology.edges[edge].dst
        if len(way) > len(topology.cities):
            raise CliquenetError(f"the plan's unicast way to {there} runs in a circle")
    return way

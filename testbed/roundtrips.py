"""Round-trip times between all islands of a network: measured, and calculated."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from testbed.addressing import island_ip
from testbed.errors import CliquenetError
from testbed.probe import ECHO_FRAME_BYTES, PATIENCE_S, Matrix, Probes, probe
from testbed.routing import route
from testbed.shaping import serialisation_ns, shape_for
from testbed.topology import Frozen, Topology

if TYPE_CHECKING:
    from testbed.network import Network


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

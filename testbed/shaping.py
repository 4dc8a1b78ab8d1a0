"""One ``netem`` per direction of every link: serialisation, then propagation.

The parameters and their binary form are pure functions; installing, reading
back and counting go over route netlink. Delays are given to the kernel in
nanoseconds (``tc`` rounds them to ticks of 64 ns).
"""

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from testbed.errors import CliquenetError, InputError
from testbed.impairment import NONE, Impairment
from testbed.namespaces import Namespace
from testbed.netem import decode_impairment, encode_impairment
from testbed.netlink import Request, RouteSocket, attribute, attributes
from testbed.netrequests import (
    TCA_KIND,
    TCA_OPTIONS,
    TCA_STATS2,
    TCMSG,
    LinkCounters,
    add_qdisc,
    link_counters,
    list_links,
    list_qdiscs,
)

ETHERNET_HEADER_BYTES = 14
QUEUE_BYTES = 256_000_000
"""Room that a queue has beyond the packets in flight: a whole burst of the
largest payloads, so that a link is never the one that loses."""
LIMIT_FACTOR = 1.5
"""Packets in flight are at most rate × delay ÷ MTU; half as many again for short ones."""
MIN_RATE_BYTES_PER_S = 1000

# <linux/pkt_sched.h>: struct tc_netem_qopt, struct tc_netem_rate, TCA_NETEM_*
_QOPT = struct.Struct("=6I")
_RATE = struct.Struct("=Iiii")
_NETEM_RATE, _NETEM_RATE64, _NETEM_LATENCY64 = 6, 8, 10
_STATS_BASIC, _STATS_QUEUE = 1, 3
_U32_MAX = 0xFFFFFFFF


@dataclass(frozen=True)
class Shape:
    """What one direction of a link does to packets."""

    delay_ns: int
    rate_bytes_per_s: int
    limit_packets: int
    impairment: Impairment = NONE


@dataclass(frozen=True)
class ShapedInterface:
    """A sending interface, the direction of the link that it stands for, and its shape."""

    link: str
    """Direction as messages name it, such as ``nyc→chi``."""
    interface: str
    index: int
    namespace: Namespace | None
    """``None`` for the namespace of the switches."""
    shape: Shape


@dataclass(frozen=True)
class QueueState:
    """One queueing discipline as the kernel reports it."""

    index: int
    kind: str
    shape: Shape | None
    """``None`` unless it is a ``netem`` as `encode_netem` makes them."""
    sent_bytes: int
    sent_packets: int
    drops: int
    overlimits: int
    backlog_bytes: int
    backlog_packets: int


def shape_for(delay_ms: float, rate_gbps: float, scale: float, mtu_bytes: int) -> Shape:
    """Parameters of one direction of a link (formula: ours).

    Parameters
    ----------
    delay_ms
        One-way propagation delay; never scaled.
    rate_gbps
        Rate of the link that is emulated, in Gbit/s, divided by ``scale`` here.
    scale
        Divisor of rates.
    mtu_bytes
        Largest IP packet.

    Raises
    ------
    InputError
        The scale leaves less than 1 kB/s.
    """
    rate_bytes_per_s = round(rate_gbps * 1e9 / 8 / scale)
    if rate_bytes_per_s < MIN_RATE_BYTES_PER_S:
        raise InputError(
            f"scale {scale:g} leaves {rate_bytes_per_s} bytes/s of a {rate_gbps:g} Gbit/s link; "
            "choose a smaller scale"
        )
    frame_bytes = mtu_bytes + ETHERNET_HEADER_BYTES
    in_flight_bytes = rate_bytes_per_s * delay_ms / 1e3
    limit = math.ceil((LIMIT_FACTOR * in_flight_bytes + QUEUE_BYTES) / frame_bytes)
    return Shape(round(delay_ms * 1e6), rate_bytes_per_s, min(limit, _U32_MAX))


def serialisation_ns(frame_bytes: int, rate_bytes_per_s: int) -> int:
    """Time that a frame occupies a shaped link, rounded as ``netem`` does it."""
    return frame_bytes * 1_000_000_000 // rate_bytes_per_s


def encode_netem(shape: Shape) -> bytes:
    """The ``TCA_OPTIONS`` payload that makes ``netem`` follow a shape."""
    rate = min(shape.rate_bytes_per_s, _U32_MAX)
    (loss, gap, duplicate), faults = encode_impairment(shape.impairment)
    options = _QOPT.pack(0, shape.limit_packets, loss, gap, duplicate, 0)
    # Its jitter goes both ways around the delay; ours only adds.
    mean_ns = shape.delay_ns + shape.impairment.jitter_ns // 2
    options += attribute(_NETEM_LATENCY64, struct.pack("=q", mean_ns))
    if shape.rate_bytes_per_s > _U32_MAX:
        options += attribute(_NETEM_RATE64, struct.pack("=Q", shape.rate_bytes_per_s))
    return options + attribute(_NETEM_RATE, _RATE.pack(rate, 0, 0, 0)) + faults


def decode_netem(options: bytes) -> Shape | None:
    """The shape in a ``TCA_OPTIONS`` payload of ``netem``.

    Returns
    -------
    Shape or None
        ``None`` if it does something to packets that no `Shape` stands for, or
        counts other bytes than those of the frame.
    """
    if len(options) < _QOPT.size:
        return None
    _, limit, loss, gap, duplicate, _ = _QOPT.unpack_from(options)
    found = attributes(options[_QOPT.size :])
    if not {_NETEM_LATENCY64, _NETEM_RATE} <= found.keys():
        return None
    (mean_ns,) = struct.unpack("=q", found[_NETEM_LATENCY64])
    rate, *overheads = _RATE.unpack(found[_NETEM_RATE])
    if _NETEM_RATE64 in found:
        (rate,) = struct.unpack("=Q", found[_NETEM_RATE64])
    faults = decode_impairment(loss, gap, duplicate, found)
    if faults is None or any(overheads):
        return None
    return Shape(mean_ns - faults.jitter_ns // 2, rate, limit, faults)


def install(interfaces: Iterable[ShapedInterface]) -> None:
    """Put a ``netem`` on each interface and check every one by reading it back.

    Raises
    ------
    MachineError
        The kernel has no ``netem`` or refuses a value.
    CliquenetError
        A link does not behave as asked; its name, what was asked, what is there.
    """
    wanted = list(interfaces)
    for namespace, members in _by_namespace(wanted):
        with RouteSocket(namespace) as route:
            route.apply([_request(member) for member in members])
    check(wanted)


def check(interfaces: Sequence[ShapedInterface]) -> None:
    """Compare each interface's queueing discipline with the one asked for.

    Raises
    ------
    CliquenetError
        As for `install`.
    """
    for member, state in read_queues(interfaces):
        if problem := difference(member.shape, state):
            raise CliquenetError(
                f"link {member.link} ({member.interface}) is not shaped as planned: {problem}"
            )


def difference(asked: Shape, state: QueueState | None) -> str:
    """How what the kernel has differs from a shape, in words; empty if it does not."""
    if state is None:
        return "it has no shaper"
    if state.kind != "netem":
        return f"its shaper is {state.kind}, not netem"
    if state.shape is None:
        return "its netem does something that was not asked for"
    return shape_difference(asked, state.shape)


def shape_difference(asked: Shape, found: Shape) -> str:
    """How one shape differs from another, in words; empty if it does not."""
    pairs = (
        ("delay", found.delay_ns / 1e6, asked.delay_ns / 1e6, " ms"),
        ("rate", found.rate_bytes_per_s * 8 / 1e6, asked.rate_bytes_per_s * 8 / 1e6, " Mbit/s"),
        ("limit", found.limit_packets, asked.limit_packets, " packets"),
        ("faults", found.impairment, asked.impairment, ""),
    )
    return ", ".join(
        f"its {name} is {there}{unit} instead of {wanted}{unit}"
        for name, there, wanted, unit in pairs
        if there != wanted
    )


def read_queues(
    interfaces: Sequence[ShapedInterface],
) -> list[tuple[ShapedInterface, QueueState | None]]:
    """The root queueing discipline of each interface, with its counters."""
    found: list[tuple[ShapedInterface, QueueState | None]] = []
    for namespace, members in _by_namespace(interfaces):
        with RouteSocket(namespace) as route:
            states = [decode_queue(body) for body in route.dump(list_qdiscs())]
        by_index = {state.index: state for state in states}
        found += [(member, by_index.get(member.index)) for member in members]
    return found


def read_interfaces(interfaces: Sequence[ShapedInterface]) -> dict[str, LinkCounters]:
    """What the kernel counted at each interface, by the direction that it sends."""
    found: dict[str, LinkCounters] = {}
    for namespace, members in _by_namespace(interfaces):
        with RouteSocket(namespace) as route:
            counted = [link_counters(body) for body in route.dump(list_links())]
        by_index = {counters.index: counters for counters in counted}
        found |= {member.link: by_index[member.index] for member in members}
    return found


def decode_queue(body: bytes) -> QueueState:
    """Decode one ``RTM_NEWQDISC`` message (its body, behind the netlink header)."""
    _, index, _, _, _ = TCMSG.unpack_from(body)
    found = attributes(body[TCMSG.size :])
    kind = found[TCA_KIND].rstrip(b"\0").decode()
    statistics = attributes(found.get(TCA_STATS2, b""))
    sent_bytes, sent_packets = struct.unpack_from("=QI", statistics.get(_STATS_BASIC, bytes(12)))
    queued, backlog, drops, _, overlimits = struct.unpack_from(
        "=5I", statistics.get(_STATS_QUEUE, bytes(20))
    )
    return QueueState(
        index=index,
        kind=kind,
        shape=decode_netem(found.get(TCA_OPTIONS, b"")) if kind == "netem" else None,
        sent_bytes=sent_bytes,
        sent_packets=sent_packets,
        drops=drops,
        overlimits=overlimits,
        backlog_bytes=backlog,
        backlog_packets=queued,
    )


def _request(member: ShapedInterface) -> Request:
    return add_qdisc(member.interface, member.index, "netem", 1, encode_netem(member.shape))


def _by_namespace(
    interfaces: Iterable[ShapedInterface],
) -> list[tuple[Namespace | None, list[ShapedInterface]]]:
    def key(member: ShapedInterface) -> int:
        return -1 if member.namespace is None else member.namespace.descriptor

    groups = groupby(sorted(interfaces, key=key), key=key)
    members = [list(group) for _, group in groups]
    return [(group[0].namespace, group) for group in members]

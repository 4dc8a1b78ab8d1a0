"""The requests for `testbed.netlink` that a network takes, and what their answers say.

pyroute2 encodes what has a schema there; its ``netem`` knows neither nanoseconds
nor 64-bit rates, so queueing disciplines come in binary from `testbed.shaping`.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE
from pyroute2.netlink.rtnl import (
    RTM_DELLINK,
    RTM_GETLINK,
    RTM_GETQDISC,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    TC_H_ROOT,
)
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from testbed.namespaces import Namespace
from testbed.netlink import Request, attribute, attributes

TCMSG = struct.Struct("=BxxxiIII")
"""``struct tcmsg``: family, interface index, handle, parent, info."""
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7

_IFINFOMSG = struct.Struct("=BxHiII")
_IFLA_IFNAME, _IFLA_MTU, _IFLA_OPERSTATE, _IFLA_STATS64, _IFLA_GSO_MAX_SEGS = 3, 4, 16, 23, 40
_OPER_DORMANT, _OPER_UP = 5, 6
_IFF_UP = 1
_NUD_PERMANENT = 0x80
_MAIN_TABLE, _PROTOCOL_STATIC, _SCOPE_LINK, _UNICAST = 254, 4, 253, 1
_CREATE = NLM_F_CREATE | NLM_F_EXCL


@dataclass(frozen=True)
class End:
    """One end of a veth pair. The interface index is chosen by us."""

    name: str
    index: int
    mac: str


@dataclass(frozen=True)
class LinkCounters:
    """An interface as the kernel counts it."""

    index: int
    name: str
    mtu_bytes: int
    gso_max_segs: int
    """Packets that it may hand on as one."""
    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_errors: int
    tx_errors: int
    rx_dropped: int
    tx_dropped: int


def add_veth(near: End, far: End, mtu_bytes: int, far_namespace: Namespace | None) -> Request:
    """Make a veth pair; ``near`` here, ``far`` in its namespace. Both stay down."""
    peer = _link(far, mtu_bytes)
    if far_namespace is not None:
        peer["attrs"].append(("IFLA_NET_NS_FD", far_namespace.descriptor))
    message = ifinfmsg()
    message.setvalue(_link(near, mtu_bytes))
    veth = {"attrs": [("VETH_INFO_PEER", peer)]}
    info = {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", veth)]}
    message["attrs"].append(("IFLA_LINKINFO", info))
    return Request(f"make the link {near.name}–{far.name}", RTM_NEWLINK, _CREATE, message)


def set_up(name: str, index: int) -> Request:
    """Bring an interface up."""
    message = ifinfmsg()
    message.setvalue({"index": index, "flags": _IFF_UP, "change": _IFF_UP})
    return Request(f"bring {name} up", RTM_NEWLINK, 0, message)


def set_operational(name: str, index: int, *, up: bool) -> Request:
    """Say whether packets pass an interface (RFC 2863, ifOperStatus); its qdisc goes on."""
    message = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0)
    message += attribute(_IFLA_OPERSTATE, bytes([_OPER_UP if up else _OPER_DORMANT]))
    return Request(f"set {name} {'up' if up else 'down'}", RTM_NEWLINK, 0, message)


def limit_segments(name: str, index: int, count: int) -> Request:
    """Let an interface hand on at most so many packets as one."""
    message = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0)
    message += attribute(_IFLA_GSO_MAX_SEGS, struct.pack("=I", count))
    return Request(f"limit {name} to {count} packets at once", RTM_NEWLINK, 0, message)


def delete_link(name: str, index: int) -> Request:
    """Delete an interface (and with it the other end of its pair)."""
    message = ifinfmsg()
    message.setvalue({"index": index})
    return Request(f"delete {name}", RTM_DELLINK, 0, message)


def add_address(index: int, ip: str, prefix_bits: int) -> Request:
    """Give an interface an IPv4 address."""
    message = ifaddrmsg()
    attrs = [("IFA_LOCAL", ip), ("IFA_ADDRESS", ip)]
    message.setvalue(
        {"family": socket.AF_INET, "prefixlen": prefix_bits, "index": index, "attrs": attrs}
    )
    return Request(f"add the address {ip}", RTM_NEWADDR, _CREATE, message)


def add_neighbour(index: int, ip: str, mac: str) -> Request:
    """Add a permanent neighbour, so that nobody ever asks by ARP."""
    message = ndmsg()
    attrs = [("NDA_DST", ip), ("NDA_LLADDR", mac)]
    message.setvalue(
        {"family": socket.AF_INET, "ifindex": index, "state": _NUD_PERMANENT, "attrs": attrs}
    )
    return Request(f"add the neighbour {ip}", RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, message)


def add_route(index: int, network: str, prefix_bits: int) -> Request:
    """Send everything for a network out of one interface."""
    message = rtmsg()
    attrs = [("RTA_DST", network), ("RTA_OIF", index)]
    message.setvalue(
        {
            "family": socket.AF_INET,
            "dst_len": prefix_bits,
            "table": _MAIN_TABLE,
            "proto": _PROTOCOL_STATIC,
            "scope": _SCOPE_LINK,
            "type": _UNICAST,
            "attrs": attrs,
        }
    )
    return Request(f"add the route to {network}", RTM_NEWROUTE, _CREATE, message)


def add_qdisc(name: str, index: int, kind: str, handle: int, options: bytes) -> Request:
    """Put a queueing discipline, its options given in binary, at the root of an interface."""
    message = TCMSG.pack(socket.AF_UNSPEC, index, handle << 16, TC_H_ROOT, 0)
    message += attribute(TCA_KIND, kind.encode() + b"\0") + attribute(TCA_OPTIONS, options)
    return Request(f"shape {name} by {kind}", RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, message)


def list_qdiscs() -> Request:
    """Ask for every queueing discipline of the namespace (for `RouteSocket.dump`)."""
    return Request("list the queueing disciplines", RTM_GETQDISC, NLM_F_DUMP, bytes(TCMSG.size))


def list_links() -> Request:
    """Ask for every interface of the namespace (for `RouteSocket.dump`)."""
    return Request("list the interfaces", RTM_GETLINK, NLM_F_DUMP, bytes(_IFINFOMSG.size))


def link_counters(body: bytes) -> LinkCounters:
    """Decode one interface of the answer to `list_links`."""
    _, _, index, _, _ = _IFINFOMSG.unpack_from(body)
    found = attributes(body[_IFINFOMSG.size :])
    name = found[_IFLA_IFNAME].rstrip(b"\0").decode()
    (mtu_bytes,) = struct.unpack("=I", found[_IFLA_MTU])
    (segments,) = struct.unpack("=I", found[_IFLA_GSO_MAX_SEGS])
    counted = struct.unpack_from("=8Q", found[_IFLA_STATS64])
    return LinkCounters(index, name, mtu_bytes, segments, *counted)


def _link(end: End, mtu_bytes: int) -> dict[str, Any]:
    attrs = [("IFLA_IFNAME", end.name), ("IFLA_ADDRESS", end.mac), ("IFLA_MTU", mtu_bytes)]
    return {"index": end.index, "attrs": attrs}

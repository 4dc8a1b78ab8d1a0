"""Makes all interfaces of a Mininet network at once, over netlink."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import CliquenetError
from testbed.namespaces import Namespace, write_sysctl
from testbed.netlink import RouteSocket
from testbed.netrequests import (
    End,
    add_address,
    add_neighbour,
    add_route,
    add_veth,
    delete_link,
    limit_segments,
    link_counters,
    list_links,
    set_up,
)
from testbed.nodes import PREFIX_BITS, CityHost, CityNet

HOST_INTERFACE_INDEX = 2
"""Index of a host's only interface (1 is loopback)."""
FIRST_SWITCH_INDEX = 100
ANY_SEGMENTS = 65535
"""What interfaces begin with."""
MAX_MEMBERSHIPS = 65536
"""Multicast groups that a host may join: one per sender and live round."""


@dataclass(frozen=True)
class Wire:
    """A veth pair: the end at a switch, the other end, and where that one lives."""

    near: End
    far: End
    namespace: Namespace | None


def plan_wires(net: CityNet) -> tuple[Wire, ...]:
    """Give every interface of a Mininet network its index; nothing is made yet."""
    wires = []
    free = FIRST_SWITCH_INDEX
    for link in net.links:
        near = End(link.intf1.name, free, link.intf1.mac)
        host = link.intf2.node
        if isinstance(host, CityHost):
            far = End(link.intf2.name, HOST_INTERFACE_INDEX, link.intf2.mac)
            wires.append(Wire(near, far, host.namespace))
            free += 1
        else:
            far = End(link.intf2.name, free + 1, link.intf2.mac)
            wires.append(Wire(near, far, None))
            free += 2
    return tuple(wires)


def connect(wires: Sequence[Wire], hosts: Sequence[Any], mtu_bytes: int) -> None:
    """Make every pair, bring it up, and give each host its address and neighbours.

    Raises
    ------
    CliquenetError
        The current namespace has interfaces of somebody else.
    MachineError
        The kernel refused something.
    """
    with RouteSocket() as route:
        strangers = [counters.name for counters in _links(route) if counters.index != 1]
        if strangers:
            raise CliquenetError(
                f"the network must be built in a namespace of its own, but {strangers[0]} is "
                "here; call testbed.namespaces.isolate() first"
            )
        route.apply([add_veth(w.near, w.far, mtu_bytes, w.namespace) for w in wires])
        ends = [wire.near for wire in wires]
        ends += [wire.far for wire in wires if wire.namespace is None]
        route.apply([set_up(end.name, end.index) for end in ends])
    neighbours = [(host.params["ip"].split("/")[0], host.params["mac"]) for host in hosts]
    for host in hosts:
        _configure_host(host, neighbours)


def disconnect(wires: Iterable[Wire]) -> None:
    """Delete every pair; the far ends go with the near ones."""
    with RouteSocket() as route:
        here = {counters.index for counters in _links(route)}
        gone = [wire.near for wire in wires if wire.near.index in here]
        route.apply([delete_link(end.name, end.index) for end in gone])


def limit_hosts(hosts: Sequence[Any], segments: int) -> None:
    """Let hosts hand on at most so many packets as one (segmentation offload), and check it.

    With 1, the kernel cuts a burst up behind the host's own queue, so that switches
    and all further queues see single packets.

    Raises
    ------
    CliquenetError
        An interface does not do as it is told.
    """
    for host in hosts:
        name = host.defaultIntf().name
        with RouteSocket(host.namespace) as route:
            route.apply([limit_segments(name, HOST_INTERFACE_INDEX, segments)])
            found = next(c for c in _links(route) if c.index == HOST_INTERFACE_INDEX)
        if found.gso_max_segs != segments:
            raise CliquenetError(
                f"{name} should hand on {segments} packets at once, not {found.gso_max_segs}"
            )


def _links(route: RouteSocket) -> list[Any]:
    return [link_counters(body) for body in route.dump(list_links())]


def _configure_host(host: Any, neighbours: Sequence[tuple[str, str]]) -> None:
    """Address, multicast route and permanent neighbours of one host."""
    index = HOST_INTERFACE_INDEX
    ip = host.params["ip"].split("/")[0]
    interface = host.defaultIntf()
    interface.ip, interface.prefixLen = ip, PREFIX_BITS
    requests = [
        set_up(interface.name, index),
        add_address(index, ip, PREFIX_BITS),
        add_route(index, "224.0.0.0", 4),
    ]
    requests += [add_neighbour(index, other, mac) for other, mac in neighbours if other != ip]
    with host.namespace.entered():
        write_sysctl("net/ipv4/igmp_max_memberships", str(MAX_MEMBERSHIPS))
        with RouteSocket() as route:
            route.apply(requests)

"""Single links built by stock Mininet and by us, with the same figures, and measured alike.

Runs inside the virtual machine (`benchmarks.fidelityguest`). Stock Mininet means its
``TCLink`` with ``bw`` and ``delay`` as everybody uses it: HTB, with a netem below it.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet

from testbed.errors import CliquenetError
from testbed.linkfigures import LinkFigures
from testbed.linkprobe import directions_of
from testbed.linktrial import Effort, try_links
from testbed.namespaces import Namespace
from testbed.netlink import RouteSocket
from testbed.netrequests import End, add_veth, set_up
from testbed.shaping import ShapedInterface, install, shape_for
from testbed.topology import Frozen
from testbed.wiring import HOST_INTERFACE_INDEX

MTU_BYTES = 1500
EFFORT = Effort(spaced=100, burst=32, sustained=3000)
"""Long enough for more packets in flight than netem's own limit of 1000."""


class Asked(Frozen):
    """One link: both directions alike."""

    rate_mbps: float
    delay_ms: float


def measure_stock(links: Sequence[Asked]) -> list[LinkFigures]:
    """One direction of each link, built by stock Mininet; all measured at once.

    Raises
    ------
    CliquenetError
        Mininet made no such interfaces.
    """
    setLogLevel("critical")
    with ExitStack() as stack:
        net = Mininet(link=TCLink, controller=None, build=False)
        stack.callback(net.stop)
        ends = []
        for number, asked in enumerate(links):
            pair = [net.addHost(f"{side}{number}", ip=None) for side in "ab"]
            net.addLink(*pair, bw=asked.rate_mbps, delay=f"{asked.delay_ms:g}ms")
            ends += [(number, asked, host) for host in pair]
        net.build()
        shaped = []
        for number, asked, host in ends:
            namespace = Namespace(host.name, os.open(f"/proc/{host.pid}/ns/net", os.O_RDONLY))
            stack.callback(namespace.close)
            interface = host.defaultIntf().name
            with namespace.entered():
                index = _index_of(interface)
            shaped.append(_end(number, host.name[0], interface, index, namespace, asked))
        return _measure(shaped)


def measure_ours(links: Sequence[Asked]) -> list[LinkFigures]:
    """One direction of each link, built and shaped as in an experiment; all measured at once."""
    with ExitStack() as stack:
        shaped = []
        for number, asked in enumerate(links):
            shaped += stack.enter_context(_own_link(number, asked))
        install(shaped)
        return _measure(shaped)


@contextmanager
def _own_link(number: int, asked: Asked) -> Iterator[list[ShapedInterface]]:
    names = [f"{side}{number}" for side in "ab"]
    spaces = [Namespace.create(name) for name in names]
    try:
        index = HOST_INTERFACE_INDEX
        near, far = (
            End(f"{name}-eth0", index, f"02:00:03:0{side}:{number:02x}:01")
            for side, name in enumerate(names)
        )
        with spaces[0].entered(), RouteSocket() as route:
            route.apply([add_veth(near, far, MTU_BYTES, spaces[1])])
        for space, end in zip(spaces, (near, far), strict=True):
            with RouteSocket(space) as route:
                route.apply([set_up(end.name, index)])
        yield [
            _end(number, name[0], f"{name}-eth0", index, space, asked)
            for name, space in zip(names, spaces, strict=True)
        ]
    finally:
        for space in spaces:
            space.close()


def _end(
    number: int, side: str, interface: str, index: int, namespace: Namespace, asked: Asked
) -> ShapedInterface:
    """The end ``a`` or ``b`` of a link."""
    other = "b" if side == "a" else "a"
    shape = shape_for(asked.delay_ms, asked.rate_mbps / 1e3, 1.0, MTU_BYTES)
    link = f"{side}{number}→{other}{number}"
    return ShapedInterface(link, interface, index, namespace, shape)


def _measure(shaped: Sequence[ShapedInterface]) -> list[LinkFigures]:
    forth = [d for d in directions_of(shaped) if d.link.startswith("a")]
    return list(try_links(forth, MTU_BYTES, EFFORT).links)


def _index_of(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise CliquenetError(f"Mininet made no interface {name}") from error

"""Which links are down, from what switches say of their ports."""

from collections.abc import Collection

from testbed.addressing import dpid
from testbed.topology import Topology


class Ports:
    """The ports of all switches.

    A link is down as long as the switch at either of its ends says so.

    Attributes
    ----------
    dead
        Indices of the links that are down.
    """

    def __init__(self, topology: Topology) -> None:
        self.dead: frozenset[int] = frozenset()
        self._topology = topology
        self._links = {
            (dpid(topology.index(edge.src)), topology.out_port(edge.index)): edge.link
            for edge in topology.edges
        }
        self._down: dict[int, frozenset[int]] = {}

    def down(self, switch: int, ports: Collection[int]) -> tuple[int, ...]:
        """Take note of a switch's ports that are down; returns the links that this changes."""
        known = (self._links.get((switch, port)) for port in ports)
        self._down[switch] = frozenset(link for link in known if link is not None)
        before, self.dead = self.dead, frozenset().union(*self._down.values())
        return tuple(sorted(before ^ self.dead))

    def name(self, link: int) -> str:
        """A link as messages name it, such as ``nyc-chi``."""
        ends = self._topology.links[link]
        return f"{ends.a}-{ends.b}"

"""A multicast tree as its switches see it: by which port packets come in, and where copies go."""

from collections import Counter, deque
from dataclasses import dataclass

from controller.plan import Stream
from testbed.addressing import AGGREGATOR_PORT, ISLAND_PORT, dpid
from testbed.errors import InputError
from testbed.topology import Topology

IN_PORT = 0xFFFFFFF8
"""OFPP_IN_PORT (OpenFlow 1.3.5, section 7.2.1): back by the port that a packet came in
by, which a switch never uses under its own number."""


@dataclass(frozen=True)
class TreeHop:
    """One visit of a stream at a switch: where packets come in, and where copies go out."""

    dpid: int
    in_port: int
    out_ports: tuple[int, ...]
    visit: int = 0
    """How often the stream was at this switch before; above 0 only behind a hub."""


def tree_hops(topology: Topology, stream: Stream, aggregation: bool) -> tuple[TreeHop, ...]:
    """Follow a stream's ways from its sender, switch by switch.

    What a switch does with a packet depends on the port that it came in by, thus
    on the edge that it crossed last. So a stream may pass a city twice, on its way
    up to a hub and on its way down, but may enter each edge from one side only. In a
    hub tree it always does: down edges lead away from the hub along a tree and up
    edges are such edges reversed, so that no edge is both, and none is entered by
    two different ones.

    Parameters
    ----------
    topology
        Where the edges lie.
    stream
        Sender, receivers and the ordered edges of the way to each.
    aggregation
        Whether receivers get their copy at the aggregator port or at the island port.

    Returns
    -------
    tuple of TreeHop
        From the sender outwards. No two have both switch and incoming port in common.

    Raises
    ------
    InputError
        A way that does not lead from the sender to its receiver, an edge that is
        entered from two sides, or ways and edges of the stream that differ.
    """
    onward = _onward_edges(topology, stream)
    ends = {path[-1]: receiver for receiver, path in stream.paths.items()}
    delivery = AGGREGATOR_PORT if aggregation else ISLAND_PORT
    visits: Counter[str] = Counter()
    hops = []
    waiting: deque[int | None] = deque([None])
    while waiting:
        entered = waiting.popleft()
        city = stream.sender if entered is None else topology.edges[entered].dst
        # The edge's link, seen from its far end.
        in_port = ISLAND_PORT if entered is None else topology.out_port(entered ^ 1)
        edges = sorted(onward.get(entered, ()))
        ports = [delivery] if entered in ends else []
        ports += [_port(topology, edge, entered) for edge in edges]
        hops.append(TreeHop(dpid(topology.index(city)), in_port, tuple(ports), visits[city]))
        visits[city] += 1
        waiting.extend(edges)
    return tuple(hops)


def _onward_edges(topology: Topology, stream: Stream) -> dict[int | None, set[int]]:
    """Edge to the edges that follow it; ``None``, the way out of the sender's island."""
    if set(stream.paths) != set(stream.receivers):
        raise InputError(f"{_tree(stream)} does not have one way for each receiver")
    if stream.sender in stream.receivers:
        raise InputError(f"{_tree(stream)} delivers to its own sender")
    onward: dict[int | None, set[int]] = {}
    before: dict[int, int | None] = {}
    for receiver, path in stream.paths.items():
        city, previous = stream.sender, None
        for edge in path:
            here = topology.edges[edge]
            if here.src != city:
                raise InputError(f"{_tree(stream)} has a gap at {city} on the way to {receiver}")
            if before.setdefault(edge, previous) != previous:
                raise InputError(
                    f"{_tree(stream)} enters the link {here.src}–{here.dst} from two sides"
                )
            onward.setdefault(previous, set()).add(edge)
            city, previous = here.dst, edge
        if city != receiver:
            raise InputError(f"{_tree(stream)} has a way to {receiver} that ends at {city}")
    if set(before) != set(stream.edges):
        raise InputError(f"{_tree(stream)} has other edges than its ways")
    return onward


def _port(topology: Topology, edge: int, entered: int | None) -> int:
    """The port into an edge, for packets that came in by another one."""
    back = entered is not None and edge == entered ^ 1
    return IN_PORT if back else topology.out_port(edge)


def _tree(stream: Stream) -> str:
    return f"the tree of {stream.sender} to {', '.join(stream.receivers)}"

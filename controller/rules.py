"""Plan to OpenFlow rules, as plain data; nothing here knows a controller framework.

Every switch holds unicast flows to all islands and aggregators (base rules) and,
per live round and stream through it, one ``type=all`` group and one flow for each
port that the stream comes in by. What no flow matches is dropped: there is no
table-miss entry and no flooding.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from controller.hostplan import HostPath
from controller.plan import Plan, Stream
from testbed.addressing import (
    AGGREGATOR_PORT,
    FIRST_PATH_UDP_PORT,
    ISLAND_PORT,
    aggregator_ip,
    dpid,
    group_id,
    group_ip,
    island_ip,
)
from testbed.errors import InputError
from testbed.topology import Topology

UNICAST_PRIORITY = 100
PATH_PRIORITY = 150
MULTICAST_PRIORITY = 200
IN_PORT = 0xFFFFFFF8
"""OFPP_IN_PORT (OpenFlow 1.3.5, section 7.2.1): back by the port that a packet came in
by, which a switch never uses under its own number."""


@dataclass(frozen=True)
class GroupRule:
    """A ``type=all`` group: one copy to each port; the ingress port is named `IN_PORT`."""

    dpid: int
    group_id: int
    ports: tuple[int, ...]


@dataclass(frozen=True)
class FlowRule:
    """An IPv4 flow: destination, and where given port that it comes in by, sender, UDP port."""

    dpid: int
    priority: int
    ipv4_dst: str
    in_port: int | None = None
    output_port: int | None = None
    """Set in unicast flows."""
    group_id: int | None = None
    """Set in multicast flows."""
    ipv4_src: str | None = None
    udp_src: int | None = None
    """Set, like the sender's address, in flows of one path between two islands."""


@dataclass(frozen=True)
class RuleSet:
    """Groups and the flows that use them; flows without groups for the base rules."""

    groups: tuple[GroupRule, ...] = ()
    flows: tuple[FlowRule, ...] = ()

    def dpids(self) -> frozenset[int]:
        """The switches that have a part in these rules."""
        return frozenset(g.dpid for g in self.groups) | frozenset(f.dpid for f in self.flows)

    def __add__(self, other: "RuleSet") -> "RuleSet":
        return RuleSet(self.groups + other.groups, self.flows + other.flows)

    def of(self, switch: int) -> "RuleSet":
        """The part of one switch."""
        return RuleSet(
            tuple(group for group in self.groups if group.dpid == switch),
            tuple(flow for flow in self.flows if flow.dpid == switch),
        )


def base_rules(plan: Plan) -> RuleSet:
    """Unicast flows of every switch to every island and aggregator, on shortest paths.

    Raises
    ------
    InputError
        The plan knows no way from some city to another.
    """
    topology = plan.topology
    flows = []
    for destination, code in enumerate(topology.codes):
        local = {island_ip(destination): ISLAND_PORT, aggregator_ip(destination): AGGREGATOR_PORT}
        for city, here in enumerate(topology.codes):
            onward = None if here == code else _onward_port(plan, here, code)
            for ip, port in local.items():
                output = port if onward is None else onward
                flows.append(FlowRule(dpid(city), UNICAST_PRIORITY, ip, output_port=output))
    paths = plan.collective.paths if plan.collective else ()
    return RuleSet(flows=(*flows, *path_flows(topology, paths)))


def path_flows(topology: Topology, paths: Iterable[HostPath]) -> tuple[FlowRule, ...]:
    """Flows for the paths of a collective, which need not be the shortest ones.

    A path is known by sender, receiver and the sender's UDP port, at every switch but
    the last one: from there the unicast flow leads to the island.
    """
    return tuple(
        FlowRule(
            dpid(topology.index(topology.edges[edge].src)),
            PATH_PRIORITY,
            island_ip(path.dst),
            output_port=topology.out_port(edge),
            ipv4_src=island_ip(path.src),
            udp_src=FIRST_PATH_UDP_PORT + path.tag,
        )
        for path in paths
        for edge in path.edges
    )


def round_rules(plan: Plan, round_index: int) -> RuleSet:
    """Groups and flows of every multicast tree of one round of the run.

    Empty with multicast off. A stream's packets are taken only from the edges that
    lead to a switch, so a stray copy cannot multiply.

    Parameters
    ----------
    plan
        The plan; trees end at the aggregators with aggregation on, else at the islands.
    round_index
        Round of the run; group ids and addresses carry it.

    Raises
    ------
    InputError
        The ways of a stream cannot be forwarded by incoming port.
    """
    return stream_rules(plan, round_index, plan.round(round_index).streams)


def stream_rules(plan: Plan, round_index: int, streams: Iterable[Stream]) -> RuleSet:
    """As `round_rules`, of streams that need not take the plan's trees."""
    if not plan.multicast:
        return RuleSet()
    groups: list[GroupRule] = []
    flows: list[FlowRule] = []
    for stream in (stream for stream in streams if stream.receivers):
        sender = plan.topology.index(stream.sender)
        address = group_ip(round_index, sender)
        for hop in tree_hops(plan.topology, stream, plan.aggregation):
            group = group_id(round_index, sender, hop.visit)
            groups.append(GroupRule(hop.dpid, group, hop.out_ports))
            flows.append(
                FlowRule(hop.dpid, MULTICAST_PRIORITY, address, hop.in_port, group_id=group)
            )
    return RuleSet(tuple(groups), tuple(flows))


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


def _onward_port(plan: Plan, here: str, code: str) -> int:
    try:
        edge = plan.unicast[code][here]
    except KeyError:
        raise InputError(f"the plan has no unicast way from {here} to {code}") from None
    if plan.topology.edges[edge].src != here:
        raise InputError(f"the plan's unicast way from {here} to {code} starts elsewhere")
    return plan.topology.out_port(edge)


def _tree(stream: Stream) -> str:
    return f"the tree of {stream.sender} to {', '.join(stream.receivers)}"

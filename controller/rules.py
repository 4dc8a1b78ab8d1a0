"""Plan to OpenFlow rules, as plain data; nothing here knows a controller framework.

Every switch holds unicast flows to all islands and aggregators (base rules) and,
per live round and stream through it, one ``type=all`` group and one flow for each
port that the stream comes in by. What no flow matches is dropped: there is no
table-miss entry and no flooding.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controller.hostplan import HostPath
from controller.plan import Plan, Stream
from controller.treehops import tree_hops
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


@dataclass(frozen=True)
class GroupRule:
    """A ``type=all`` group: one copy to each port; `IN_PORT` is the one that it came in by."""

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

    A path is known by sender, receiver and, of an island, the sender's UDP port, at every
    switch but the last one: from there the unicast flow leads to the host. Between two
    aggregators there is only one. What a hub sends to all islands has rules of a tree.
    """
    address = {"island": island_ip, "aggregator": aggregator_ip}
    return tuple(
        FlowRule(
            dpid(topology.index(topology.edges[edge].src)),
            PATH_PRIORITY,
            address[path.ends_at](path.dst),
            output_port=topology.out_port(edge),
            ipv4_src=address[path.starts_at](path.src),
            udp_src=FIRST_PATH_UDP_PORT + path.tag if path.starts_at == "island" else None,
        )
        for path in paths
        if not path.is_branch
        for edge in path.edges
    )


def sum_rules(plan: Plan) -> RuleSet:
    """Groups and flows of the tree from a hub's aggregator to every island.

    Empty where no aggregator adds.

    Raises
    ------
    InputError
        The ways down from the hub are not one tree.
    """
    hosts = plan.collective
    if hosts is None or hosts.hub is None:
        return RuleSet()
    topology, hub = plan.topology, hosts.hub
    in_port = {hub: AGGREGATOR_PORT}
    out_ports: dict[int, set[int]] = {}
    for path in (path for path in hosts.paths if path.is_branch):
        for edge in (topology.edges[index] for index in path.edges):
            src, dst = topology.index(edge.src), topology.index(edge.dst)
            out_ports.setdefault(src, set()).add(topology.out_port(edge.index))
            back = topology.out_port(edge.index ^ 1)
            if in_port.setdefault(dst, back) != back:
                raise InputError(f"the ways down from {topology.codes[hub]} meet at {edge.dst}")
        out_ports.setdefault(path.dst, set()).add(ISLAND_PORT)
    group, address = group_id(0, hub), group_ip(0, hub)
    return RuleSet(
        tuple(GroupRule(dpid(city), group, tuple(sorted(out))) for city, out in out_ports.items()),
        tuple(
            FlowRule(dpid(city), MULTICAST_PRIORITY, address, in_port[city], group_id=group)
            for city in out_ports
        ),
    )


def round_rules(plan: Plan, round_index: int) -> RuleSet:
    """Groups and flows of every multicast tree of one round of the run.

    With multicast off only `sum_rules`. A stream's packets are taken only from the edges that
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
        return sum_rules(plan)
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


def _onward_port(plan: Plan, here: str, code: str) -> int:
    try:
        edge = plan.unicast[code][here]
    except KeyError:
        raise InputError(f"the plan has no unicast way from {here} to {code}") from None
    if plan.topology.edges[edge].src != here:
        raise InputError(f"the plan's unicast way from {here} to {code} starts elsewhere")
    return plan.topology.out_port(edge)

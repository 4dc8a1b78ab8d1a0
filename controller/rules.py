"""Plan to OpenFlow rules, as plain data; nothing here knows a controller framework.

Every switch holds unicast flows to all islands and aggregators (base rules) and,
per live round and tree through it, one ``type=all`` group and one flow. What no
flow matches is dropped: there is no table-miss entry and no flooding.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controller.plan import Plan, Stream
from testbed.addressing import (
    AGGREGATOR_PORT,
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
MULTICAST_PRIORITY = 200


@dataclass(frozen=True)
class GroupRule:
    """A ``type=all`` group: one copy to each port. No port is the ingress port."""

    dpid: int
    group_id: int
    ports: tuple[int, ...]


@dataclass(frozen=True)
class FlowRule:
    """An IPv4 flow: destination, and where given the only port that it may come in by."""

    dpid: int
    priority: int
    ipv4_dst: str
    in_port: int | None = None
    output_port: int | None = None
    """Set in unicast flows."""
    group_id: int | None = None
    """Set in multicast flows."""


@dataclass(frozen=True)
class RuleSet:
    """Groups and the flows that use them; flows without groups for the base rules."""

    groups: tuple[GroupRule, ...] = ()
    flows: tuple[FlowRule, ...] = ()

    def dpids(self) -> frozenset[int]:
        """The switches that have a part in these rules."""
        return frozenset(flow.dpid for flow in self.flows)

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
    return RuleSet(flows=tuple(flows))


def round_rules(plan: Plan, round_index: int) -> RuleSet:
    """Groups and flows of every multicast tree of one round of the run.

    Empty with multicast off. A tree's packets are taken only from the tree's
    incoming edge, so a stray copy cannot multiply.

    Parameters
    ----------
    plan
        The plan; trees end at the aggregators with aggregation on, else at the islands.
    round_index
        Round of the run; group ids and addresses carry it.

    Raises
    ------
    InputError
        The edges of a stream are not a tree from its sender to its receivers.
    """
    if not plan.multicast:
        return RuleSet()
    groups: list[GroupRule] = []
    flows: list[FlowRule] = []
    for stream in plan.round(round_index).streams:
        sender = plan.topology.index(stream.sender)
        group = group_id(round_index, sender)
        address = group_ip(round_index, sender)
        for hop in tree_hops(plan.topology, stream, plan.aggregation):
            groups.append(GroupRule(hop.dpid, group, hop.out_ports))
            flows.append(
                FlowRule(hop.dpid, MULTICAST_PRIORITY, address, hop.in_port, group_id=group)
            )
    return RuleSet(tuple(groups), tuple(flows))


@dataclass(frozen=True)
class TreeHop:
    """One switch of a tree: where packets come in, and where copies go out."""

    dpid: int
    in_port: int
    out_ports: tuple[int, ...]


def tree_hops(topology: Topology, stream: Stream, aggregation: bool) -> tuple[TreeHop, ...]:
    """Walk a stream's tree from its sender.

    Parameters
    ----------
    topology
        Where the edges lie.
    stream
        Sender, receivers and tree edges.
    aggregation
        Whether receivers get their copy at the aggregator port or at the island port.

    Raises
    ------
    InputError
        A city is entered twice, an edge cannot be reached, or a receiver is missed.
    """
    below: dict[str, list[int]] = {}
    for edge in stream.edges:
        below.setdefault(topology.edges[edge].src, []).append(edge)
    delivery = AGGREGATOR_PORT if aggregation else ISLAND_PORT
    reached = {stream.sender: ISLAND_PORT}
    hops = []
    waiting = [stream.sender]
    while waiting:
        city = waiting.pop(0)
        edges = sorted(below.pop(city, []))
        ports = [topology.out_port(edge) for edge in edges]
        if city in stream.receivers:
            ports.insert(0, delivery)
        if not ports:
            raise InputError(f"{_tree(stream)} ends at {city}, which is not a receiver")
        hops.append(TreeHop(dpid(topology.index(city)), reached[city], tuple(ports)))
        for edge in edges:
            onward = topology.edges[edge].dst
            if onward in reached:
                raise InputError(f"{_tree(stream)} enters {onward} twice")
            reached[onward] = topology.out_port(edge ^ 1)  # same link, seen from its far end
            waiting.append(onward)
    if below:
        raise InputError(f"{_tree(stream)} has edges at {min(below)} that it never reaches")
    _check_receivers(stream, reached)
    return tuple(hops)


def _check_receivers(stream: Stream, reached: Iterable[str]) -> None:
    missed = set(stream.receivers) - set(reached)
    if missed:
        raise InputError(f"{_tree(stream)} does not reach {min(missed)}")
    if stream.sender in stream.receivers:
        raise InputError(f"{_tree(stream)} delivers to its own sender")


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

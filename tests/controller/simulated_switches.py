"""An OpenFlow table for tests: follows a packet through rules, switch by switch."""

from collections import Counter

from controller.rules import FlowRule, RuleSet
from controller.treehops import IN_PORT
from testbed.addressing import dpid
from testbed.topology import Topology

MAX_HOPS = 1000
Header = tuple[str, str, int]
"""Destination, source, and the source's UDP port."""


class SimulatedNetwork:
    """All switches of a topology, with the rules that they were given."""

    def __init__(self, topology: Topology, *rules: RuleSet) -> None:
        self._topology = topology
        self._flows = [flow for part in rules for flow in part.flows]
        self._groups = {}
        for part in rules:
            for group in part.groups:
                key = (group.dpid, group.group_id)
                assert key not in self._groups, "a switch refuses a second group of one id"
                self._groups[key] = group
        self._far_ends = {}
        for edge in topology.edges:
            near = (dpid(topology.index(edge.src)), topology.out_port(edge.index))
            far = (dpid(topology.index(edge.dst)), topology.out_port(edge.index ^ 1))
            self._far_ends[near] = far

    def deliver(self, switch: int, in_port: int, ipv4_dst: str) -> Counter:
        """Where copies of a packet leave the network: (switch, host port) to their number."""
        sent = self.forward(switch, in_port, ipv4_dst)
        return Counter({out: count for out, count in sent.items() if out not in self._far_ends})

    def forward(
        self, switch: int, in_port: int, ipv4_dst: str, *, ipv4_src: str = "", udp_src: int = 0
    ) -> Counter:
        """Follow a packet: every (switch, port) that copies of it leave by, to their number."""
        sent: Counter = Counter()
        waiting = [(switch, in_port)]
        hops = 0
        while waiting:
            hops += 1
            assert hops < MAX_HOPS, "the packet runs in circles"
            switch, in_port = waiting.pop()
            for port in self._outputs(switch, in_port, (ipv4_dst, ipv4_src, udp_src)):
                if port == in_port:  # OpenFlow drops what would go back where it came from
                    continue
                out = (switch, in_port if port == IN_PORT else port)
                sent[out] += 1
                if out in self._far_ends:
                    waiting.append(self._far_ends[out])
        return sent

    def _outputs(self, switch: int, in_port: int, header: Header) -> tuple[int, ...]:
        matching = [flow for flow in self._flows if _matches(flow, switch, in_port, header)]
        if not matching:
            return ()
        best = max(flow.priority for flow in matching)
        (flow,) = [flow for flow in matching if flow.priority == best]
        if flow.group_id is None:
            assert flow.output_port is not None
            return (flow.output_port,)
        return self._groups[switch, flow.group_id].ports


def _matches(flow: FlowRule, switch: int, in_port: int, header: Header) -> bool:
    ipv4_dst, ipv4_src, udp_src = header
    return (
        flow.dpid == switch
        and flow.ipv4_dst == ipv4_dst
        and flow.in_port in (None, in_port)
        and flow.ipv4_src in (None, ipv4_src)
        and flow.udp_src in (None, udp_src)
    )

"""OpenFlow 1.3 messages of rules and changes; needs nothing of a framework but a datapath."""

from collections.abc import Iterable, Iterator
from typing import Any

from controller.installer import Change, Clear, Delete, Modify
from controller.rules import FlowRule, GroupRule

ETH_TYPE_IPV4 = 0x0800
IP_PROTO_UDP = 17


def openflow_messages(datapath: Any, changes: Iterable[Change]) -> Iterator[Any]:
    """OpenFlow 1.3 messages that make changes on a switch."""
    for change in changes:
        if isinstance(change, Clear):
            yield from _clear(datapath)
        elif isinstance(change.rule, GroupRule):
            yield _group_mod(datapath, change.rule, change)
        else:
            yield _flow_mod(datapath, change.rule, delete=isinstance(change, Delete))


def barrier_request(datapath: Any) -> Any:
    """A barrier."""
    return datapath.ofproto_parser.OFPBarrierRequest(datapath)


def _clear(datapath: Any) -> Iterator[Any]:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    yield parser.OFPFlowMod(
        datapath,
        command=ofproto.OFPFC_DELETE,
        table_id=ofproto.OFPTT_ALL,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=parser.OFPMatch(),
    )
    yield parser.OFPGroupMod(
        datapath, ofproto.OFPGC_DELETE, ofproto.OFPGT_ALL, ofproto.OFPG_ALL, []
    )


def _group_mod(datapath: Any, rule: GroupRule, change: Change) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    delete = isinstance(change, Delete)
    other = ofproto.OFPGC_MODIFY if isinstance(change, Modify) else ofproto.OFPGC_ADD
    command = ofproto.OFPGC_DELETE if delete else other
    buckets = [
        parser.OFPBucket(
            watch_port=ofproto.OFPP_ANY,
            watch_group=ofproto.OFPG_ANY,
            actions=[parser.OFPActionOutput(port)],
        )
        for port in (() if delete else rule.ports)
    ]
    return parser.OFPGroupMod(datapath, command, ofproto.OFPGT_ALL, rule.group_id, buckets)


def _flow_mod(datapath: Any, rule: FlowRule, *, delete: bool) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    fields: dict[str, Any] = {"eth_type": ETH_TYPE_IPV4, "ipv4_dst": rule.ipv4_dst}
    if rule.in_port is not None:
        fields["in_port"] = rule.in_port
    if rule.ipv4_src is not None:
        fields["ipv4_src"] = rule.ipv4_src
    if rule.udp_src is not None:
        fields |= {"ip_proto": IP_PROTO_UDP, "udp_src": rule.udp_src}
    if rule.group_id is not None:
        action = parser.OFPActionGroup(rule.group_id)
    else:
        action = parser.OFPActionOutput(rule.output_port)
    instruction = parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, [action])
    return parser.OFPFlowMod(
        datapath,
        command=ofproto.OFPFC_DELETE_STRICT if delete else ofproto.OFPFC_ADD,
        priority=rule.priority,
        match=parser.OFPMatch(**fields),
        instructions=[] if delete else [instruction],
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )

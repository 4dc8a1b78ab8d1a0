"""What a switch says that it holds, as rules (OpenFlow 1.3.5, sections 7.3.5.2 and 7.3.5.10)."""

from collections.abc import Callable, Iterable
from typing import Any

from controller.messages import ETH_TYPE_IPV4, IP_PROTO_UDP
from controller.rules import FlowRule, GroupRule, RuleSet

_FIXED = {"eth_type": ETH_TYPE_IPV4, "ip_proto": IP_PROTO_UDP}
_FREE = ("ipv4_dst", "ipv4_src", "in_port", "udp_src")


class Reading:
    """Collects the parts of a switch's answer until both its tables are complete.

    Parameters
    ----------
    dpid
        The switch.
    done
        Called once with the rules, or with None if there are some that no plan makes.
    """

    def __init__(self, dpid: int, done: Callable[[RuleSet | None], None]) -> None:
        self._dpid = dpid
        self._done = done
        self._groups: list[GroupRule | None] = []
        self._flows: list[FlowRule | None] = []
        self._open = {"groups", "flows"}

    def groups(self, message: Any) -> None:
        """Take a part of the list of groups."""
        self._groups += [_group(self._dpid, group, message) for group in message.body]
        self._took("groups", message)

    def flows(self, message: Any) -> None:
        """Take a part of the list of flows."""
        self._flows += [_flow(self._dpid, flow, message) for flow in message.body]
        self._took("flows", message)

    def _took(self, table: str, message: Any) -> None:
        if message.flags & message.datapath.ofproto.OFPMPF_REPLY_MORE:
            return
        self._open.discard(table)
        if self._open:
            return
        groups, flows = _known(self._groups), _known(self._flows)
        strange = len(groups) + len(flows) < len(self._groups) + len(self._flows)
        self._done(None if strange else RuleSet(groups, flows))


def requests(datapath: Any) -> tuple[Any, ...]:
    """The messages that a switch answers with its tables."""
    parser = datapath.ofproto_parser
    return parser.OFPGroupDescStatsRequest(datapath), parser.OFPFlowStatsRequest(datapath)


def _known(rules: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(rule for rule in rules if rule is not None)


def _group(dpid: int, group: Any, message: Any) -> GroupRule | None:
    actions = [action for bucket in group.buckets for action in bucket.actions]
    ports = tuple(port for action in actions if (port := _output(action)) is not None)
    ofproto = message.datapath.ofproto
    plain = len(ports) == len(actions) == len(group.buckets)
    known = plain and group.type == ofproto.OFPGT_ALL
    return GroupRule(dpid, group.group_id, ports) if known else None


def _flow(dpid: int, flow: Any, message: Any) -> FlowRule | None:
    fields = dict(flow.match.items())
    fixed = {key: fields.pop(key) for key in _FIXED if key in fields}
    actions = [action for step in flow.instructions for action in getattr(step, "actions", [None])]
    if flow.table_id or set(fields) - set(_FREE) or len(actions) != 1 or "ipv4_dst" not in fields:
        return None
    if any(value != _FIXED[key] for key, value in fixed.items()):
        return None
    port, group_id = _output(actions[0]), getattr(actions[0], "group_id", None)
    if (port is None) == (group_id is None):
        return None
    return FlowRule(dpid, flow.priority, output_port=port, group_id=group_id, **fields)


def _output(action: Any) -> int | None:
    """Where an action sends packets; None if that is not what it does."""
    return getattr(action, "port", None)

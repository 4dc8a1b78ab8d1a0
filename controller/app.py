"""The controller application: plan in, programmed switches and reports out."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from controller.control_channel import ControlChannel
from controller.framework import Framework
from controller.hostplan import HostPath
from controller.installer import Action, Change, Clear, Delete, Installer
from controller.plan import Plan
from controller.rules import (
    FlowRule,
    GroupRule,
    RuleSet,
    base_rules,
    path_flows,
    round_rules,
)
from testbed.addressing import dpid

_ETH_TYPE_IPV4 = 0x0800
_IP_PROTO_UDP = 17
_NS_PER_MS = 1_000_000


class Application:
    """Installs base rules and rounds, and reports on the control channel.

    Parameters
    ----------
    plan
        What to install.
    channel
        Where to report, and where commands come from.
    framework
        The loaded controller framework.
    """

    def __init__(self, plan: Plan, channel: ControlChannel, framework: Framework) -> None:
        self._plan = plan
        self._channel = channel
        self._framework = framework
        self._names = {dpid(i): code for i, code in enumerate(plan.topology.codes)}
        self._datapaths: dict[int, Any] = {}
        self._barriers: dict[int, int] = {}
        self._round_0 = False
        self._ready = False
        self._installer = Installer(base_rules(plan), self._names, self._send, self._report)

    def run(self, port: int) -> None:
        """Listen for switches and obey commands until told to stop."""
        self._installer.install(0, round_rules(self._plan, 0))
        self._framework.listen(port, self)
        for command in self._channel.commands():
            if command["command"] == "stop":
                return
            if command["command"] == "paths":
                self._add_paths(command)
                continue
            self._framework.spawn(partial(self._follow_rounds, command["start_ns"]))

    def switch_up(self, datapath: Any) -> None:
        """Program a switch that has connected."""
        if not self._installer.knows(datapath.id):
            self._error(f"a switch with the unknown datapath id {datapath.id} connected")
            return
        self._datapaths[datapath.id] = datapath
        self._channel.send("switch", dpid=datapath.id, state="up")
        self._installer.switch_up(datapath.id)

    def switch_down(self, datapath: Any) -> None:
        """Report a switch that is gone, unless it is back already."""
        if not self._is_current(datapath):
            return
        del self._datapaths[datapath.id]
        self._barriers.pop(datapath.id, None)
        self._installer.switch_down(datapath.id)
        self._channel.send("switch", dpid=datapath.id, state="down")

    def barrier(self, datapath: Any, xid: int) -> None:
        """Go on with a switch that has done what it was asked for."""
        if not self._is_current(datapath) or self._barriers.get(datapath.id) != xid:
            return
        self._installer.barrier(datapath.id)
        if not self._ready and self._round_0 and self._installer.synchronised():
            self._ready = True
            self._channel.send("ready")

    def port_changed(self, datapath: Any, port: int, *, up: bool) -> None:
        """Report that a port has gone down or come up."""
        self._channel.send("port", dpid=datapath.id, port=port, up=up)

    def refused(self, datapath: Any, reason: str) -> None:
        """Report that a switch refused a message."""
        self._error(f"{self._switch(datapath.id)} refused a message: {reason}")

    def _add_paths(self, command: dict[str, Any]) -> None:
        """Install paths beside what is there: like a round after the last one."""
        paths = [HostPath.model_validate(path) for path in command["paths"]]
        rules = RuleSet(flows=path_flows(self._plan.topology, paths))
        self._installer.install(self._plan.rounds + command["set"], rules)

    def _follow_rounds(self, start_ns: int) -> None:
        """Install each round while the one before it runs; remove it half a round late."""
        interval_ns = round(self._plan.round_interval_ms * _NS_PER_MS)
        for k in range(self._plan.rounds):
            self._sleep_until(start_ns + k * interval_ns)
            missing = self._installer.missing(k)
            if missing:
                late = ", ".join(self._names[switch] for switch in sorted(missing))
                self._error(f"round {k} starts, but its rules are not confirmed by {late}")
            if k + 1 < self._plan.rounds:
                self._installer.install(k + 1, round_rules(self._plan, k + 1))
            if k > 0:
                self._sleep_until(start_ns + k * interval_ns + interval_ns // 2)
                self._installer.remove(k - 1)

    def _sleep_until(self, t_ns: int) -> None:
        while (left_ns := t_ns - time.monotonic_ns()) > 0:
            self._framework.sleep(left_ns / 1e9)

    def _send(self, switch: int, changes: tuple[Change, ...]) -> None:
        """The one place that sends: messages and their barrier in one write."""
        datapath = self._datapaths[switch]
        data = bytearray()
        for message in (*openflow_messages(datapath, changes), barrier_request(datapath)):
            self._barriers[switch] = datapath.set_xid(message)
            message.serialize()
            data += message.buf
        datapath.send(bytes(data))

    def _report(self, round_index: int, action: Action) -> None:
        if round_index == 0 and action is Action.CONFIRMED:
            self._round_0 = True
        paths = round_index - self._plan.rounds
        if paths >= 0:
            self._channel.send("paths", set=paths, action=action.value)
        else:
            self._channel.send("round", round=round_index, action=action.value)

    def _is_current(self, datapath: Any) -> bool:
        return self._datapaths.get(datapath.id, self) is datapath

    def _error(self, message: str) -> None:
        self._channel.send("error", message=message)

    def _switch(self, switch: int | None) -> str:
        return f"switch {self._names.get(switch or 0, 'unknown')} (dpid {switch})"


def openflow_messages(datapath: Any, changes: Iterable[Change]) -> Iterator[Any]:
    """OpenFlow 1.3 messages that make changes on a switch."""
    for change in changes:
        if isinstance(change, Clear):
            yield from _clear(datapath)
        elif isinstance(change.rule, GroupRule):
            yield _group_mod(datapath, change.rule, delete=isinstance(change, Delete))
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


def _group_mod(datapath: Any, rule: GroupRule, *, delete: bool) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    command = ofproto.OFPGC_DELETE if delete else ofproto.OFPGC_ADD
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
    fields: dict[str, Any] = {"eth_type": _ETH_TYPE_IPV4, "ipv4_dst": rule.ipv4_dst}
    if rule.in_port is not None:
        fields["in_port"] = rule.in_port
    if rule.ipv4_src is not None:
        fields["ipv4_src"] = rule.ipv4_src
    if rule.udp_src is not None:
        fields |= {"ip_proto": _IP_PROTO_UDP, "udp_src": rule.udp_src}
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

"""The controller application: plan in, programmed switches and reports out."""

import time
from collections import Counter
from functools import partial
from typing import Any, Literal

from controller.control_channel import ControlChannel
from controller.framework import Framework
from controller.hostplan import HostPath
from controller.installer import BASE, Action, Change, Installer
from controller.messages import barrier_request, openflow_messages
from controller.plan import Plan
from controller.ports import Ports
from controller.routes import Routes
from controller.rules import RuleSet, path_flows
from controller.tables import Reading, requests
from controller.timetable import Timetable
from testbed.addressing import dpid

OnLinkDown = Literal["reroute", "ignore"]
_NOTHING: Counter[str] = Counter()


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
    on_link_down
        Whether trees are led around a link that a switch says is down.
    start_ns
        Start of round 0, CLOCK_MONOTONIC, where the run has begun already: then it goes
        on with the rounds of this time.
    """

    def __init__(
        self,
        plan: Plan,
        channel: ControlChannel,
        framework: Framework,
        *,
        on_link_down: OnLinkDown = "reroute",
        start_ns: int | None = None,
    ) -> None:
        self._plan = plan
        self._channel = channel
        self._framework = framework
        self._on_link_down = on_link_down
        self._names = {dpid(i): code for i, code in enumerate(plan.topology.codes)}
        self._datapaths: dict[int, Any] = {}
        self._barriers: dict[int, int] = {}
        self._readings: dict[int, Reading] = {}
        self._ready = False
        self._ports = Ports(plan.topology)
        self._routes = Routes(plan)
        self._times = Timetable(plan, start_ns)
        self._installer = Installer(self._routes.base(), self._names, self._send, self._report)

    def run(self, port: int) -> None:
        """Listen for switches and obey commands until told to stop."""
        now_ns = time.monotonic_ns()
        for k in self._times.live(now_ns):
            self._installer.install(k, self._routes.enter(k))
        self._framework.listen(port, self)
        if self._times.started:
            self._framework.spawn(partial(self._follow_rounds, now_ns))
        for command in self._channel.commands():
            if command["command"] == "stop":
                return
            if command["command"] == "paths":
                self._add_paths(command)
                continue
            self._times = Timetable(self._plan, command["start_ns"])
            self._framework.spawn(partial(self._follow_rounds, 0))

    def switch_up(self, datapath: Any) -> None:
        """Ask a switch that has connected what it holds."""
        if not self._installer.knows(datapath.id):
            self._error(f"a switch with the unknown datapath id {datapath.id} connected")
            return
        self._datapaths[datapath.id] = datapath
        self._channel.send("switch", dpid=datapath.id, state="up")
        self.ports_changed(datapath)
        done = partial(self._installer.switch_up, datapath.id)
        self._readings[datapath.id] = Reading(datapath.id, done)
        for request in requests(datapath):
            datapath.send_msg(request)

    def switch_down(self, datapath: Any) -> None:
        """Report a switch that is gone, unless it is back already."""
        if not self._is_current(datapath):
            return
        del self._datapaths[datapath.id]
        self._barriers.pop(datapath.id, None)
        self._readings.pop(datapath.id, None)
        self._installer.switch_down(datapath.id)
        self._channel.send("switch", dpid=datapath.id, state="down")

    def groups(self, message: Any) -> None:
        """Take the groups that a switch says it holds."""
        if self._is_current(message.datapath):
            self._readings[message.datapath.id].groups(message)

    def flows(self, message: Any) -> None:
        """Take the flows that a switch says it holds."""
        if self._is_current(message.datapath):
            self._readings[message.datapath.id].flows(message)

    def barrier(self, datapath: Any, xid: int) -> None:
        """Go on with a switch that has done what it was asked for."""
        if not self._is_current(datapath) or self._barriers.get(datapath.id) != xid:
            return
        self._installer.barrier(datapath.id)
        if not self._ready and self._installer.synchronised():
            self._ready = True
            self._channel.send("ready")

    def refused(self, datapath: Any, reason: str) -> None:
        """Report that a switch refused a message."""
        self._error(f"{self._switch(datapath.id)} refused a message: {reason}")

    def ports_changed(self, datapath: Any) -> None:
        """Find out which links are down, and lead trees around them."""
        if not self._is_current(datapath):
            return
        ofproto = datapath.ofproto
        down = {n for n, port in datapath.ports.items() if port.state & ofproto.OFPPS_LINK_DOWN}
        for link in self._ports.down(datapath.id, down):
            state = "down" if link in self._ports.dead else "up"
            self._channel.send("link", link=self._ports.name(link), state=state)
            if self._on_link_down == "reroute":
                self._reroute(self._ports.name(link))

    def _add_paths(self, command: dict[str, Any]) -> None:
        """Install paths beside what is there: like a round after the last one."""
        paths = [HostPath.model_validate(path) for path in command["paths"]]
        rules = RuleSet(flows=path_flows(self._plan.topology, paths))
        self._installer.install(self._plan.rounds + command["set"], rules)

    def _reroute(self, link: str) -> None:
        """Give the live rounds, and single packets, ways around the links that are down."""
        installer, begun = self._installer, self._times.current(time.monotonic_ns())
        changed = self._routes.avoid(self._ports.dead, begun)
        changed[BASE] = self._routes.base()
        rules = sum((installer.replace(k, r) for k, r in changed.items()), start=_NOTHING.copy())
        rounds = sorted(changed.keys() - {BASE})
        cut_off = [[k, *ends] for k in rounds for ends in self._routes.cut_off(k)]
        self._channel.send("reroute", link=link, rounds=rounds, rules=dict(rules), cut_off=cut_off)
        self._framework.spawn(partial(self._sweep, list(changed)))

    def _sweep(self, rounds: list[int]) -> None:
        """Delete former trees when nothing is on its way on them any more."""
        self._framework.sleep(self._times.drain_s)
        for k in rounds:
            self._installer.sweep(k)

    def _follow_rounds(self, since_ns: int) -> None:
        """Install each round while the one before it runs; remove it half a round late."""
        for due_ns, entering, leaving in self._times.changes(since_ns):
            while (left_ns := due_ns - time.monotonic_ns()) > 0:
                self._framework.sleep(left_ns / 1e9)
            if leaving is not None:
                self._routes.leave(leaving)
                self._installer.remove(leaving)
            if entering is not None:
                self._check(entering - 1)
                self._installer.install(entering, self._routes.enter(entering))

    def _check(self, round_index: int) -> None:
        """Tell which switches a round, which begins now, lacks."""
        missing = sorted(self._names[dpid] for dpid in self._installer.missing(round_index))
        if missing:
            self._channel.send("late", round=round_index, switches=missing)

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
        added = round_index - self._plan.rounds
        if added >= 0:
            self._channel.send("paths", set=added, action=action.value)
        else:
            self._channel.send("round", round=round_index, action=action.value)

    def _is_current(self, datapath: Any) -> bool:
        return self._datapaths.get(datapath.id, self) is datapath

    def _error(self, message: str) -> None:
        self._channel.send("error", message=message)

    def _switch(self, switch: int | None) -> str:
        return f"switch {self._names.get(switch or 0, 'unknown')} (dpid {switch})"

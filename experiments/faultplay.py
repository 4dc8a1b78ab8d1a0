"""Makes the faults of a config happen: one handler per kind of `experiments.faults`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from experiments.agenda import Action, Agenda
from experiments.controllerprocess import ControllerProcess
from experiments.faults import (
    ControllerRestart,
    Crash,
    Fault,
    LinkChange,
    LinkCut,
    LossBurst,
    Restart,
    Straggle,
    SwitchReconnect,
)
from experiments.fleet import Fleet
from testbed.impairment import Impairment, threshold
from testbed.livelinks import LiveLinks
from testbed.network import NOBODY_PORT, Network
from testbed.shaping import Shape, shape_for
from testbed.topology import Topology

NS_PER_MS = 1_000_000
_POLL_NS = NS_PER_MS
"""How often a restart that is due looks whether the old process has ended."""
_BITS_PER_GBPS = 1e9
_ROLES = MappingProxyType({"island-crash": "island"})
"""Whose agents end by events that are no restarts."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """What faults happen to, and what has happened so far.

    Attributes
    ----------
    topology, scale, mtu_bytes
        Of the network.
    fleet, links, controller, network, agenda
        The agents, the links, the controller, the switches, and what is to come.
    timeline
        Of each fault, what happened; see `experiments.incarnations.FaultRecord`.
    reshaped
        Called with the directions that have got another rate or delay.
    """

    topology: Topology
    scale: float
    mtu_bytes: int
    fleet: Fleet
    links: LiveLinks
    controller: ControllerProcess
    network: Network
    agenda: Agenda
    timeline: list[Record] = field(default_factory=list)
    reshaped: Callable[[Sequence[str]], None] = lambda names: None

    def after(self, delay_ms: float, action: Action) -> None:
        """Do something after a while."""
        self.agenda.at(time.monotonic_ns() + round(delay_ms * NS_PER_MS), action)

    def now_ns(self) -> int:
        """The time, since the start of round 0."""
        return self.fleet.since_start_ns()


_Handler: TypeAlias = Callable[[Any, Scene, Record], None]


def play(fault: Fault, scene: Scene) -> None:
    """Begin a fault, which is due; the agenda gets what follows from it."""
    record = not_reached(fault)
    scene.timeline.append(record)
    _HANDLERS[type(fault)](fault, scene, record)


def not_reached(fault: Fault) -> Record:
    """The record of a fault for which the run was over too early."""
    return {
        "at_ns": round(fault.at_ms * NS_PER_MS),
        "event": fault.event,
        "target": fault.target,
        "role": fault.role if isinstance(fault, Restart) else _ROLES.get(fault.event, ""),
    }


def _restart(fault: Restart, scene: Scene, record: Record) -> None:
    """End an agent and put its new start on the agenda."""
    fleet = scene.fleet
    record["signal"] = fault.signal
    if not fleet.runs(fault.role, fault.city):
        return
    record["happened_ns"] = scene.now_ns()
    record["lives"] = fleet.end_one(fault.role, fault.city, fault.signal)
    scene.after(fault.down_ms, partial(_start_again, fault, scene, record))


def _start_again(fault: Restart, scene: Scene, record: Record) -> None:
    if scene.fleet.runs(fault.role, fault.city):
        later_ns = time.monotonic_ns() + _POLL_NS
        scene.agenda.at(later_ns, partial(_start_again, fault, scene, record))
        return
    scene.fleet.start_one(fault.role, fault.city)
    record["ended_ns"] = scene.now_ns()


def _cut(fault: LinkCut, scene: Scene, record: Record) -> None:
    """Take a link down, or up, which ends what took it down."""
    names = fault.directions(scene.topology)
    record["happened_ns"] = scene.now_ns()
    if fault.event == "link-down":
        scene.links.cut(names)
    else:
        scene.links.join(names)
    if fault.event == "link-up":
        record["ended_ns"] = record["happened_ns"]
        downs = (r for r in scene.timeline if r["event"] == "link-down" and "ended_ns" not in r)
        for earlier in downs:
            if set(earlier["directions"]) == set(names):
                earlier["ended_ns"] = record["happened_ns"]
    record["directions"] = list(names)


def _change(fault: LinkChange, scene: Scene, record: Record) -> None:
    """Give links another rate or delay."""
    names = fault.directions(scene.topology)
    record["happened_ns"] = scene.now_ns()
    scene.links.reshape({name: _reshaped(fault, scene, name) for name in names})
    scene.reshaped(names)
    record["directions"] = list(names)


def _reshaped(fault: LinkChange, scene: Scene, name: str) -> Shape:
    now = scene.links.shape(name)
    rate_gbps = fault.rate_gbps
    if rate_gbps is None:
        rate_gbps = now.rate_bytes_per_s * 8 * scene.scale / _BITS_PER_GBPS
    delay_ms = now.delay_ns / NS_PER_MS if fault.delay_ms is None else fault.delay_ms
    return shape_for(delay_ms, rate_gbps, scene.scale, scene.mtu_bytes)


def _lose(fault: LossBurst, scene: Scene, record: Record) -> None:
    """Let links lose packets, and put the end of it on the agenda."""
    names = fault.directions(scene.topology)
    record["happened_ns"] = scene.now_ns()
    scene.links.disturb(names, Impairment(loss=threshold(fault.loss_percent)))
    record["directions"] = list(names)
    scene.after(fault.for_ms, partial(_lose_no_more, names, scene, record))


def _lose_no_more(names: tuple[str, ...], scene: Scene, record: Record) -> None:
    record["ended_ns"] = scene.now_ns()
    scene.links.disturb(names, None)


def _straggle(fault: Straggle, scene: Scene, record: Record) -> None:
    """Note that an island is slow now: it knows itself (`AgentContext.slow`)."""
    if scene.fleet.runs("island", fault.city):
        record["happened_ns"] = record["at_ns"]
        record["ended_ns"] = round((fault.at_ms + fault.for_ms) * NS_PER_MS)


def _crash(fault: Crash, scene: Scene, record: Record) -> None:
    """End an island for good."""
    if scene.fleet.runs("island", fault.city):
        record["happened_ns"] = scene.now_ns()
        record["signal"] = "kill"
        record["lives"] = scene.fleet.end_one("island", fault.city, "kill", again=False)


def _restart_controller(fault: ControllerRestart, scene: Scene, record: Record) -> None:
    """Kill the controller and put its new start on the agenda."""
    if scene.controller.runs:
        record["happened_ns"] = scene.now_ns()
        scene.controller.kill()
        scene.after(fault.down_ms, partial(_start_controller, scene, record))


def _start_controller(scene: Scene, record: Record) -> None:
    if scene.controller.runs:
        later_ns = time.monotonic_ns() + _POLL_NS
        scene.agenda.at(later_ns, partial(_start_controller, scene, record))
        return
    scene.controller.start(scene.fleet.start_ns)
    record["ended_ns"] = scene.now_ns()


def _disconnect(fault: SwitchReconnect, scene: Scene, record: Record) -> None:
    """Point a switch to nobody, and put the way back on the agenda."""
    record["happened_ns"] = scene.now_ns()
    scene.network.point(fault.city, NOBODY_PORT)
    scene.after(fault.down_ms, partial(_connect, fault.city, scene, record))


def _connect(city: str, scene: Scene, record: Record) -> None:
    scene.network.point(city, scene.controller.port)
    record["ended_ns"] = scene.now_ns()


_HANDLERS: Mapping[type, _Handler] = MappingProxyType(
    {
        Restart: _restart,
        LinkCut: _cut,
        LinkChange: _change,
        LossBurst: _lose,
        Straggle: _straggle,
        Crash: _crash,
        ControllerRestart: _restart_controller,
        SwitchReconnect: _disconnect,
    }
)

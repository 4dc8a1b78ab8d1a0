"""The controller as a process, with fake switches, under both frameworks."""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_switch import (
    BARRIER_REQUEST,
    FLOW_MOD,
    GROUP_DESCRIPTIONS,
    GROUP_MOD,
    FakeSwitch,
)

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import Schedule
from testbed.addressing import FIRST_LINK_PORT
from testbed.topology import City, Link, Topology

ROOT = Path(__file__).parents[2]
LINE = Topology(
    name="line",
    cities=tuple(City(code=c, name=c, region="r", lat=0, lon=0) for c in ("aa", "bb", "cc")),
    links=(
        Link(a="aa", b="bb", delay_ms=1, delay_back_ms=1),
        Link(a="bb", b="cc", delay_ms=1, delay_back_ms=1),
    ),
)
INTERVAL_MS = 200.0
OFPGC_ADD, OFPGC_DELETE = 0, 2


@pytest.fixture(scope="module")
def plan() -> Plan:
    schedule = Schedule(name="ends", rounds=((("aa", "cc"),),))
    planned = make_plan(LINE, schedule, payload_bytes=1e6, memory_bytes=1e12, rounds=3)
    return planned.model_copy(update={"round_interval_ms": INTERVAL_MS})


class Controller:
    """The controller process and the emulation's end of its control channel."""

    def __init__(self, framework: str, plan: Plan, folder: Path, *options: str) -> None:
        plan.write(folder / "plan.json")
        path = folder / "control.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        listener.settimeout(60)
        self.port = free_port()
        argv = [sys.executable, "-m", "controller", "--framework", framework]
        argv += ["--port", str(self.port), "--plan", str(folder / "plan.json")]
        argv += ["--control", str(path), *options]
        self.process = subprocess.Popen(
            argv, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment()
        )
        self._peer, _ = listener.accept()
        self._peer.settimeout(60)
        self._lines = self._peer.makefile("r")
        self.seen: list[dict[str, Any]] = []

    def switch(self, dpid: int, refuse: int | None = None, **options: Any) -> FakeSwitch:
        deadline = time.monotonic() + 30
        while True:
            try:
                return FakeSwitch(self.port, dpid, refuse, **options)
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def send(self, **command: Any) -> None:
        self._peer.sendall(json.dumps(command).encode() + b"\n")

    def wait(self, **wanted: Any) -> dict[str, Any]:
        while True:
            event: dict[str, Any] = json.loads(self._lines.readline())
            self.seen.append(event)
            if all(event.get(key) == value for key, value in wanted.items()):
                return event

    def close(self) -> None:
        self._peer.close()
        self.process.kill()
        self.process.communicate()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(params=["ryu", "os-ken"])
def controller(request: Any, plan: Plan, tmp_path: Path) -> Iterator[Controller]:
    running = Controller(request.param, plan, tmp_path)
    yield running
    running.close()


def test_a_whole_run(controller: Controller) -> None:
    switches = [controller.switch(dpid) for dpid in (1, 2, 3)]
    ready = controller.wait(event="ready")
    assert {event["dpid"] for event in controller.seen if event["event"] == "switch"} == {1, 2, 3}
    assert ready["t_ns"] <= time.monotonic_ns()
    start_ns = time.monotonic_ns() + 50_000_000
    controller.send(command="start", start_ns=start_ns)
    times = collect(controller, start_ns)
    interval_ns = INTERVAL_MS * 1e6
    assert 0 <= times["confirmed", 1] < interval_ns <= times["confirmed", 2] < 2 * interval_ns
    assert times["removed", 0] >= 1.5 * interval_ns
    assert times["removed", 1] >= 2.5 * interval_ns
    controller.send(command="stop")
    assert controller.process.wait(30) == 0
    assert controller.process.stderr is not None
    assert controller.process.stderr.read() == ""
    for switch in switches:
        check_order(switch.messages)


def collect(controller: Controller, start_ns: int) -> dict[tuple[str, int], int]:
    times = {}
    while len(times) < 4:
        event = controller.wait(event="round")
        times[event["action"], event["round"]] = event["t_ns"] - start_ns
    return times


def check_order(messages: list[tuple[int, bytes]]) -> None:
    """Each group is confirmed by a barrier before a flow uses it; nothing is cleared."""
    kinds = [kind for kind, _ in messages]
    assert BARRIER_REQUEST in kinds[kinds.index(GROUP_MOD) : kinds.index(FLOW_MOD)]
    groups = group_commands(messages)
    assert groups.count(OFPGC_ADD) == 3 * 2  # two trees through every switch, three rounds
    assert groups.count(OFPGC_DELETE) == 2 * 2  # rounds 0 and 1


def group_commands(messages: list[tuple[int, bytes]]) -> list[int]:
    return [int.from_bytes(body[0:2], "big") for kind, body in messages if kind == GROUP_MOD]


def test_a_switch_that_comes_back_gets_everything_again(controller: Controller) -> None:
    others = [controller.switch(dpid) for dpid in (1, 3)]
    first = controller.switch(2)
    controller.wait(event="ready")
    before = list(first.messages)
    first.close()
    controller.wait(event="switch", dpid=2, state="down")
    second = controller.switch(2)
    controller.wait(event="switch", dpid=2, state="up")
    deadline = time.monotonic() + 30
    while len(second.messages) < len(before) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert second.messages == before
    assert len(others) == 2


STRANGE_GROUP = struct.pack("!HBxI", 8, 1, 77)
"""A group of another type than ours, without buckets, as a switch describes it."""


def test_a_switch_with_rules_that_nobody_knows_is_cleared(controller: Controller) -> None:
    switch = controller.switch(2, tables={GROUP_DESCRIPTIONS: [b"", STRANGE_GROUP]})
    controller.wait(event="switch", dpid=2)
    assert soon(lambda: len(switch.messages) > 3)
    kinds = [kind for kind, _ in switch.messages]
    assert kinds[:3] == [FLOW_MOD, GROUP_MOD, BARRIER_REQUEST]
    assert group_commands(switch.messages)[0] == OFPGC_DELETE


def test_a_dead_link_without_another_way_cuts_receivers_off(controller: Controller) -> None:
    switches = [controller.switch(dpid) for dpid in (1, 2, 3)]
    controller.wait(event="ready")
    before = len(switches[0].messages)
    switches[0].tell_port(FIRST_LINK_PORT, up=False)
    told = controller.wait(event="link")
    assert (told["link"], told["state"]) == ("aa-bb", "down")
    reroute = controller.wait(event="reroute")
    assert reroute["rounds"] == [0]
    assert sorted(reroute["cut_off"]) == [[0, "aa", "cc"], [0, "cc", "aa"]]
    controller.wait(event="round", round=0, action="rerouted")
    controller.wait(event="round", round=0, action="swept")
    assert OFPGC_DELETE in group_commands(switches[0].messages[before:])
    switches[0].tell_port(FIRST_LINK_PORT, up=True)
    controller.wait(event="link", state="up")
    assert controller.wait(event="reroute")["cut_off"] == []
    controller.wait(event="round", round=0, action="rerouted")
    assert group_commands(switches[0].messages)[-1] == OFPGC_ADD


def test_it_may_be_told_to_leave_dead_links_alone(plan: Plan, tmp_path: Path) -> None:
    controller = Controller("ryu", plan, tmp_path, "--on-link-down", "ignore")
    switches = [controller.switch(dpid) for dpid in (1, 2, 3)]
    controller.wait(event="ready")
    before = len(switches[0].messages)
    switches[0].tell_port(FIRST_LINK_PORT, up=False)
    controller.wait(event="link", state="down")
    controller.send(command="start", start_ns=time.monotonic_ns() + 50_000_000)
    controller.wait(event="round", round=1, action="confirmed")
    added = group_commands(switches[0].messages[before:])
    assert added == [OFPGC_ADD] * 2, "nothing but the next round's trees"
    assert not any(event["event"] == "reroute" for event in controller.seen)
    controller.close()


def test_one_that_is_started_within_a_run_goes_on_with_its_rounds(
    plan: Plan, tmp_path: Path
) -> None:
    start_ns = time.monotonic_ns() - round(1.6 * INTERVAL_MS * 1e6)  # round 1, round 0 is gone
    long = plan.model_copy(update={"rounds": 1000})
    controller = Controller("ryu", long, tmp_path, "--start-ns", str(start_ns))
    for dpid in (1, 2, 3):
        controller.switch(dpid)
    controller.wait(event="ready")
    confirmed = [e["round"] for e in controller.seen if e.get("action") == "confirmed"]
    assert confirmed
    assert min(confirmed) > 0
    controller.wait(event="round", round=max(confirmed) + 2, action="confirmed")
    controller.close()


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_refused_message_is_reported(controller: Controller) -> None:
    controller.switch(2, refuse=GROUP_MOD)
    message = controller.wait(event="error")["message"]
    assert message.startswith("switch bb (dpid 2) refused a message: OFPET_BAD_REQUEST(1)")


def test_a_strange_switch_is_reported(controller: Controller) -> None:
    controller.switch(77)
    assert "unknown datapath id 77" in controller.wait(event="error")["message"]


def test_rules_that_come_too_late_are_reported(controller: Controller) -> None:
    controller.switch(1)
    controller.wait(event="switch", dpid=1)
    controller.send(command="start", start_ns=time.monotonic_ns())
    late = controller.wait(event="late")
    assert late["round"] == 0
    assert "cc" in late["switches"]


def test_it_ends_when_the_emulation_is_gone(controller: Controller) -> None:
    controller._lines.close()
    controller._peer.close()
    assert controller.process.wait(30) == 0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "controller", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_taken_port_is_named_with_its_owner(plan: Plan, tmp_path: Path) -> None:
    plan.write(tmp_path / "plan.json")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        done = run("--plan", str(tmp_path / "plan.json"), "--control", "x", "--port", str(port))
    assert done.returncode == 5
    assert len(done.stderr.splitlines()) == 1
    assert f"port {port} on 127.0.0.1 cannot be used: taken by" in done.stderr
    assert f"(process {os.getpid()})" in done.stderr


def test_an_unknown_framework_is_refused() -> None:
    done = run("--plan", "x", "--control", "x", "--framework", "ruy")
    assert (done.returncode, done.stderr.strip()) == (
        2,
        'unknown controller framework "ruy"; did you mean "ryu"?',
    )


def test_a_missing_plan_or_socket_is_said(plan: Plan, tmp_path: Path) -> None:
    done = run("--plan", str(tmp_path / "no.json"), "--control", "x")
    assert done.returncode == 2
    assert "cannot read the plan" in done.stderr
    plan.write(tmp_path / "plan.json")
    options = ["--plan", str(tmp_path / "plan.json"), "--port", str(free_port())]
    done = run(*options, "--control", str(tmp_path / "none.sock"))
    assert done.returncode == 5
    assert "no control socket at" in done.stderr

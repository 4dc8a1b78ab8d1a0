"""Runs inside the virtual-time machine: builds a network, programs it, sends packets, reports.

``python tests/machine/guest_network.py FRAMEWORK PLAN LOG_DIR REPORT`` writes a JSON report.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from guest_losses import check_losses

from controller.plan import Plan, read_plan
from testbed.addressing import STREAM_UDP_PORT, group_ip
from testbed.namespaces import die_with_parent, isolate
from testbed.netlink import RouteSocket
from testbed.netrequests import link_counters, list_links
from testbed.network import Network, build_network
from testbed.roundtrips import measure_round_trips

PORT = 6653
NS_PER_MS = 1_000_000


class Control:
    """The emulation's end of the control channel."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(1)
        self.events: list[dict] = []

    def accept(self) -> None:
        self._listener.settimeout(60)
        self._peer, _ = self._listener.accept()
        self._peer.settimeout(60)
        self._lines = self._peer.makefile("r")

    def send(self, **command: object) -> None:
        self._peer.sendall(json.dumps(command).encode() + b"\n")

    def wait(self, **wanted: object) -> dict:
        """Read events until one has the given fields."""
        while True:
            event = json.loads(self._lines.readline())
            self.events.append(event)
            if event["event"] == "error":
                raise SystemExit(f"controller: {event['message']}")
            if all(event.get(key) == value for key, value in wanted.items()):
                return event


class Listeners:
    """A UDP socket on every island and aggregator, member of all groups of two rounds."""

    def __init__(self, network: Network, rounds: int) -> None:
        self._names: dict[socket.socket, str] = {}
        codes = network.topology.codes
        for city, code in enumerate(codes):
            for role, host in (("i", network.island(city)), ("a", network.aggregator(city))):
                with host.namespace.entered():
                    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                udp.bind(("", STREAM_UDP_PORT))
                for k in range(rounds):
                    for sender in range(len(codes)):
                        group = socket.inet_aton(group_ip(k, sender)) + bytes(4)
                        udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
                self._names[udp] = f"{code}-{role}"

    def count(self, quiet_s: float) -> dict[str, dict[str, int]]:
        """Copies by sender and receiver, until nothing has come for a while."""
        found: dict[str, dict[str, int]] = {}
        while ready := select.select(list(self._names), [], [], quiet_s)[0]:
            for udp in ready:
                sender = udp.recv(100).decode()
                copies = found.setdefault(sender, {})
                name = self._names[udp]
                copies[name] = copies.get(name, 0) + 1
        return found


def send_round(network: Network, round_index: int) -> None:
    """One small datagram from every island to its group of a round."""
    for city, code in enumerate(network.topology.codes):
        with network.island(city).namespace.entered():
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 16)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        udp.sendto(code.encode(), (group_ip(round_index, city), STREAM_UDP_PORT))
        udp.close()


def check_rounds(network: Network, control: Control, plan: Plan, report: dict) -> None:
    """Copies of rounds 0 and 1 before, during and after their time, and after a reconnect."""
    listeners = Listeners(network, rounds=2)
    send_round(network, 0)
    send_round(network, 1)
    report["copies_0"] = listeners.count(1.0)  # round 1 is not there yet
    start_ns = time.monotonic_ns() + 100 * NS_PER_MS
    control.send(command="start", start_ns=start_ns)
    report["round_1_confirmed_ns"] = control.wait(event="round", round=1)["t_ns"] - start_ns
    reconnect(network, control)
    send_round(network, 0)
    send_round(network, 1)
    report["copies_both"] = listeners.count(0.2)
    removed = control.wait(event="round", round=0, action="removed")
    report["round_0_removed_ns"] = removed["t_ns"] - start_ns
    send_round(network, 0)
    report["copies_removed"] = listeners.count(0.2)
    report["interval_ms"] = plan.round_interval_ms


def reconnect(network: Network, control: Control) -> None:
    """Take the controller away from one switch and give it back."""
    bridge = network.topology.codes[0]
    network.openvswitch.configure(["del-controller", bridge])
    control.wait(event="switch", dpid=1, state="down")
    network.openvswitch.configure(["set-controller", bridge, f"tcp:127.0.0.1:{PORT}"])
    control.wait(event="switch", dpid=1, state="up")
    time.sleep(0.01)


def check_mininet(network: Network, report: dict) -> None:
    """Mininet's own commands work, in the host's namespace, from a shell of its own."""
    code = network.topology.codes[0]
    before = len(children())
    host, switch = network.net[f"{code}-i"], network.net[code]
    report["host_address"] = host.cmd("ip -brief address show dev", f"{code}-i")
    report["host_popen"] = host.pexec(f"ip -brief address show dev {code}-i")[0]
    report["switch_link"] = switch.cmd("ip -brief link show dev", code)
    report["shells"] = len(children()) - before


def children() -> list[str]:
    """Names of all child processes."""
    statuses = [path.read_text() for path in Path("/proc").glob("[0-9]*/status")]
    mine = [text for text in statuses if f"\nPPid:\t{os.getpid()}\n" in text]
    return [text.splitlines()[0].split("\t")[1] for text in mine]


def main(framework: str, plan_path: str, logs: str, report_path: str) -> None:
    """Build, check, take down, report."""
    report: dict = {}
    plan = read_plan(Path(plan_path))
    isolate()
    control = Control("/tmp/control.sock")
    argv = [sys.executable, "-m", "controller", "--framework", framework, "--port", str(PORT)]
    argv += ["--plan", plan_path, "--control", "/tmp/control.sock"]
    controller = subprocess.Popen(argv, preexec_fn=die_with_parent)
    with build_network(
        plan.topology,
        scale=plan.scale,
        mtu_bytes=9000,
        name_prefix="",
        controller_port=PORT,
        log_dir=Path(logs),
    ) as network:
        control.accept()
        control.wait(event="ready")
        trips = measure_round_trips(network, scale=plan.scale)
        report["round_trips"] = [trip.model_dump() for trip in trips]
        check_rounds(network, control, plan, report)
        check_mininet(network, report)
        network.check()
        report["counters"] = network.counters()
        check_losses(network, report)
        control.send(command="stop")
        report["controller_status"] = controller.wait(timeout=30)
    with RouteSocket() as route:
        report["left"] = [link_counters(body).name for body in route.dump(list_links())]
    report["children"] = children()
    report["events"] = control.events
    Path(report_path).write_text(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])

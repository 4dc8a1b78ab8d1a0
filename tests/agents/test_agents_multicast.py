"""Multicast between two cities without a switch: each island is wired to its receiver."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_plans import make_plan
from agent_processes import Agent, Processes, inside
from pyroute2 import IPRoute

from agents.aggregator.daemon import run_aggregator
from agents.context import AgentContext
from agents.island import run_island
from testbed.addressing import aggregator_ip, island_ip
from testbed.namespaces import Namespace

CODES = ("nyc", "lon")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces: needs root")


class Hosts:
    """Namespaces by host name, with the cables between them."""

    def __init__(self) -> None:
        names = [f"{code}-{role}" for code in CODES for role in "ia"]
        self.places = {name: Namespace.create(name) for name in names}

    def cable(self, host: str, port: str, other: str, other_port: str) -> None:
        """Join two hosts; ports are interface names."""
        peer = {"ifname": other_port, "mtu": 9000, "net_ns_fd": self.places[other].descriptor}
        with self.places[host].entered(), IPRoute() as route:
            route.link("add", ifname=port, kind="veth", mtu=9000, peer=peer)
        for name, interface in ((host, port), (other, other_port)):
            with self.places[name].entered(), IPRoute() as route:
                (index,) = route.link_lookup(ifname=interface)
                route.link("set", index=index, state="up")

    def address(self, host: str, port: str, ip: str) -> None:
        """Give a port its address."""
        with self.places[host].entered(), IPRoute() as route:
            (index,) = route.link_lookup(ifname=port)
            route.addr("add", index=index, address=ip, prefixlen=16)

    def groups(self, host: str) -> set[str]:
        """Groups joined on a host, all-systems aside."""
        found = set()
        with self.places[host].entered():
            text = Path("/proc/thread-self/net/igmp").read_text()
        for line in text.splitlines():
            if line.startswith("\t"):
                packed = bytes.fromhex(line.split()[0])
                found.add(".".join(str(byte) for byte in reversed(packed)))
        return found - {"224.0.0.1"}


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    for place in made.places.values():
        place.close()


def wire_with_aggregators(hosts: Hosts) -> None:
    for city, (own, other) in enumerate((CODES, CODES[::-1])):
        hosts.cable(f"{own}-i", f"{own}-i", f"{other}-a", f"{other}-a")
        hosts.cable(f"{own}-a", "down", f"{own}-i", "up")
        hosts.address(f"{own}-a", "down", aggregator_ip(city))
        hosts.address(f"{own}-i", "up", island_ip(city))


def wire_islands(hosts: Hosts) -> None:
    hosts.cable("nyc-i", "nyc-i", "lon-i", "lon-i")
    for city, code in enumerate(CODES):
        hosts.address(f"{code}-i", f"{code}-i", island_ip(city))


@pytest.mark.parametrize("aggregation", [True, False])
def test_groups_are_joined_and_left_round_by_round(
    hosts: Hosts, processes: Processes, tmp_path: Path, aggregation: bool
) -> None:
    (wire_with_aggregators if aggregation else wire_islands)(hosts)
    plan = make_plan(
        codes=CODES,
        blocks=12.5,
        rounds=4,
        interval_ms=200,
        rate_gbps=0.1,
        multicast=True,
        aggregation=aggregation,
    )
    start_ns = time.monotonic_ns() + 500_000_000

    def start(role: str, agent: Agent) -> list[int]:
        pids = []
        for city, code in enumerate(CODES):
            ctx = AgentContext(plan=plan, city=city, start_ns=start_ns, out_dir=tmp_path)
            pids.append(processes.start(inside(hosts.places[f"{code}-{role}"], agent), ctx))
        return pids

    aggregators = start("a", run_aggregator) if aggregation else []
    islands = start("i", run_island)
    joined = []
    for after_ms in (-50, 150, 350):
        time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / 1e9 + after_ms / 1e3))
        joined.append(hosts.groups("nyc-a" if aggregation else "nyc-i"))
    assert [processes.wait(pid) for pid in islands] == [0, 0]
    assert [processes.terminate(pid) for pid in aggregators] == [0] * len(aggregators)
    assert joined == [{"239.0.0.2"}, {"239.0.0.2", "239.0.1.2"}, {"239.0.1.2", "239.0.2.2"}]
    for code in CODES:
        island = json.loads((tmp_path / f"island-{code}.json").read_text())
        assert island["complete"]
        assert not island["drops"]
        for mine in island["rounds"]:
            assert mine["exact_blocks"] == mine["datagrams_out"] == mine["datagrams_in"] == 13

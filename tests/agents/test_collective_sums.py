"""Islands and aggregators on one bridge: a sum up a chain of aggregators, and back by multicast."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_plans import make_plan
from agent_processes import Agent, Processes, inside
from pyroute2 import IPRoute

from agents.aggregator.daemon import run_aggregator
from agents.collective import run_collective
from agents.context import AgentContext
from agents.names import EngineName
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE
from controller.collectives.sums import best_sum, sum_plan
from controller.collectives.task import make_task
from controller.plan import Plan
from experiments.results import read_json
from testbed.addressing import aggregator_ip, island_ip
from testbed.namespaces import Namespace
from testbed.topology import City, Link, Topology

CODES = ("nyc", "chi", "lax", "tyo")
BLOCKS = 30
BRIDGE = "bridge"
_LEAD_NS = 1_200_000_000


def chain_plan() -> Plan:
    """A row of cities: the hub is chi, and lax adds what tyo sends to its own."""
    topology = Topology(
        name="row",
        cities=tuple(City(code=c, name=c, region="r", lat=0, lon=i) for i, c in enumerate(CODES)),
        links=tuple(
            Link(a=a, b=b, delay_ms=ms, delay_back_ms=ms)
            for a, b, ms in (("nyc", "chi", 2), ("chi", "lax", 1), ("lax", "tyo", 1))
        ),
    )
    plan = make_plan(codes=CODES, aggregation=False, scale=100, blocks=BLOCKS, interval_ms=1500)
    network = cities(topology, multicast=True, aggregates=True)
    tree, schedule = best_sum(network, make_task(network, ALL_REDUCE, round(plan.payload_bytes)))
    hosts = sum_plan(tree, schedule, topology, bound_us=1, bound="")
    return plan.model_copy(update={"collective": hosts, "topology": topology, "memory_bytes": 0.0})


def context(plan: Plan, city: int, out_dir: Path, start_ns: int, **options: Any) -> AgentContext:
    return AgentContext(plan=plan, city=city, start_ns=start_ns, out_dir=out_dir, **options)


def test_where_sums_go_and_who_is_in_them(tmp_path: Path) -> None:
    plan = chain_plan()
    nyc, chi, lax, tyo = (context(plan, city, tmp_path, 0) for city in range(4))
    assert plan.aggregators == ("chi", "lax")
    assert chi.sums_to == ("239.0.0.2", 5000)
    assert lax.sums_to == (aggregator_ip(1), 5000)
    assert (chi.takes_sums, lax.takes_sums, tyo.takes_sums) == (True, False, False)
    assert (chi.expectations[0].senders, chi.expectations[0].mask) == ((0, 1, 2), 0b1111)
    assert (lax.expectations[0].senders, lax.expectations[0].mask) == ((2, 3), 0b1100)
    assert nyc.expectations[0].senders == ()
    streams = AgentContext(plan=make_plan(), city=0, start_ns=0, out_dir=tmp_path)
    assert streams.sums_to == (island_ip(0), 5000)
    assert not streams.takes_sums


class Hosts:
    """A namespace for each island and aggregator of the chain, all on one bridge."""

    def __init__(self) -> None:
        self.places = {BRIDGE: Namespace.create(BRIDGE)}
        with self.places[BRIDGE].entered(), IPRoute() as route:
            route.link("add", ifname=BRIDGE, kind="bridge", mtu=9000, br_mcast_snooping=0)
            (bridge,) = route.link_lookup(ifname=BRIDGE)
            route.link("set", index=bridge, state="up")
        for city, code in enumerate(CODES):
            self._join(bridge, f"{code}-i", island_ip(city))
            self._join(bridge, f"{code}-a", aggregator_ip(city))

    def _join(self, bridge: int, host: str, ip: str) -> None:
        place = self.places[host] = Namespace.create(host)
        peer = {"ifname": host, "mtu": 9000, "net_ns_fd": place.descriptor}
        with self.places[BRIDGE].entered(), IPRoute() as route:
            route.link("add", ifname=host, kind="veth", mtu=9000, peer=peer)
            (port,) = route.link_lookup(ifname=host)
            route.link("set", index=port, master=bridge, state="up")
        with place.entered(), IPRoute() as route:
            (index,) = route.link_lookup(ifname=host)
            route.link("set", index=index, state="up")
            route.addr("add", index=index, address=ip, prefixlen=16)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    for place in made.places.values():
        place.close()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces: needs root")


def run_sum(
    hosts: Hosts, processes: Processes, out_dir: Path, islands: tuple[str, ...], **options: Any
) -> dict[str, dict[str, Any]]:
    """Run the aggregators and some islands; returns the counters by agent."""
    plan = chain_plan()
    # Real time: streams meet only roughly.
    options |= {"burst_datagrams": 1, "fifo_datagrams": BLOCKS}
    start_ns = time.monotonic_ns() + _LEAD_NS

    def start(codes: tuple[str, ...], place: str, agent: Agent) -> list[int]:
        return [
            processes.start(
                inside(hosts.places[f"{code}-{place}"], agent),
                context(plan, CODES.index(code), out_dir, start_ns, **options),
            )
            for code in codes
        ]

    aggregators = start(plan.aggregators, "a", run_aggregator)
    assert [processes.wait(pid) for pid in start(islands, "i", run_collective)] == [0] * len(
        islands
    )
    assert [processes.terminate(pid) for pid in aggregators] == [0, 0]
    return {path.stem: read_json(path) for path in sorted(out_dir.glob("*.json"))}


@needs_root
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_every_island_gets_the_true_sum(
    hosts: Hosts, processes: Processes, tmp_path: Path, engine: EngineName
) -> None:
    counters = run_sum(hosts, processes, tmp_path, CODES, engine=engine)
    for code in CODES:
        island = counters[f"collective-{code}"]
        assert island["complete"]
        assert (island["chunks"], island["chunks_exact"]) == (1, 1)
        assert (island["datagrams_out"], island["drops"]) == (BLOCKS, {})
    for code, feeds in (("lax", 2), ("chi", 3)):
        counted = counters[f"aggregator-{code}"]
        assert counted["emitted_blocks"] == {"complete": BLOCKS}
        assert counted["drops"] == {}
        (only,) = counted["rounds"]
        assert (only["contributions"], only["missing_contributions"]) == (feeds * BLOCKS, 0)
        assert (only["datagrams_in"], only["datagrams_out"]) == (feeds * BLOCKS, BLOCKS)


@needs_root
def test_partial_sums_are_refused_and_counted(
    hosts: Hosts, processes: Processes, tmp_path: Path
) -> None:
    counters = run_sum(hosts, processes, tmp_path, CODES[:3], timeout_ms=100.0)
    for code in CODES[:3]:
        island = counters[f"collective-{code}"]
        assert not island["complete"]
        assert island["chunks_exact"] == 0
        assert sum(island["drops"].values()) == island["drops"]["partial sum"] >= BLOCKS
    assert counters["aggregator-lax"]["emitted_blocks"] == {"timeout": BLOCKS}

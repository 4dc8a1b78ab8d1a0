"""The network and the controller on real packets, under both controller frameworks."""

import json
import sys
from pathlib import Path

import pytest

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import load_schedule
from testbed.topology import load_topology
from testbed.virtualtime.kernel import ensure_kernel
from testbed.virtualtime.machine import run_in_virtual_time

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
GUEST = Path(__file__).with_name("guest_network.py")
MS = 1_000_000


@pytest.fixture(scope="module")
def plan() -> Plan:
    topology = load_topology("nine-cities")
    return make_plan(
        topology,
        load_schedule("triangles", topology),
        payload_bytes=1.79e9,
        memory_bytes=32e9,
        scale=100,
        rounds=3,
    )


@pytest.fixture(scope="module", params=["ryu", "os-ken"])
def report(request, plan, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp(f"network-{request.param}")
    plan.write(folder / "plan.json")
    command = [sys.executable, str(GUEST), request.param, str(folder / "plan.json"), str(folder)]
    output = bytearray()
    outcome = run_in_virtual_time(
        [*command, str(folder / "report.json")],
        kernel=ensure_kernel(),
        on_output=lambda stream, data: output.extend(data),
        writable=folder,
        env={"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        wall_limit_s=300,
    )
    assert outcome.status == 0, output.decode(errors="replace")
    return json.loads((folder / "report.json").read_text())


def expected_copies(plan: Plan, round_index: int) -> dict[str, dict[str, int]]:
    return {
        stream.sender: {f"{receiver}-a": 1 for receiver in stream.receivers}
        for stream in plan.round(round_index).streams
    }


def test_round_trips_are_path_delays_and_serialisation(report, plan):
    cities = len(plan.topology.cities)
    assert len(report["round_trips"]) == cities * (cities - 1)
    for trip in report["round_trips"]:
        assert abs(trip["rtt_ns"] - trip["expected_ns"]) <= 2000, trip


def test_round_trip_of_one_link_by_hand(report):
    # New York to Chicago: 2 × 8.26 ms, and 98 bytes at 1 Gbit/s (784 ns) on six shaped hops.
    trip = next(t for t in report["round_trips"] if (t["src"], t["dst"]) == ("nyc", "chi"))
    assert trip["expected_ns"] == 2 * 8_260_000 + 6 * 784


def test_each_receiver_gets_one_copy_and_nobody_else_any(report, plan):
    assert report["copies_0"] == expected_copies(plan, 0)


def test_old_and_new_trees_coexist_and_survive_a_reconnect(report, plan):
    both: dict[str, dict[str, int]] = {}
    for k in (0, 1):
        for sender, copies in expected_copies(plan, k).items():
            merged = both.setdefault(sender, {})
            for receiver in copies:
                merged[receiver] = merged.get(receiver, 0) + 1
    assert report["copies_both"] == both


def test_rules_come_before_and_go_after_their_round(report):
    interval_ns = report["interval_ms"] * MS
    assert 0 < report["round_1_confirmed_ns"] < interval_ns / 2
    assert interval_ns * 1.5 <= report["round_0_removed_ns"] < interval_ns * 2
    assert report["copies_removed"] == {}


def test_nothing_was_dropped(report):
    assert [queue for queue in report["counters"]["queues"] if queue["drops"]] == []
    assert report["counters"]["datapath"]["lost"] == 0


def test_a_sound_link_and_a_mended_one_pass_bursts_whole_and_lose_nothing(report):
    for name in ("sound", "mended"):
        flow = report["losses"][name]
        assert (flow["came"], flow["different"], flow["overtaken"]) == (2000, 2000, 0)
        assert flow["at_once"] == 4


def test_losses_hit_single_datagrams_independently_and_are_counted(report):
    flow = report["losses"]["lost"]
    missing = flow["sent"] - flow["came"]
    assert missing == flow["dropped"]
    assert flow["at_once"] == 1
    assert 120 <= missing <= 280  # 200 ± 6 standard deviations
    # Of independent losses at 10 %, nine runs in ten have length 1; of bursts of 4, none.
    runs = {int(length): count for length, count in flow["runs"].items()}
    assert 0.8 <= runs[1] / sum(runs.values()) <= 0.97
    assert max(runs) <= 6


def test_losses_come_in_runs_where_that_is_asked_for(report):
    flow = report["losses"]["lost_in_runs"]
    runs = {int(length): count for length, count in flow["runs"].items()}
    missing = sum(length * count for length, count in runs.items())
    assert missing == flow["sent"] - flow["came"] == flow["dropped"] > 0
    assert 3 <= missing / sum(runs.values()) <= 16  # a mean of 8


def test_copies_are_made_and_nothing_is_lost(report):
    flow = report["losses"]["doubled"]
    assert flow["different"] == 2000
    assert 120 <= flow["came"] - 2000 <= 280


def test_packets_overtake_only_where_that_is_asked_for(report):
    losses = report["losses"]
    assert (losses["reordered"]["different"], losses["reordered"]["came"]) == (2000, 2000)
    assert losses["reordered"]["overtaken"] > 20
    # A link with a rate keeps the order, however late packets are.
    assert (losses["late"]["different"], losses["late"]["overtaken"]) == (2000, 0)


def test_an_islands_own_shaper_loses_whole_bursts_unless_it_sends_single_packets(report):
    whole, single = (
        report["losses"][f"{n}_up"]["runs"] for n in ("whole_bursts", "single_packets")
    )
    assert {int(length) % 4 for length in whole} == {0}
    assert "1" in single


def test_mininet_commands_work_and_start_a_shell_only_then(report):
    assert "10.0.1.1/16" in report["host_address"]
    assert "10.0.1.1/16" in report["host_popen"]
    assert "02:00:01:00:01:00" in report["switch_link"]
    assert report["shells"] == 2


def test_nothing_is_left(report):
    assert report["left"] == ["lo"]
    assert report["children"] == []
    assert report["controller_status"] == 0

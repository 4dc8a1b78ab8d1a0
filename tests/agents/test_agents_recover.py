"""Islands and aggregators as processes, with a hop between them that loses datagrams."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from agent_plans import CODES, make_plan
from agent_processes import LoopbackAddressing, Processes, context
from lossy_forwarder import ForwardedAddressing, Forwarder, Leg

from agents.aggregator.daemon import run_aggregator
from agents.context import AgentContext
from agents.island import run_island
from agents.records import Kind, read_events


def run_lossy(
    processes: Processes,
    out_dir: Path,
    leg: Leg,
    hop: Forwarder,
    patience_ms: float = 6000,
    **options: Any,
) -> dict[str, Any]:
    """Run three islands through a round over a lossy leg; counters by ``<role>-<city>``."""
    plan = make_plan(blocks=100, interval_ms=patience_ms, rate_gbps=0.02)
    start_ns = time.monotonic_ns() + 800_000_000
    options = {"mtu_bytes": 1500, "resend_ms": 50, "timeout_ms": 200, **options}

    def contexts(role: str) -> list[AgentContext]:
        return [
            context(
                plan,
                city,
                out_dir,
                start_ns,
                addresses=ForwardedAddressing(leg, role, city),
                **options,
            )
            for city in range(len(CODES))
        ]

    inside = LoopbackAddressing()
    for city in range(len(CODES)):
        ctx = context(plan, city, out_dir, start_ns, addresses=inside, **options)
        processes.start(hop.run, ctx)
    aggregators = [processes.start(run_aggregator, ctx) for ctx in contexts("aggregator")]
    islands = [processes.start(run_island, ctx) for ctx in contexts("island")]
    assert [processes.wait(pid) for pid in islands] == [0] * len(islands)
    assert [processes.terminate(pid) for pid in aggregators] == [0] * len(aggregators)
    return {p.stem: json.loads(p.read_text()) for p in sorted(out_dir.glob("*.json"))}


@pytest.mark.parametrize(
    "hop",
    [
        Forwarder(0.001),
        Forwarder(0.01),
        Forwarder(0.05),
        Forwarder(0.02, duplication=0.05, reordering=0.05),
    ],
    ids=["0.1%", "1%", "5%", "mixed"],
)
def test_every_sum_is_exact_over_a_lossy_last_hop(
    processes: Processes, tmp_path: Path, hop: Forwarder
) -> None:
    counters = run_lossy(processes, tmp_path, "last hop", hop)
    recovered = 0
    for code in CODES:
        island, edge = counters[f"island-{code}"], counters[f"aggregator-{code}"]
        assert island["complete"]
        assert not island["drops"]
        assert not edge["drops"]
        for mine in island["rounds"]:
            assert mine["exact_blocks"] == mine["expected_blocks"] > 0
        told = island["recovery"]
        assert told["pending_datagrams"] == told["unavailable_datagrams"] == 0
        assert told["noticed_datagrams"] == told["recovered_datagrams"] + told["late_datagrams"]
        assert edge["recovery"]["resend_datagrams"] >= told["recovered_datagrams"]
        recovered += told["recovered_datagrams"]
        events = read_events(tmp_path / f"island-{code}.bin")
        got = events[events["kind"] == Kind.AGGREGATE_IN]
        assert got["count"].sum() == sum(r["datagrams_out"] for r in edge["rounds"])
        closed = events[events["kind"] == Kind.GAP_CLOSED]
        assert closed["count"].sum() == told["noticed_datagrams"] == told["gap_times"]["count"]
        assert (closed["value"] > 0).all()
    assert recovered > 0 or hop.loss < 0.005


def test_without_recovery_a_loss_stays_a_loss(processes: Processes, tmp_path: Path) -> None:
    counters = run_lossy(processes, tmp_path, "last hop", Forwarder(0.05), 1000, resend_ms=0)
    for code in CODES:
        island = counters[f"island-{code}"]
        assert not island["complete"]
        assert "recovery" not in island
        assert sum(r["missing_blocks"] for r in island["rounds"]) > 0
        assert sum(r["wrong_blocks"] for r in island["rounds"]) == 0


def test_the_senders_repair_what_the_wide_area_lost(processes: Processes, tmp_path: Path) -> None:
    counters = run_lossy(processes, tmp_path, "wide area", Forwarder(0.02), 3000, repair=True)
    for code in CODES:
        island, edge = counters[f"island-{code}"], counters[f"aggregator-{code}"]
        assert island["complete"]
        assert set(island["drops"]) <= {"duplicate", "overlap"}
        for mine in island["rounds"]:
            assert mine["exact_blocks"] == mine["expected_blocks"] > 0
        lost = sum(r["missing_contributions"] for r in edge["rounds"])
        assert island["recovery"]["repaired_blocks"] >= lost > 0
        assert island["recovery"]["repair_refused_blocks"] == 0
        assert edge["emitted_blocks"]["timeout"] > 0
    sent = sum(counters[f"island-{code}"]["recovery"]["repair_sent_blocks"] for code in CODES)
    asked = [counters[f"island-{c}"]["recovery"]["repair_requested_blocks"] for c in CODES]
    assert sent <= sum(asked)


def test_an_aggregator_that_dies_in_a_round_costs_no_sum(
    processes: Processes, tmp_path: Path
) -> None:
    plan = make_plan(blocks=60, interval_ms=3000, rate_gbps=0.02)
    start_ns = time.monotonic_ns() + 600_000_000
    options = {"mtu_bytes": 1500, "resend_ms": 50, "timeout_ms": 200, "repair": True}
    contexts = [context(plan, city, tmp_path, start_ns, **options) for city in range(len(CODES))]
    aggregators = [processes.start(run_aggregator, ctx) for ctx in contexts]
    islands = [processes.start(run_island, ctx) for ctx in contexts]
    time.sleep((start_ns - time.monotonic_ns()) / 1e9 + 0.08)
    processes.kill(aggregators[0])
    aggregators[0] = processes.start(run_aggregator, contexts[0])
    assert [processes.wait(pid) for pid in islands] == [0] * len(islands)
    assert [processes.terminate(pid) for pid in aggregators] == [0] * len(aggregators)
    for code in CODES:
        island = json.loads((tmp_path / f"island-{code}.json").read_text())
        assert island["complete"]
        for mine in island["rounds"]:
            assert mine["exact_blocks"] == mine["expected_blocks"] > 0
        assert island["recovery"]["aggregator_restarts"] == (code == CODES[0])
        assert code != CODES[0] or island["recovery"]["repaired_blocks"] > 0

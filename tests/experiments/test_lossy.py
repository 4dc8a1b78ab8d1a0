"""Verdicts of runs that asked for their faults."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_run import Faults, make_run, nine_city_plan, triangle_plan

from experiments.accounting import explained_losses
from experiments.analysis import analyse_run
from experiments.report import print_summary

BLOCKS = 302
LOSSY = {"impairments": [{"link": "access", "loss_percent": 1}]}


def hop(lost: int) -> dict[str, object]:
    """A last hop that carried two rounds of sums but for some."""
    asked = {"loss_share": 0.01, "mean_burst": 1 / 0.99}
    return {"asked": asked, "drops": lost, "sent_packets": 2 * BLOCKS - lost}


def lossy(count: int, **changes: object) -> Faults:
    values: dict[str, object] = {
        "runtime": LOSSY,
        "last_hops": {"aaa": hop(count)},
        "aggregator_frames": {"aaa": 2 * BLOCKS},
        "island_udp": {"aaa": {"InDatagrams": 2 * BLOCKS - count, "InErrors": 0, "NoPorts": 0}},
    }
    return Faults(**{**values, **changes})


def summary_of(tmp_path: Path, faults: Faults) -> dict:
    return analyse_run(make_run(tmp_path, triangle_plan(), faults))


def test_a_run_that_lost_only_what_it_asked_for_and_has_all_sums_passes(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lossy(6))
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["packets_lost"] == 6
    (loss,) = summary["link_losses"]
    assert (loss["link"], loss["lost"], loss["offered"]) == ("aaa→island", 6, 2 * BLOCKS)


def test_sums_that_were_not_recovered_degrade_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lossy(4, lost_sums={(0, "aaa", 8)}))
    assert summary["verdict"] == "DEGRADED"
    assert "4 block sums were never complete" in summary["reasons"]


def test_a_wrong_sum_fails_it_all_the_same(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lossy(6, wrong_sums={(0, "aaa", 8)}))
    assert summary["verdict"] == "FAIL"


def test_losses_that_nobody_asked_for_fail_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lossy(6, switch_drops={"bbb": 3}))
    assert summary["verdict"] == "FAIL"
    assert any("not asked for: switch bbb 3" in reason for reason in summary["reasons"])
    assert summary["packets_lost"] == 9


def test_what_misses_before_the_last_hop_is_not_explained_by_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lossy(6, lost={(0, "bbb", "aaa", 8)}))
    assert summary["verdict"] == "FAIL"
    assert summary["reasons"][0] == (
        "4 datagrams miss at the ends of the trees, losses explain at most 0"
    )


def test_a_loss_early_in_a_tree_explains_all_that_is_behind_it() -> None:
    plan = nine_city_plan("all-to-all", rounds=1)
    # Whatever a city sends, its eight receivers are behind its own access link.
    assert explained_losses(plan, {"island→nyc": 3}) == 24
    stream = plan.round(0).stream_of("nyc")
    first = plan.topology.edges[stream.paths["lax"][0]]
    behind = sum(stream.paths["lax"][0] in path for path in stream.paths.values())
    assert explained_losses(plan, {f"{first.src}→{first.dst}": 2}) >= 2 * behind
    assert explained_losses(plan, {"nyc→island": 5}) == 0


def test_a_link_that_loses_more_than_asked_fails_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lossy(100))
    assert summary["verdict"] == "FAIL"
    assert "asked for 1 %" in summary["reasons"][0]


def test_what_takes_longer_because_of_losses_is_no_reason(tmp_path: Path) -> None:
    late = summary_of(tmp_path, lossy(6, late_ms=3.0))
    assert late["verdict"] == "PASS", late["reasons"]
    assert late["t_error_percent"] > 10


@pytest.fixture
def restarted(tmp_path: Path) -> Path:
    """A run in which an aggregator was killed, and an event came too late."""
    events = [
        {"at_ms": 10, "event": "aggregator-restart", "city": "aaa"},
        {"at_ms": 900, "event": "island-restart", "city": "bbb"},
    ]
    run_dir = make_run(tmp_path, triangle_plan(), Faults(runtime={"events": events}))
    raw = run_dir / "raw"
    for suffix in (".bin", ".json"):
        (raw / f"aggregator-aaa{suffix}").rename(raw / f"aggregator-aaa.1{suffix}")
    timeline = [
        {
            "event": "aggregator-restart",
            "target": "aaa",
            "role": "aggregator",
            "at_ns": 10_000_000,
            "happened_ns": 10_000_003,
            "ended_ns": 15_000_000,
            "lives": 1,
            "signal": "kill",
        },
        {"event": "island-restart", "target": "bbb", "at_ns": 900_000_000},
    ]
    (raw / "faults.json").write_text(json.dumps(timeline))
    return run_dir


def test_the_records_of_a_second_life_count_and_the_lost_ones_are_named(restarted: Path) -> None:
    summary = analyse_run(restarted)
    assert summary["sums_exact"]
    assert summary["unrecorded"] == ["aggregator-aaa"]
    assert summary["verdict"] == "DEGRADED"
    assert summary["reasons"] == [
        "island-restart bbb at 900 ms: the run was over by then",
        "killed before it wrote anything down: aggregator-aaa",
    ]
    assert summary["faults"][0]["happened_ms"] == pytest.approx(10.000003)


def test_the_report_has_the_timeline(restarted: Path) -> None:
    summary = analyse_run(restarted)
    console = Console(record=True, width=120)
    print_summary(restarted, summary, console)
    text = console.export_text()
    assert "event    aggregator-restart aaa at 10.000 ms, over at 15.000 ms" in text
    assert "event    island-restart bbb: not within the run" in text


def test_counters_of_a_killed_life_that_end_early_say_so(restarted: Path) -> None:
    told = {"until_ns": 7_000_000, "drops": {"crc": 2}, "socket_overflow": 0, "udp": {}}
    second = json.loads((restarted / "raw" / "aggregator-aaa.1.json").read_text())
    first = {**second, **told}
    (restarted / "raw" / "aggregator-aaa.json").write_text(json.dumps(first))
    summary = analyse_run(restarted)
    assert summary["unrecorded"] == []
    assert summary["counted_until_ms"] == {"aggregator-aaa": 7.0}
    assert summary["drops"]["aggregator aaa: crc"] == 2

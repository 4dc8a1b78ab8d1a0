"""All-reduce between the hosts of nine cities, as a user would run it; a tenth of the payload."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command import cliquenet

pytestmark = pytest.mark.machine


def experiment(results: Path, *options: str) -> dict:
    done = cliquenet("experiment", "--results", str(results), "--payload", "179MB", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict  PASS" in done.stdout
    return json.loads((results / "latest" / "summary.json").read_text())


@pytest.mark.parametrize("schedule", ["ring", "tacos"])
def test_hosts_hold_the_true_sums_at_the_time_of_the_schedule(
    schedule: str, tmp_path: Path
) -> None:
    summary = experiment(tmp_path, "--schedule", schedule)
    assert summary["sums_exact"] is True
    assert summary["chunks_exact"] == 9 * summary["chunks"] > 0
    assert summary["packets_lost"] == 0
    assert summary["drops"] == {}
    assert abs(summary["t_error_percent"]) <= 1.0
    assert summary["bound_ms"] < summary["t_measured_ms"]
    # Each host's sends are paced to its link: nobody is faster than the link allows.
    for host in summary["hosts"].values():
        assert host["done_ms"] <= summary["t_measured_ms"]
    run_dir = tmp_path / summary["run_id"]
    transfers = pd.read_parquet(run_dir / "events" / "transfers.parquet")
    assert len(transfers) == 16 * summary["chunks"]
    assert not transfers.isna().any().any()
    assert (transfers["start_ms"] >= transfers["planned_start_ms"]).all()
    assert (run_dir / "plots" / "transfers.png").is_file()


@pytest.mark.parametrize(
    ("topology", "hub", "aggregators"), [("nine-cities", "lax", 5), ("switch-eight", "w0", 1)]
)
def test_the_network_forms_the_true_sum_at_the_time_of_its_plan(
    topology: str, hub: str, aggregators: int, tmp_path: Path
) -> None:
    summary = experiment(tmp_path, "--schedule", "in-network", "--topology", topology)
    assert summary["sums_exact"] is True
    assert summary["packets_lost"] == 0
    assert summary["drops"] == {}
    assert abs(summary["t_error_percent"]) <= 1.0
    assert (summary["hub"], len(summary["aggregators"])) == (hub, aggregators)
    # Streams meet: the packet FIFO, 12 datagrams a stream, is all the memory that is needed.
    assert 0 < summary["memory_high_water_bytes"] <= 2 * 12 * 8192 * 100
    # No link carries more than one copy either way.
    assert max(link["bytes_measured"] for link in summary["links"]) < 1.01 * 179e6


def test_without_the_schedule_s_times_sums_are_as_exact(tmp_path: Path) -> None:
    summary = experiment(tmp_path, "--schedule", "ring", "--release", "data")
    assert summary["sums_exact"] is True
    assert summary["packets_lost"] == 0


def test_a_link_fails_and_hosts_go_on_with_another_schedule(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "schedule: tacos\nchunks: 36\n"
        "events:\n  - {at_ms: 150ms, event: link-down, link: nyc-lon}\n"
    )
    summary = experiment(tmp_path, "--config", str(config))
    assert summary["sums_exact"] is True
    (takeover,) = summary["takeovers"]
    assert takeover["outcome"] == "taken over"
    assert takeover["event"] == "link-down nyc-lon"
    assert takeover["last_chunk_before_ms"] <= takeover["event_ms"] < takeover["noticed_ms"]
    assert 110 <= takeover["time_to_resume_ms"] < 115
    assert takeover["planning_cpu_ms"] > 0
    assert summary["t_measured_ms"] == pytest.approx(takeover["finish_planned_ms"], rel=0.01)
    assert summary["packets_lost"] == summary["packets_lost_as_asked"]
    assert summary["known_before_ms"].keys() == {"from_start", "from_event"}
    transfers = pd.read_parquet(tmp_path / summary["run_id"] / "events" / "transfers.parquet")
    dead = transfers[transfers["given_up"]]
    assert len(dead) == takeover["transfers_cut_off"]
    assert transfers[~transfers["given_up"]]["end_ms"].notna().all()

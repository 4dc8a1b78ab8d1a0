"""Losses and restarts that a config asks for, on real packets: counted, recovered, repeatable."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command import cliquenet

pytestmark = pytest.mark.machine
CONFIG = """
schedule: triangles
trees: shortest-path
payload: 60MB
rounds: 2
"""
SMALL_RING = "resend_ms: 0.1\nburst_datagrams: 1\n"
LOSSY = "impairments:\n  - {link: access, loss_percent: 2, duplicate_percent: 1}\n"
WIDE = "repair: on\nimpairments:\n  - {link: wan, loss_percent: 0.2}\n"
IN_RUNS = "impairments:\n  - {link: access, direction: down, loss_percent: 5, loss_burst: 12}\n"
RESTART = "events:\n  - {at_ms: 100, event: aggregator-restart, city: nyc, down_ms: 5}\n"


def run(folder: Path, text: str) -> dict:
    keep = "" if "resend_ms" in text else "resend_ms: 20\n"
    (folder / "own.yaml").write_text(CONFIG + keep + text)
    options = ("--config", str(folder / "own.yaml"), "--results", str(folder))
    done = cliquenet("experiment", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "latest" / "summary.json").read_text())


@pytest.fixture(scope="module")
def lossy(tmp_path_factory) -> dict:
    return run(tmp_path_factory.mktemp("lossy"), LOSSY)


def test_what_was_lost_as_asked_is_sent_again_and_every_sum_is_exact(lossy) -> None:
    assert lossy["verdict"] == "PASS", lossy["reasons"]
    assert lossy["sums_exact"] is True
    assert len(lossy["link_losses"]) == 9
    assert lossy["packets_lost"] == sum(loss["lost"] for loss in lossy["link_losses"]) > 0
    assert lossy["blocks_exact"] == lossy["blocks_expected"] > 0
    assert lossy["contributions_missing"] == 0
    assert lossy["recovery"]["resent"] >= lossy["recovery"]["recovered"] > 0
    assert lossy["recovery"]["unavailable"] == 0
    assert lossy["recovery"]["max_ms"] < 5, "nobody waits for a tick of the kernel, 10 ms"
    assert lossy["t_error_percent"] < 2


def test_without_recovery_it_stays_incomplete_and_says_so(tmp_path: Path) -> None:
    summary = run(tmp_path, "resend_ms: 0\n" + LOSSY)
    assert summary["verdict"] == "DEGRADED"
    assert summary["blocks_exact"] < summary["blocks_expected"]
    assert summary["recovery"]["resent"] == 0
    assert not any("wrong" in reason for reason in summary["reasons"])


def test_senders_repair_what_is_lost_between_cities(tmp_path: Path) -> None:
    summary = run(tmp_path, WIDE)
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["contributions_missing"] == 0
    assert summary["packets_lost"] > 0
    assert summary["recovery"]["repaired"] > 0
    # A round trip more than planned, not the time-out of what the aggregators held.
    streams = pd.read_parquet(tmp_path / "latest" / "events" / "streams.parquet")
    last_ms = streams.groupby("leg")["last_ms"].max()
    assert summary["t_measured_ms"] == max(last_ms["access"], last_ms["repair"])
    assert "surplus" in last_ms.index


def test_a_ring_that_is_too_small_says_what_is_gone(tmp_path: Path) -> None:
    # With a seed whose runs of losses all end before the aggregators' last words do.
    summary = run(tmp_path, "seed: 2\n" + SMALL_RING + IN_RUNS)
    gone = summary["recovery"]["unavailable"]
    assert summary["verdict"] == "DEGRADED"
    assert summary["blocks_expected"] - summary["blocks_exact"] == gone > 0
    assert not any("wrong" in reason for reason in summary["reasons"])


def test_the_same_seed_loses_the_same_datagrams_wherever_the_results_lie(
    lossy, tmp_path: Path
) -> None:
    longer = tmp_path / "a-folder-whose-name-makes-the-path-longer"
    longer.mkdir()
    again = run(longer, LOSSY)
    assert again["trace_sha256"] == lossy["trace_sha256"]
    assert again["link_losses"] == lossy["link_losses"]


def test_an_aggregator_is_killed_and_comes_back_at_the_given_times(tmp_path: Path) -> None:
    summary = run(tmp_path, RESTART)
    (fault,) = summary["faults"]
    assert fault["happened_ms"] == pytest.approx(100, abs=0.001)
    assert fault["ended_ms"] == pytest.approx(105, abs=0.2)
    assert summary["unrecorded"] == []
    assert list(summary["counted_until_ms"]) == ["aggregator-nyc"]
    assert summary["verdict"] in ("PASS", "DEGRADED"), summary["reasons"]
    assert summary["blocks_wrong"] == 0

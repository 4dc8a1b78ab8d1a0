"""Every link measured on packets: ours, stock Mininet's, and some built wrong on purpose."""

import json
from pathlib import Path

import pytest
from command import cliquenet

from benchmarks.fidelity import run_guest, unfound
from benchmarks.fidelityguest import Job, Report
from benchmarks.sabotage import SABOTAGES
from benchmarks.tclink import Asked
from testbed.fidelity import check, read_fidelity
from testbed.limits import Limits

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
THREE_CITIES = ROOT / "benchmarks" / "three-cities.yaml"
IMPOSSIBLE = ("--set", "limits={delay_us: 0}")
LINKS = (
    Asked(rate_mbps=10, delay_ms=1),
    Asked(rate_mbps=1000, delay_ms=50),
    Asked(rate_mbps=10_000, delay_ms=10),
)


@pytest.fixture(scope="module")
def report() -> Report:
    return run_guest(Job(links=LINKS, topology="nine-cities"))


@pytest.fixture(scope="module")
def verified(tmp_path_factory) -> tuple[Path, dict]:
    results = tmp_path_factory.mktemp("verified")
    done = cliquenet("verify", *IMPOSSIBLE, "--format", "json", "--results", str(results))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "one-way delay off by" in done.stderr.splitlines()[-1]
    found = json.loads(done.stdout.splitlines()[-1])
    return Path(found["folder"]), found


def test_every_direction_of_the_nine_cities_is_exact(verified) -> None:
    _, found = verified
    links = found["links"]
    assert [link["link"].endswith("island") for link in links].count(True) == 9
    assert (len(links), len(found["paths"])) == (26 + 18, 72)
    for link in links:
        assert abs(link["delay_error_us"]) <= 1.0, link
        assert abs(link["p99_error_us"]) <= 1.0, link
        assert abs(link["rate_error_percent"]) <= 0.1, link
        assert abs(link["sustained_error_percent"]) <= 0.1, link
        assert link["jitter_us"] <= 0.1, link
        assert link["mtu_bytes"] == 9000
        assert link["sent"] == link["received"] > 400
        assert link["reordered"] == link["duplicated"] == link["unaccounted"] == 0
    assert found["rtt_max_error_us"] <= 2.0


def test_what_is_beyond_a_limit_fails_with_status_3_and_the_default_limits_pass(verified) -> None:
    folder, found = verified
    assert found["verdict"] == "FAIL"
    assert json.loads((folder / "summary.json").read_text())["reasons"] == found["reasons"]
    fidelity = read_fidelity(folder / "raw" / "fidelity.json")
    assert check(fidelity, Limits().at("virtual")) == []


def test_an_experiment_on_a_network_that_fails_ends_before_its_rounds(tmp_path: Path) -> None:
    small = ("--topology", str(THREE_CITIES), "--schedule", "all-to-all", "--payload", "20MB")
    done = cliquenet("experiment", *IMPOSSIBLE, *small, "--results", str(tmp_path))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the network is not as asked for: link" in done.stderr.splitlines()[-1]
    run_dir = tmp_path / "latest"
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["verdict"] == "FAIL"
    assert "one-way delay off by" in summary["reasons"][0]
    assert json.loads((run_dir / "status.json").read_text())["state"] == "failed"
    assert not list((run_dir / "raw").glob("island-*"))


def test_five_links_built_wrong_are_five_findings_and_sound_ones_none(report) -> None:
    assert [one.what for one in report.sabotaged] == ["", *SABOTAGES, ""]
    assert len({one.link for one in report.sabotaged if one.what}) == 5
    assert unfound(report.sabotaged) == []


@pytest.mark.parametrize(
    ("what", "read_back", "measured"),
    [
        ("delay", "its delay is 10.259968 ms instead of 8.26 ms", "one-way delay off by +1999.9"),
        ("rate", "its rate is 500.0 Mbit/s instead of 1000.0", "rate of a burst 500 Mbit/s"),
        ("limit", "its limit is 4 packets instead of", "dropped by its shaper"),
        ("MTU", "packets of 1500 bytes pass", "packets of 1504 bytes pass"),
        ("no shaper", "not netem", "one-way delay off by -60630.480 µs"),
    ],
)
def test_a_sabotage_shows_where_it_is_read_back_and_where_packets_pass(
    report, what: str, read_back: str, measured: str
) -> None:
    found = " / ".join(next(one for one in report.sabotaged if one.what == what).findings)
    assert read_back in found
    assert measured in found


def test_our_links_are_exact_at_any_rate(report) -> None:
    for link in report.ours:
        assert abs(link.delay_error_us) <= 1.0
        assert abs(link.rate_error_percent) <= 0.1
        assert abs(link.sustained_error_percent) <= 0.1
        assert (link.lost, link.reordered, link.shaper) == (0, 0, "")


def test_stock_links_skip_serialisation_drop_what_is_in_flight_and_know_no_high_rates(
    report,
) -> None:
    slow, far, fast = report.stock
    assert slow.delay_error_us == pytest.approx(-48, abs=1)  # 60 bytes at 10 Mbit/s
    assert slow.rate_error_percent > 1
    assert far.lost > 1000
    assert fast.rate_error_percent > 100

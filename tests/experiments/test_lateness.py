"""How late bursts left, from the records of a run; what that costs on the real clock."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_run import Faults, make_run, triangle_plan

from experiments.analysis import analyse_run
from experiments.lateness import Lateness, check_lateness, send_lateness
from experiments.report import print_summary
from experiments.results import amend_manifest
from experiments.rundata import load_run
from experiments.runtime import read_runtime
from experiments.verdict import Promise

SOUND = Promise(feasible=True)
LATE = {(0, "aaa"): 5.0, (1, "aaa"): 5.0}


def lateness(tmp_path: Path, faults: Faults, **options: object) -> Lateness:
    found = send_lateness(load_run(make_run(tmp_path, triangle_plan(**options), faults)))
    assert found is not None
    return found


def test_bursts_are_compared_with_the_plan(tmp_path: Path) -> None:
    plain = lateness(tmp_path / "plain", Faults())
    late = lateness(tmp_path / "late", Faults(sent_late_ms=LATE))
    # The records have the end of a burst, which lasts as long for everybody.
    assert plain.p50_ms == pytest.approx(plain.max_ms, rel=1e-3)
    assert 0 < plain.max_ms < 2
    assert late.bursts == plain.bursts
    assert late.p50_ms == pytest.approx(plain.p50_ms)  # of two cities in three
    assert late.max_ms == pytest.approx(plain.max_ms + 5.0, abs=1e-3)
    assert late.p99_ms == pytest.approx(late.max_ms, rel=1e-2)


def test_copies_are_due_by_themselves(tmp_path: Path) -> None:
    plain = lateness(tmp_path / "multicast", Faults())
    copies = lateness(tmp_path / "unicast", Faults(), multicast=False)
    assert copies.bursts == 2 * plain.bursts


@pytest.mark.parametrize(
    ("p99_ms", "promise", "clock", "levels"),
    [
        (0.9, SOUND, "real", []),
        (1.1, SOUND, "real", ["DEGRADED"]),
        (1.1, SOUND, "virtual", []),
        (1.1, Promise(feasible=True, asked=True), "real", []),  # who was away sends late
    ],
)
def test_only_real_time_can_be_too_fast(
    p99_ms: float, promise: Promise, clock: str, levels: list[str]
) -> None:
    late = Lateness(100, 0.5, p99_ms, 2.0)
    assert [f.level for f in check_lateness(late, promise, clock, 1.0)] == levels
    assert check_lateness(None, promise, clock, 1.0) == []


def test_a_late_machine_is_told_in_the_summary(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, triangle_plan(), Faults(clock="real", sent_late_ms=LATE))
    summary = analyse_run(run_dir)
    assert summary["verdict"] == "DEGRADED"
    (reason,) = summary["reasons"]
    assert reason.startswith("this machine was too slow for real time: 1 % of the bursts")
    assert summary["send_lateness"]["max_ms"] > 5
    assert summary["clock"] == "real"


def printed(run_dir: Path) -> str:
    console = Console(record=True, width=120, file=io.StringIO())
    print_summary(run_dir, analyse_run(run_dir), console)
    return console.export_text()


def test_the_real_clock_is_printed_with_its_reason_and_lateness(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, triangle_plan(), Faults(clock="real"))
    assert "sends late p50/p99/max" in printed(run_dir)
    assert "clock    " not in printed(run_dir)  # nobody has chosen
    amend_manifest(run_dir, clock_reason="chosen by auto: this kernel has all")
    assert "clock    real, chosen by auto: this kernel has all" in printed(run_dir)


def test_in_virtual_time_nothing_is_late(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, triangle_plan())
    amend_manifest(run_dir, clock_reason="asked for")
    assert "sends late" not in printed(run_dir)
    assert "clock    " not in printed(run_dir)


def test_the_limits_are_the_configs(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, triangle_plan(), Faults(clock="real", sent_late_ms=LATE))
    amend_manifest(run_dir, config={"late_ms": 6.0})
    assert analyse_run(run_dir)["verdict"] == "PASS"


def test_who_sent_nothing_is_not_late(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, triangle_plan())
    for path in (run_dir / "raw").glob("island-*.bin"):
        path.write_bytes(b"")
    assert send_lateness(load_run(run_dir)) is None


@pytest.mark.parametrize(
    ("clock", "built_s", "lead_s"),
    [("real", 5.0, 10.0), ("real", 68.0, 68.0), ("virtual", 68.0, 10.0)],
)
def test_a_machine_that_builds_slowly_gets_more_time(
    tmp_path: Path, clock: str, built_s: float, lead_s: float
) -> None:
    run_dir = make_run(tmp_path, triangle_plan(), Faults(clock=clock, runtime={"lead_s": 10.0}))
    runtime = read_runtime(run_dir / "runtime.json")
    assert runtime.after_building_for(built_s).lead_s == lead_s

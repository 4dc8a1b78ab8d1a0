"""The comparison of training loops without running anything: runs, rows, arithmetic, files."""

import csv
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.comparison.figure_training import draw_training, step_times
from experiments.comparison.packets import Measured
from experiments.comparison.training import (
    FACTORS,
    IDLE_SHARE,
    alone,
    idle_compute_ms,
    shared_config,
    swept_cases,
    training_cases,
)
from experiments.comparison.training_rows import (
    TrainingRow,
    arithmetic,
    cells,
    print_training,
    throughput,
    training_row,
    write_training_tables,
)
from experiments.planning import plan_experiment
from experiments.sources import load_config


def row(**changes: object) -> TrainingRow:
    values: dict[str, object] = {
        "name": "ring",
        "schedule": "ring",
        "loop": "synchronous",
        "release": "data",
        "compute_ms": 100.0,
        "syncs": 3,
        "t_planned_ms": 400.0,
        "t_ms": 400.0,
        "spacing_ms": 500.0,
        "step_planned_ms": 500.0,
        "step_ms": 500.0,
        "idle_share": 0.8,
        "a_rms": 1.0,
        "staleness_ms": 0.0,
        "sums_exact": True,
        "packets_lost": 0,
        "verdict": "PASS",
        "reason": "",
        "run_id": "ring-0123abcd-1",
        "source": "ran",
    }
    return TrainingRow(**{**values, **changes})


LOCAL = row(
    name="cliques", loop="local", step_ms=100.0, idle_share=0.0, a_rms=1.5, staleness_ms=800.0
)
DELAYED = row(name="cliques", loop="delayed", spacing_ms=250.0, step_ms=250.0, idle_share=0.6)
FAILED = row(
    **dict.fromkeys(("t_ms", "step_ms", "idle_share", "staleness_ms", "sums_exact")),
    name="multicast + FPGA",
    verdict="ERROR",
    reason="the guest died",
    source="failed",
)
ROWS = [row(), LOCAL, DELAYED, FAILED]
SWEPT = [row(compute_ms=200.0, step_ms=600.0, idle_share=2 / 3)]


def test_the_compute_time_makes_the_baseline_idle_as_long_as_it_should() -> None:
    compute_ms = idle_compute_ms(565.3)
    assert compute_ms == 141.3
    assert 565.3 / (565.3 + compute_ms) == pytest.approx(IDLE_SHARE, abs=1e-4)
    assert idle_compute_ms(0.01) == 0.1


def test_every_loop_can_be_planned_and_the_baseline_comes_first() -> None:
    shared = shared_config(load_config(None, {"seed": "7"}), quick=True)
    cases = training_cases(shared, 20.0)
    assert (cases[0].config.schedule, cases[0].config.loop) == ("ring", "synchronous")
    assert {case.config.loop for case in cases} == {"synchronous", "delayed", "local"}
    for case in cases:
        assert (case.config.seed, case.config.payload_bytes) == (7, 179_000_000)
        plan = plan_experiment(case.config)
        assert plan.feasible
        assert plan.training.compute_ms == 20.0
    assert plan_experiment(alone(shared)).training is None


def test_the_sweep_is_the_baseline_at_other_compute_times() -> None:
    swept = swept_cases(load_config(None, {}), 20.0)
    assert [case.config.compute_ms for case in swept] == [20 * factor for factor in FACTORS]
    assert {case.config.schedule for case in swept} == {"ring"}


def test_elsewhere_the_searched_schedule_is_left_out(tmp_path: Path) -> None:
    other = load_config(None, {}).model_copy(update={"topology": str(tmp_path / "t.yaml")})
    assert not any("best" in case.name for case in training_cases(other, 20.0))


def test_a_row_holds_what_was_planned_and_measured() -> None:
    config = load_config(None, {"schedule": "triangles", "compute_ms": "20", "loop": "local"})
    plan = plan_experiment(config)
    summary = {
        "t_measured_ms": 400.0,
        "training": {"step_planned_ms": 20.0, "step_ms": 20.0, "idle_share": 0.0},
        "sums_exact": True,
        "packets_lost": 0,
        "verdict": "PASS",
        "reasons": [],
        "run_id": "triangles-1",
    }
    made = training_row("cliques", config, plan, Measured(summary, "ran"))
    assert made.staleness_ms == pytest.approx(800.0)
    assert made.staleness_steps == pytest.approx(40.0)
    assert made.spacing_ms == plan.round_interval_ms
    assert throughput(made, row()) == 25.0
    failed = training_row("cliques", config, plan, Measured(None, "failed", "it died"))
    assert (failed.verdict, failed.reason, failed.step_ms) == ("ERROR", "it died", None)
    bare = plan_experiment(load_config(None, {}))
    with pytest.raises(ValueError, match="computes nothing"):
        training_row("cliques", config, bare, Measured(None, "failed"))


def test_the_arithmetic_says_where_the_factor_comes_from() -> None:
    notes = arithmetic(ROWS, chosen=True)
    assert "a quarter of what the ring alone takes" in notes[0]
    assert "100 + 400.0 = 500.0 ms" in notes[1]
    assert "80.0%" in notes[1]
    assert "5.00 × the ring" in notes[2]
    assert "cliques 800 ms" in notes[3]
    assert "max(100, 250.0) ms, 2.00 × the ring" in notes[4]
    assert "as asked" in arithmetic(ROWS, chosen=False)[0]
    assert arithmetic([FAILED], chosen=True) == []


def test_lines_at_other_compute_times() -> None:
    compute_ms = np.array([50.0, 100.0, 1000.0])
    assert step_times(ROWS[0], compute_ms).tolist() == [450, 500, 1400]
    assert step_times(DELAYED, compute_ms).tolist() == [250, 250, 1000]
    assert step_times(LOCAL, compute_ms).tolist() == [50, 100, 1000]


def test_the_files_hold_every_row(tmp_path: Path) -> None:
    notes = arithmetic(ROWS, chosen=True)
    table, text = write_training_tables(tmp_path, ROWS, SWEPT, notes, "A title")
    with table.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [r["loop"] for r in read] == [r.loop for r in (*ROWS, *SWEPT)]
    assert read[3]["step_ms"] == ""
    lines = text.read_text().splitlines()
    assert len([line for line in lines if line.startswith("|")]) == 2 + len(ROWS) + 2 + len(SWEPT)
    assert all(f"- {note}" in lines for note in notes)
    assert draw_training(tmp_path, ROWS, SWEPT, "A title").stat().st_size > 5000


def test_the_printed_table_fits_80_columns_and_says_why_a_run_failed() -> None:
    console = Console(record=True, width=80)
    print_training(ROWS, SWEPT, arithmetic(ROWS, chosen=True), "A title", console)
    text = console.export_text()
    assert "the guest died" in text
    assert "…" not in text
    assert "ring with C = 200 ms: step 600.0 ms, idle 66.7%" in text
    shown = cells(LOCAL, ROWS[0])
    assert (shown["throughput"], shown["T (A + ½) ms"], shown["in steps"]) == ("5.00", "800", "8.0")
    assert cells(FAILED, ROWS[0])["step ms"] == "–"

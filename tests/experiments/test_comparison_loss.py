"""The loss sweep without running anything: what it runs, its rows, table and figure."""

import csv
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_run import make_run, triangle_plan

from experiments.analysis import analyse_run
from experiments.comparison.figure_loss import draw_losses
from experiments.comparison.loss import LOSSES_PERCENT, loss_configs
from experiments.comparison.loss_rows import (
    LossRow,
    cells,
    loss_row,
    print_losses,
    write_loss_tables,
)
from experiments.comparison.packets import Measured
from experiments.planning import plan_experiment
from experiments.sources import load_config
from testbed.errors import InputError


def row(**changes: object) -> LossRow:
    values: dict[str, object] = {
        "schedule": "triangles",
        "loss_percent": 1.0,
        "resend_ms": 20.0,
        "t_planned_ms": 100.0,
        "t_measured_ms": 101.0,
        "goodput_gbps": 14.0,
        "lost": 50,
        "resent": 50,
        "missing_blocks": 0,
        "unavailable": 0,
        "recovery_p50_ms": 0.5,
        "recovery_p99_ms": 0.9,
        "recovery_max_ms": 1.2,
        "ring_bytes": 2.5e8,
        "verdict": "PASS",
        "reason": "",
        "run_id": "triangles-0123abcd-1",
        "source": "ran",
    }
    return LossRow(**{**values, **changes})


FAILED = row(
    loss_percent=5.0,
    **dict.fromkeys(("t_measured_ms", "goodput_gbps", "lost", "resent", "missing_blocks")),
    **dict.fromkeys(("recovery_p50_ms", "recovery_p99_ms", "recovery_max_ms")),
    verdict="ERROR",
    reason="the guest died",
    source="failed",
)
ROWS = [row(loss_percent=0.0), row(), row(resend_ms=0.0, missing_blocks=9), FAILED]


def test_both_schedules_run_with_and_without_recovery_at_every_loss() -> None:
    configs = loss_configs(load_config(None, {}), quick=True)
    assert [(c.schedule, c.resend_ms, c.loss_percent) for c in configs] == [
        (schedule, resend_ms, loss)
        for schedule in ("triangles", "all-to-all")
        for resend_ms in (20.0, 0.0)
        for loss in LOSSES_PERCENT
    ]
    assert {(c.rounds, c.payload_bytes, c.clock) for c in configs} == {(2, 179_000_000, "virtual")}


def test_what_is_given_counts() -> None:
    given = {"schedule": "pairs", "rounds": "3", "resend_ms": "5", "repair": "on"}
    configs = loss_configs(load_config(None, given), quick=False)
    assert {(c.schedule, c.rounds) for c in configs} == {("pairs", 3)}
    assert {(c.resend_ms, c.repair) for c in configs} == {(5.0, True), (0.0, False)}


def test_a_loss_of_its_own_is_refused_and_runs_of_losses_are_kept() -> None:
    with pytest.raises(InputError, match=r"LOSS_PERCENT: the sweep takes 0, 0\.01, 0\.1"):
        loss_configs(load_config(None, {"loss_percent": "2"}), quick=False)
    configs = loss_configs(load_config(None, {"loss_burst": "4"}), quick=False)
    assert {(c.loss_percent > 0, c.loss_burst) for c in configs} == {(False, None), (True, 4)}
    assert all(plan_experiment(config) for config in configs[:2])


def test_a_row_of_an_analysed_run_by_hand(tmp_path: Path) -> None:
    plan = triangle_plan()
    summary = analyse_run(make_run(tmp_path, plan))
    made = loss_row(load_config(None, {}), plan, Measured(summary, "ran"))
    # 250 MB in 25.05 ms, everything exact
    assert made.goodput_gbps == pytest.approx(250e6 * 8 / 25.05e-3 / 1e9, rel=1e-3)
    assert (made.missing_blocks, made.lost, made.resent) == (0, 0, 0)
    assert (made.verdict, made.source) == ("PASS", "ran")


def test_a_row_of_a_failed_run_says_why() -> None:
    made = loss_row(load_config(None, {}), triangle_plan(), Measured(None, "failed", "it died"))
    assert (made.verdict, made.reason, made.goodput_gbps) == ("ERROR", "it died", None)


def test_the_files_hold_every_row(tmp_path: Path) -> None:
    table, text = write_loss_tables(tmp_path, ROWS, "A title")
    with table.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [r["loss_percent"] for r in read] == ["0.0", "1.0", "1.0", "5.0"]
    assert read[3]["goodput_gbps"] == ""
    lines = text.read_text().splitlines()
    assert len([line for line in lines if line.startswith("|")]) == 2 + len(ROWS)


def test_the_printed_table_says_why_a_run_failed() -> None:
    console = Console(record=True, width=140)
    print_losses(ROWS, "A title", console)
    text = console.export_text()
    assert "the guest died" in text
    assert cells(ROWS[1])["over plan %"] == "+1.00"
    assert cells(ROWS[2])["recovery"] == "off"


@pytest.mark.parametrize("rows", [ROWS, [FAILED]])
def test_the_figure_is_drawn_even_where_runs_failed(tmp_path: Path, rows: list[LossRow]) -> None:
    assert draw_losses(tmp_path, rows, "A title").stat().st_size > 5000

import csv
import io
import json

import pytest
from comparison_rows import SUMMARY, made_row, made_rows
from rich.console import Console
from synthetic_run import make_run, nine_city_plan, triangle_plan

from experiments.analysis import analyse_run
from experiments.cli import main
from experiments.comparison import compare as comparison
from experiments.comparison.cases import (
    MEMORIES_BYTES,
    Case,
    base_config,
    comparison_id,
    named_cases,
    optimised_case,
)
from experiments.comparison.compare import Comparison, Request, compare
from experiments.comparison.figure_rows import draw_agreement, draw_objectives
from experiments.comparison.packets import finished_run, measure_cases
from experiments.comparison.rows import FIELDS, make_row
from experiments.comparison.tables import brief_cells, cells, markdown, print_rows, write_csv
from experiments.config import NAMED_SCHEDULES
from experiments.planning import plan_experiment
from experiments.results import create_run, set_state, write_json
from experiments.sources import load_config
from testbed.progress import Step


def base(**overrides):
    return base_config(load_config(None, overrides), quick=False)


def test_cases_are_every_schedule_at_every_memory_and_the_ablations():
    cases = named_cases(base())
    schedules = [c.config for c in cases if c.group == "schedule"]
    assert {(c.schedule, c.memory_bytes) for c in schedules} == {
        (name, memory) for name in NAMED_SCHEDULES for memory in MEMORIES_BYTES
    }
    assert all(c.multicast and c.aggregation for c in schedules)
    ablations = [c.config for c in cases if c.group == "ablation"]
    switches = [(c.schedule, c.multicast, c.aggregation) for c in ablations]
    assert len(set(switches)) == len(switches) == 6
    assert not any(c.multicast and c.aggregation for c in ablations)
    assert {c.memory_bytes for c in ablations} == {32_000_000_000}


def test_trees_that_need_multicast_are_not_asked_for_without_it():
    cases = named_cases(base(trees="least-load"))
    assert {c.config.trees for c in cases if c.config.multicast} == {"least-load"}
    assert {c.config.trees for c in cases if not c.config.multicast} == {"best"}


def test_two_rounds_are_the_default_and_what_is_given_counts():
    assert {c.config.rounds for c in named_cases(base())} == {2}
    assert {c.config.rounds for c in named_cases(base(rounds="3"), ("pairs",))} == {3}


def test_a_schedule_runs_for_one_period_at_least(tmp_path):
    path = tmp_path / "optimised-0B.yaml"
    path.write_text("name: five\nrounds: [[[nyc, chi]], [[lon, fra]], [[lax, tyo]]]\n")
    case = optimised_case(base(), path, 0, {"tolerance_percent": 2.0})
    assert case.config.rounds == 3
    assert case.config.schedule_name == "optimised-0B"
    assert case.config.tolerance_percent == 2.0


def test_a_quick_comparison_has_a_tenth_of_the_payload_and_another_id():
    config = load_config(None, {"payload": "1.79GB"})
    quick, full = (named_cases(base_config(config, quick=q)) for q in (True, False))
    assert {c.config.payload_bytes for c in quick} == {179_000_000}
    ids = {comparison_id(cases, budget_s=s) for cases in (quick, full) for s in (10, 20)}
    assert len(ids) == 4
    assert comparison_id(full, budget_s=10) == comparison_id(list(full), budget_s=10.0)


def test_a_row_puts_the_summary_of_an_analysed_run_beside_its_plan(tmp_path):
    plan = triangle_plan()
    run_dir = make_run(tmp_path, plan)
    case = Case("schedule", load_config(None, {}))
    row = make_row(case, plan, analyse_run(run_dir), source="ran")
    assert row.verdict == "PASS"
    assert row.run_id == run_dir.name
    assert row.t_measured_ms == pytest.approx(row.t_planned_ms, rel=0.01)
    assert row.a_measured == pytest.approx(row.a_start, abs=1e-6)
    assert row.a_seen == pytest.approx(1.0)
    # One stream of 250 MB leaves each island per round, one sum comes back.
    assert row.island_out_bytes == pytest.approx(250e6, rel=0.01)
    assert row.island_in_bytes == pytest.approx(250e6, rel=0.01)
    # Shortest paths in a triangle: each stream takes the two links at its sender.
    assert row.busiest_link_streams == 1


def test_a_row_without_a_run_has_no_measured_figures():
    plan = nine_city_plan("all-to-all", rounds=2, memory_bytes=0)
    row = make_row(Case("schedule", load_config(None, {})), plan, None, source="refused")
    assert row.feasible is False
    assert "short" in row.reason
    assert row.verdict == "not run"
    assert row.a_measured is row.a_seen is None
    assert row.t_measured_ms is row.objective_ms is row.island_in_bytes is None


def test_a_row_of_a_run_that_failed_its_checks_says_which():
    plan = triangle_plan()
    case = Case("schedule", load_config(None, {}))
    failed = {**SUMMARY, "verdict": "FAIL", "reasons": ["round 0 took too long", "and more"]}
    assert make_row(case, plan, failed, source="ran").reason == "round 0 took too long"
    passed = {**SUMMARY, "reasons": ["a remark"]}
    assert make_row(case, plan, passed, source="ran").reason == ""


def test_csv_has_every_field_of_every_row(tmp_path):
    rows = made_rows()
    with write_csv(tmp_path / "table.csv", rows).open() as file:
        read = list(csv.DictReader(file))
    assert tuple(read[0]) == FIELDS
    assert len(read) == len(rows)
    assert float(read[0]["t_measured_ms"]) == 101.0
    assert read[1]["t_measured_ms"] == ""
    assert read[1]["feasible"] == "False"


def test_markdown_is_one_table_with_reasons_below():
    rows = made_rows()
    lines = markdown(rows, "All of it").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(rows) + 2
    assert len({line.count("|") for line in table}) == 1
    assert "- all-to-all, 0B: nyc is 216 MB short" in lines
    assert "- all-to-all, 32GB: the guest | died" in lines
    assert lines[0] == "# All of it"


def test_cells_say_what_is_infinite_infeasible_and_only_planned():
    assert cells(made_rows()[2])["T (A + ½) ms"] == "∞"
    assert cells(made_rows()[1])["T planned ms"] == "infeasible"
    only_planned = made_row(objective_ms=None, t_measured_ms=None)
    assert cells(only_planned)["T (A + ½) ms"] == "(200)"
    assert cells(only_planned)["T measured ms"] == "–"


def test_cells_say_how_much_of_a_was_measured():
    assert cells(made_row())["A measured"] == "1.50"
    pairs = made_row(a_rms=2.9375, a_start=2.9285, a_measured=2.9285, a_seen=2.0)
    assert cells(pairs)["A"] == "2.94 (2.93)"
    assert cells(pairs)["A measured"] == "2.93 (68% seen)"
    assert brief_cells(pairs)["A run"] == "2.93*"
    never = made_row(a_rms=None, a_start=None, a_measured=None, a_seen=2.0)
    assert (cells(never)["A"], cells(never)["A measured"]) == ("∞", "> 2.00")
    assert cells(made_row(a_measured=None, a_seen=None))["A measured"] == "–"


def test_the_printed_table_shows_every_verdict_and_reason():
    text = io.StringIO()
    print_rows(made_rows(), "title", Console(file=text, width=80))
    assert "…" not in text.getvalue()  # nothing is cut off
    assert max(map(len, text.getvalue().splitlines())) <= 80
    for word in ("PASS", "ERROR", "not run", " MA ", "- all-to-all, 0B: nyc is 216 MB short"):
        assert word in text.getvalue()


@pytest.mark.parametrize("draw", [draw_objectives, draw_agreement])
def test_figures_of_rows_of_every_kind(tmp_path, draw):
    path = draw(tmp_path, made_rows())
    assert path.stat().st_size > 10_000


def test_figures_where_nothing_was_measured(tmp_path):
    refused = [made_rows()[1]]
    assert draw_objectives(tmp_path, refused).exists()
    assert draw_agreement(tmp_path, refused).exists()


def leave_run(results, config, plan, *, state="complete", summary=SUMMARY):
    run_dir = create_run(results, config)
    plan.write(run_dir / "plan.json")
    write_json(run_dir / "summary.json", {**summary, "run_id": run_dir.name})
    set_state(run_dir, state)
    return run_dir


def test_the_latest_complete_run_of_the_same_plan_is_taken_over(tmp_path):
    config = load_config(None, {"schedule": "regional", "payload": "10MB"})
    plan = plan_experiment(config)
    assert finished_run(tmp_path, config, plan) is None
    leave_run(tmp_path, config, plan, state="failed")
    leave_run(tmp_path, config, plan.model_copy(update={"round_interval_ms": 1.0}))
    assert finished_run(tmp_path, config, plan) is None
    for _ in range(9):
        last = leave_run(tmp_path, config, plan)
    summary = finished_run(tmp_path, config, plan)
    assert summary is not None
    assert summary["run_id"] == last.name  # number 11, not 9
    other = load_config(None, {"schedule": "regional", "payload": "10MB", "seed": "2"})
    assert finished_run(tmp_path, other, plan) is None


def test_what_was_run_is_reused_and_what_is_infeasible_is_not_run(tmp_path):
    config = load_config(None, {"schedule": "regional", "payload": "10MB"})
    refused = load_config(None, {"schedule": "all-to-all", "memory": "0"})
    cases = [Case("schedule", refused), Case("schedule", config)]
    plans = [plan_experiment(case.config) for case in cases]
    leave_run(tmp_path, config, plans[1])
    before = sorted(tmp_path.iterdir())
    rows = measure_cases(cases, plans, tmp_path, workers=1, force=False, tick=lambda text: None)
    assert [row.source for row in rows] == ["refused", "reused"]
    assert rows[1].t_measured_ms == 101.0
    assert sorted(tmp_path.iterdir()) == before


def test_a_comparison_of_finished_runs_writes_table_and_plots_and_says_so(tmp_path):
    config = load_config(None, {"payload": "10MB"})
    request = Request(config, schedules=("regional",), searches=False, sweeps=False, workers=1)
    for case in named_cases(base_config(config, quick=False), request.schedules):
        leave_run(tmp_path, case.config, plan_experiment(case.config))
    made = compare(request, tmp_path, progress=Step)
    assert {row.source for row in made.rows} == {"reused"}
    assert made.folder.parent == tmp_path / "compare"
    assert all(path.is_file() and path.parent == made.folder for path in made.files)
    assert {path.suffix for path in made.files} == {".csv", ".md", ".png"}
    assert any("reused 3 finished runs" in note for note in made.notes)


@pytest.mark.parametrize(
    ("row", "status", "message"),
    [
        (made_row(), 0, ""),
        (made_rows()[1], 0, ""),
        (made_row(verdict="DEGRADED"), 0, ""),
        (made_row(verdict="FAIL"), 3, "failed their checks: triangles-0123abcd-1"),
        (made_rows()[4], 1, "1 of 2 runs failed: the guest | died"),
    ],
)
def test_the_status_of_a_comparison_follows_from_its_rows(
    tmp_path, capsys, monkeypatch, row, status, message
):
    def compared(request, results_dir, *, progress):
        return Comparison(tmp_path, "title", [made_row(), row], [tmp_path / "table.csv"], ["note"])

    monkeypatch.setattr(comparison, "compare", compared)
    assert main(["compare", "--format", "json"]) == status
    shown = capsys.readouterr()
    assert message in shown.err
    value = json.loads(shown.out.splitlines()[-1])
    assert value["rows"][0]["t_planned_ms"] == 100.0
    assert value["notes"] == ["note"]
    assert main(["compare"]) == status
    assert str(tmp_path) in capsys.readouterr().out

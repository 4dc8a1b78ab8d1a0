import json
import subprocess
import sys
import time

import pytest

from controller.plan import read_plan
from experiments.cli import main
from experiments.identity import run_prefix
from experiments.sources import load_config


def status_and_error(capsys, *argv):
    status = main(list(argv))
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["experimnt"], "experiment"),
        (["experiment", "--shedule", "pairs"], "--schedule"),
        (["experiment", "--schedule", "pear"], 'did you mean "pairs"?'),
        (["experiment", "--config", "smal"], 'did you mean "small"?'),
        (["plan", "--set", "hash=sha"], 'HASH: "sha" is not valid'),
        (["plan", "--memory"], "--memory"),
        (["plan", "--trees", "leastload"], 'did you mean "least-load"?'),
        (["plan", "--format", "jsn"], 'FORMAT: "jsn" is not valid: did you mean "json"?'),
        (["optimize", "--format", "yaml"], "valid: json, table"),
        (["optimize", "--set", "multicast=off"], "leave both on"),
        (["optimize", "--budget", "0"], "BUDGET"),
        (["optimize", "--schedule", "pairs"], "--schedule"),
        (["compare", "--payload", "0"], "PAYLOAD"),
        (["compare", "--jobs", "0"], "--jobs"),
        (["analyse", "no-such-run", "--results", "/nonexistent"], "there is no run yet"),
        (["plot", "no-such-run"], 'no run "no-such-run"'),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(capsys, argv, message):
    status, error = status_and_error(capsys, *argv)
    assert status == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_plan_prints_the_rounds_and_writes_the_plan(capsys, tmp_path):
    path = tmp_path / "plan.json"
    options = ["--memory", "0", "--trees", "shortest-path", "--output", str(path)]
    status = main(["plan", *options, "--results", str(tmp_path)])
    printed = capsys.readouterr().out
    assert status == 0
    assert "565.6" in printed  # 122.1 ms of latency + 3 × 143.2 ms on the busiest link
    plan = read_plan(path)
    assert plan.feasible
    assert plan.memory_bytes == 0


def test_plan_leaves_plan_map_and_rates_in_a_folder_named_like_its_runs(capsys, tmp_path):
    assert main(["plan", "--schedule", "regional", "--results", str(tmp_path)]) == 0
    (folder,) = (tmp_path / "plans").iterdir()
    printed = capsys.readouterr().out.replace("\n", "")
    assert str(folder) in printed
    assert "shorter T   −1 ms per ms less: delay of tyo-sin" in printed
    assert folder.name == run_prefix(load_config(None, {"schedule": "regional"}))
    written = {path.name for path in folder.iterdir()}
    assert written == {"plan.json", "map.png", "rates.png", "sensitivities.json"}
    found = json.loads((folder / "sensitivities.json").read_text())["sensitivities"]
    assert {"what": "delay", "places": ["tyo-sin"], "unit": "ms", "gain_ms_per_unit": 1.0} in found


def test_a_plan_as_json_is_one_object_on_the_last_line(capsys, tmp_path):
    options = ["--schedule", "regional", "--format", "json", "--results", str(tmp_path)]
    assert main(["plan", *options]) == 0
    value = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert value["feasible"] is True
    assert value["reason"] == ""
    assert value["a_rms"] is None  # three islands of agreement never meet
    assert value["objective_ms"] is None
    assert value["t_ms"] == pytest.approx(value["rounds"][0]["t_ms"])
    assert value["busiest_link_streams"] == value["rounds"][0]["busiest_link_streams"] == 2
    assert [len(clique) for clique in value["rounds"][0]["cliques"]] == [3, 3, 3]
    assert {each["what"] for each in value["sensitivities"]} == {"delay", "link"}
    assert value["sensitivities_note"] == ""


def test_an_infeasible_plan_ends_with_status_4_and_its_reason(capsys, tmp_path):
    options = ["--schedule", "all-to-all", "--memory", "0", "--results", str(tmp_path)]
    status, error = status_and_error(capsys, "plan", *options)
    assert status == 4
    assert error.count("\n") == 1
    assert "short" in error


def test_an_infeasible_plan_as_json_says_so_and_still_ends_with_status_4(capsys, tmp_path):
    options = ["--schedule", "all-to-all", "--memory", "0", "--results", str(tmp_path)]
    assert main(["plan", *options, "--format", "json"]) == 4
    value = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert value["feasible"] is False
    assert "nyc must hold 86.4 ms of stream (216 MB)" in value["reason"]
    assert value["sensitivities"] == []
    assert "infeasible" in value["sensitivities_note"]


def test_variables_lists_every_key_with_its_default(capsys):
    assert main(["variables"]) == 0
    printed = capsys.readouterr().out
    for word in ("SCHEDULE", "TOPOLOGY", "1.79GB", "32GB", "tolerance_percent"):
        assert word in printed


def test_clean_with_nothing_to_clean(capsys, tmp_path):
    assert main(["clean", "--results", str(tmp_path)]) == 0
    assert "nothing to clean" in capsys.readouterr().out


def test_help_is_quick_and_imports_nothing_heavy():
    code = (
        "import sys; from experiments.cli import main; main(['--help']);"
        "print([m for m in ('numpy', 'pandas', 'pydantic', 'matplotlib') if m in sys.modules])"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert time.monotonic() - started < 5
    assert done.stdout.strip().endswith("[]")

import subprocess
import sys
import time

import pytest

from controller.plan import read_plan
from experiments.cli import main


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
    status = main(["plan", "--memory", "0", "--trees", "shortest-path", "--output", str(path)])
    printed = capsys.readouterr().out
    assert status == 0
    assert "565.6" in printed  # 122.1 ms of latency + 3 × 143.2 ms on the busiest link
    plan = read_plan(path)
    assert plan.feasible
    assert plan.memory_bytes == 0


def test_an_infeasible_plan_ends_with_status_4_and_its_reason(capsys):
    status, error = status_and_error(capsys, "plan", "--schedule", "all-to-all", "--memory", "0")
    assert status == 4
    assert error.count("\n") == 1
    assert "short" in error


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

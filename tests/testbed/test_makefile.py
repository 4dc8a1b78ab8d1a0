"""The Makefile passes on what the user typed, unchanged, and how the command ended."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import typer

from experiments.cli import app
from experiments.report import print_variables
from experiments.sources import key_names

ROOT = Path(__file__).parents[2]
VARIABLES = (
    "SCHEDULE", "CLOCK", "MEMORY", "MULTICAST", "AGGREGATION", "ROUNDS", "PAYLOAD", "SCALE",
    "SEED", "TOPOLOGY", "TREES", "RATES", "CONFIG", "FORCE", "RUN", "FORMAT", "BUDGET", "QUICK",
    "DATAGRAMS", "TIMES",
    "COLLECTIVE", "ALGORITHM", "MODEL", "CHUNKS", "ROOT", "RELEASE",
)  # fmt: skip
COMMON = {"PAYLOAD", "SCALE", "TOPOLOGY", "CONFIG"}
RUN = {"SCHEDULE", "MEMORY", "MULTICAST", "AGGREGATION"}
USED = {
    "experiment": COMMON
    | RUN
    | {"ROUNDS", "TREES", "RATES", "CLOCK", "SEED", "FORCE"}
    | {"CHUNKS", "MODEL", "RELEASE"},
    "plan": COMMON | RUN | {"ROUNDS", "TREES", "RATES", "FORMAT"},
    "optimize": COMMON | {"MEMORY", "SEED", "BUDGET", "FORMAT"},
    "loss": COMMON
    | {"SCHEDULE", "MEMORY", "ROUNDS", "TREES", "RATES", "SEED", "FORMAT", "FORCE", "QUICK"},
    "collective": {"TOPOLOGY", "COLLECTIVE", "ALGORITHM", "PAYLOAD", "MODEL", "CHUNKS", "ROOT"}
    | {"MULTICAST", "AGGREGATION", "SEED", "BUDGET", "FORMAT"},
    "compare-collectives": COMMON | {"SEED", "CHUNKS", "FORMAT", "QUICK"},
    "compare-failures": COMMON | {"SCHEDULE", "SEED", "CHUNKS", "FORMAT", "QUICK"},
    "sync-sgd": COMMON | {"SEED", "CHUNKS", "FORMAT", "QUICK"},
    "compare": COMMON | {"ROUNDS", "TREES", "RATES", "SEED", "BUDGET", "FORMAT", "FORCE", "QUICK"},
}
FLAGS = {"FORCE", "QUICK"}
SETTINGS = (
    "WAYS", "COLLISION", "HASH", "MEMORY_MODEL", "DTYPE", "ORDERED", "ENGINE",
    "RESEND_MS", "REPAIR", "COMPUTE_MS", "LOOP", "LOSS_PERCENT", "LOSS_BURST", "DUPLICATE_PERCENT",
    "REORDER_PERCENT", "LINK_JITTER_US", "REPLAN_MS",
)  # fmt: skip


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """Stands in for set-up and for the environment's interpreter, and notes what it is told."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/argv\nexit ${{STATUS:-0}}\n')
    set_up = tmp_path / "set-up"
    set_up.write_text(
        f'#!/bin/sh\necho "${{1:-set-up}}" >> {tmp_path}/actions\n'
        f'if [ "$1" = print-python ]; then echo {python}; fi\n'
    )
    for program in (python, set_up):
        program.chmod(0o755)
    return tmp_path


def make(stub: Path, *arguments: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    # Neither the user's variables nor those of a make above the tests count.
    own = (*VARIABLES, *SETTINGS, "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    return subprocess.run(
        ["make", "--no-print-directory", f"SET_UP={stub}/set-up", *arguments],
        cwd=ROOT,
        env={**environment, "STATUS": str(status)},
        capture_output=True,
        text=True,
        check=False,
    )


def noted(stub: Path, name: str) -> list[str]:
    return (stub / name).read_text().splitlines()


@pytest.mark.parametrize("target", USED)
def test_nothing_set_passes_nothing(stub: Path, target: str) -> None:
    assert make(stub, target).returncode == 0
    assert noted(stub, "argv") == ["-m", "experiments.cli", target]
    assert noted(stub, "actions") == ["set-up", "give-back", "print-python", "give-back"]


@pytest.mark.parametrize("value", ["triangles", "a b", "a'b", 'a"b', "$(x) `y` \\z", "*;&|"])
def test_a_value_arrives_as_it_was_typed(stub: Path, value: str) -> None:
    typed = value.replace("$", "$$")  # make's own rule
    assert make(stub, "experiment", f"SCHEDULE={typed}").returncode == 0
    assert noted(stub, "argv")[3:] == ["--schedule", value]


@pytest.mark.parametrize("target", USED)
def test_each_variable_that_a_target_uses_is_an_option(stub: Path, target: str) -> None:
    make(stub, target, *(f"{name}=v{number}" for number, name in enumerate(VARIABLES)))
    passed = noted(stub, "argv")[3:]
    flags = {f"--{name.lower()}" for name in USED[target] & FLAGS}
    assert flags <= set(passed)
    passed = [word for word in passed if word not in flags]
    values = {f"--{name.lower()}": f"v{number}" for number, name in enumerate(VARIABLES)}
    expected = {f"--{name.lower()}" for name in USED[target] - FLAGS}
    pairs = dict(zip(passed[::2], passed[1::2], strict=True))
    assert pairs == {option: values[option] for option in expected}


@pytest.mark.parametrize("target", USED)
def test_the_command_knows_every_option_that_its_target_passes(target: str) -> None:
    command = typer.main.get_command(app).commands[target]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {f"--{name.lower()}" for name in USED[target]} <= known


@pytest.mark.parametrize("target", ["experiment", "plan", "loss"])
def test_a_setting_of_the_table_or_the_last_hop_is_set(stub: Path, target: str) -> None:
    make(stub, target, *(f"{name}=a {number}" for number, name in enumerate(SETTINGS)))
    passed = noted(stub, "argv")[3:]
    assert passed[::2] == ["--set"] * len(SETTINGS)
    assert passed[1::2] == [f"{name}=a {number}" for number, name in enumerate(SETTINGS)]


def test_every_setting_is_a_key_and_is_listed_as_a_variable(capsys) -> None:
    assert {name.lower() for name in SETTINGS} <= set(key_names())
    print_variables()
    listed = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert [name for name in SETTINGS if [name] not in listed] == []


@pytest.mark.parametrize(("target", "name"), [("experiment", "FORCE"), ("compare", "QUICK")])
def test_0_is_no_flag(stub: Path, target: str, name: str) -> None:
    make(stub, target, f"{name}=0")
    assert noted(stub, "argv") == ["-m", "experiments.cli", target]


def test_the_real_clock_is_proved_with_the_options_of_an_experiment(stub: Path) -> None:
    given = ("SCALE=50", "FORCE=1", "WAYS=2", "FORMAT=json")
    make(stub, "prove-real", *given)
    make(stub, "experiment", *given)
    proof = ["-m", "experiments.provereal", "--scale", "50", "--set", "WAYS=2", "--force"]
    assert noted(stub, "argv")[: len(proof)] == proof
    assert noted(stub, "argv")[len(proof) :] == ["-m", "experiments.cli", "experiment", *proof[2:]]


def test_the_doctor_sets_nothing_up(stub: Path) -> None:
    told = json.loads(make(stub, "doctor", "FORMAT=json").stdout.splitlines()[-1])
    assert {"runs", "auto", "clocks", "checks"} <= told.keys()
    assert not (stub / "actions").exists()


def test_fuzz_takes_how_many_and_the_seed(stub: Path) -> None:
    make(stub, "fuzz", "DATAGRAMS=7", "SEED=3", "BUDGET=1")
    assert noted(stub, "argv") == ["-m", "benchmarks.fuzz", "--datagrams", "7", "--seed", "3"]


def test_reproduce_takes_a_run_and_the_latest_unless_told(stub: Path) -> None:
    make(stub, "reproduce", "RUN=a b")
    make(stub, "reproduce")
    start = ["-m", "experiments.cli", "reproduce"]
    assert noted(stub, "argv") == [*start, "a b", *start]


def test_kills_takes_how_many_and_the_seed(stub: Path) -> None:
    make(stub, "kills", "TIMES=3", "SEED=2", "DATAGRAMS=7")
    assert noted(stub, "argv") == ["-m", "benchmarks.kills", "--times", "3", "--seed", "2"]


def test_the_benchmarks_of_runs_take_little(stub: Path) -> None:
    make(stub, "bench-identity", "TIMES=3", "SEED=2")
    make(stub, "bench-scale", "TIMES=3")
    identity = ["-m", "benchmarks.identity", "--times", "3"]
    assert noted(stub, "argv") == [*identity, "-m", "benchmarks.scale"]


def test_the_comparison_with_uftp_takes_nothing(stub: Path) -> None:
    make(stub, "compare-uftp", "SEED=3")
    assert noted(stub, "argv") == ["-m", "benchmarks.uftp"]


def test_the_matrix_of_faults_takes_nothing(stub: Path) -> None:
    make(stub, "fault-matrix", "SEED=3")
    assert noted(stub, "argv") == ["-m", "benchmarks.faultmatrix"]


def test_a_failed_command_fails_the_target_with_its_status(stub: Path) -> None:
    done = make(stub, "experiment", status=4)
    assert done.returncode == 2
    assert "experiment] Error 4" in done.stderr
    assert noted(stub, "actions")[-1] == "give-back"


def test_a_set_up_that_fails_runs_nothing(stub: Path) -> None:
    (stub / "set-up").write_text("#!/bin/sh\nexit 5\n")
    done = make(stub, "test")
    assert "Error 5" in done.stderr
    assert not (stub / "argv").exists()


def test_lint_stops_at_the_first_complaint(stub: Path) -> None:
    make(stub, "lint", status=1)
    assert noted(stub, "argv") == ["-m", "ruff", "format", "--check"]
    (stub / "argv").unlink()
    make(stub, "lint")
    assert [line for line in noted(stub, "argv") if line in ("check", "mypy")] == ["check", "mypy"]


def test_help_names_every_target_and_variable(stub: Path) -> None:
    text = make(stub, "help").stdout
    assert text == make(stub).stdout
    others = ("setup", "doctor", "prove-real", "reproduce", "fuzz", "kills", "compare-uftp")
    others += ("fault-matrix", "bench-aggregator", "bench-collectives", "bench-identity")
    others += ("bench-scale",)
    for target in (*USED, *others, "test", "lint", "clean", "distclean"):
        assert f"make {target} " in text
    for variable in VARIABLES:
        assert f"\n  {variable} " in text

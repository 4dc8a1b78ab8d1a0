"""The Makefile passes on what the user typed, unchanged, and how the command ended."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VARIABLES = (
    "SCHEDULE", "CLOCK", "MEMORY", "MULTICAST", "AGGREGATION", "ROUNDS", "PAYLOAD", "SCALE",
    "SEED", "TOPOLOGY", "TREES", "CONFIG", "FORCE",
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
    own = (*VARIABLES, "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
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


def test_nothing_set_passes_nothing(stub: Path) -> None:
    assert make(stub, "experiment").returncode == 0
    assert noted(stub, "argv") == ["-m", "experiments.cli", "experiment"]
    assert noted(stub, "actions") == ["set-up", "give-back", "print-python", "give-back"]


@pytest.mark.parametrize("value", ["triangles", "a b", "a'b", 'a"b', "$(x) `y` \\z", "*;&|"])
def test_a_value_arrives_as_it_was_typed(stub: Path, value: str) -> None:
    typed = value.replace("$", "$$")  # make's own rule
    assert make(stub, "experiment", f"SCHEDULE={typed}").returncode == 0
    assert noted(stub, "argv")[3:] == ["--schedule", value]


def test_each_variable_is_an_option(stub: Path) -> None:
    given = [f"{name}=v{number}" for number, name in enumerate(VARIABLES)]
    make(stub, "experiment", *given)
    passed = noted(stub, "argv")[3:]
    assert passed[-1] == "--force"
    expected = {f"--{name.lower()}": f"v{i}" for i, name in enumerate(VARIABLES) if name != "FORCE"}
    assert dict(zip(passed[:-1:2], passed[1:-1:2], strict=True)) == expected


def test_force_0_is_no_force(stub: Path) -> None:
    make(stub, "experiment", "FORCE=0")
    assert "--force" not in noted(stub, "argv")


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
    for target in ("setup", "experiment", "plan", "test", "lint", "clean", "distclean"):
        assert f"make {target} " in text
    for variable in VARIABLES:
        assert f"\n  {variable} " in text

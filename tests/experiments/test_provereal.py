"""What `make prove-real` runs in the packaged kernel."""

from pathlib import Path

import pytest

from experiments.cli import app
from experiments.provereal import CONFIG, ROOT, command, main
from experiments.sources import load_config, published
from testbed.errors import InputError


def test_the_guest_runs_the_experiment_command_of_a_host(tmp_path: Path) -> None:
    argv, results = command(["--scale", "50", "--results", str(tmp_path), "--set", "late_ms=5"])
    assert argv[1:4] == ["-m", "experiments.cli", "experiment"]
    assert "experiment" in {c.name or c.callback.__name__ for c in app.registered_commands}
    assert argv[-4:] == ["--clock", "auto", "--results", str(tmp_path)]
    assert argv[6:10] == ["--scale", "50", "--set", "late_ms=5"]
    assert results == tmp_path
    assert command([])[1] == ROOT / "results"


def test_another_config_takes_the_place_of_ours() -> None:
    argv, _ = command(["--config", "small"])
    assert argv.index(CONFIG) < argv.index("small")  # of an option given twice the last counts


def test_virtual_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--clock", "virtual"]) == InputError.status
    assert "this proves the real clock" in capsys.readouterr().err


def test_the_published_config_leaves_the_clock_open() -> None:
    config = load_config(CONFIG, {})
    assert CONFIG in published()
    assert config.clock == "auto"
    assert config.at_clock("real").scale == config.scale == 200

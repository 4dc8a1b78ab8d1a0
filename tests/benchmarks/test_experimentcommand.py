"""A benchmark that ends early takes its experiment, and all that this made, with it."""

import time
from pathlib import Path

import pytest

from benchmarks.experimentcommand import experiment
from experiments.results import read_state

pytestmark = pytest.mark.machine

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0


def test_the_experiment_of_a_block_that_is_left_is_ended_and_cleaned_up(tmp_path: Path) -> None:
    words = ["--payload", "60MB", "--rounds", "20", "--results", str(tmp_path)]
    deadline = time.monotonic() + LIMIT_S

    made: list[Path] = []

    def leave_early() -> None:
        with experiment(ROOT, words) as process:
            while not list(tmp_path.glob("*/log/ovs-vswitchd.log")):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            listed = read_state(tmp_path / "latest")["made"]
            made.extend(Path(entry["folder"]) for entry in listed)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave_early()
    assert read_state(tmp_path / "latest")["state"] == "incomplete"
    assert made
    assert not [folder for folder in made if folder.exists()]

"""The follower of the emulation's output."""

import sys
import time
from pathlib import Path

import pytest

from experiments.stages import StageFollower
from testbed.errors import MachineError


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def follower(tmp_path: Path, shown: list[str]):
    with StageFollower(tmp_path / "emulation.log", shown.append) as made:
        yield made


def test_stages_are_shown_and_kept_out_of_the_log(
    follower: StageFollower, shown: list[str], tmp_path: Path
) -> None:
    follower.feed("stdout", b'hello\n@stage {"stage": "network", "detail": "9 ci')
    assert shown == []
    follower.feed("stdout", b'ties"}\n@stage {"stage": "up"}\n')
    assert shown == ["9 cities", "up"]
    follower.__exit__(None, None, None)
    assert (tmp_path / "emulation.log").read_text() == "hello\n"


def test_wall_times_end_at_the_named_stage_and_add_up(follower: StageFollower) -> None:
    for name in ("boot", "network", "up", "rounds"):
        time.sleep(0.02)
        follower.feed("stdout", b'@stage {"stage": "%s"}\n' % name.encode())
    times = follower.wall_times_until("up")
    assert list(times) == ["boot_wall_s", "network_wall_s", "up_wall_s", "total_wall_s"]
    assert sum(list(times.values())[:3]) == pytest.approx(times["total_wall_s"], abs=0.003)
    assert times["total_wall_s"] >= 0.06


def test_the_last_error_is_the_last_line_of_standard_error(follower: StageFollower) -> None:
    assert follower.last_error() == "it said nothing"
    follower.feed("stderr", b"warning: x\nerror: island fra ended with status 1\n")
    assert follower.last_error() == "island fra ended with status 1"


def test_run_feeds_both_streams_and_returns_the_status(
    follower: StageFollower, shown: list[str], tmp_path: Path
) -> None:
    code = (
        'import sys; print(\'@stage {"stage": "a"}\', flush=True);'
        "print('bad', file=sys.stderr); raise SystemExit(7)"
    )
    assert follower.run([sys.executable, "-c", code], cwd=tmp_path, wall_limit_s=60) == 7
    assert shown == ["a"]
    assert follower.last_error() == "bad"


def test_run_ends_at_its_limit(follower: StageFollower, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="wall-time limit"):
        follower.run(
            [sys.executable, "-c", "import time; time.sleep(60)"], cwd=tmp_path, wall_limit_s=0.2
        )

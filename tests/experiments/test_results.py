import json
import os

import pytest

from experiments.config import ExperimentConfig
from experiments.identity import run_prefix
from experiments.results import (
    create_run,
    find_run,
    owner_runs,
    read_json,
    read_state,
    set_state,
    write_json,
    write_manifest,
)
from testbed.errors import CliquenetError, InputError

CONFIG = ExperimentConfig()


def test_repetitions_count_up_and_latest_points_to_the_newest(tmp_path):
    prefix = run_prefix(CONFIG)
    first, second = create_run(tmp_path, CONFIG), create_run(tmp_path, CONFIG)
    assert [first.name, second.name] == [f"{prefix}-1", f"{prefix}-2"]
    assert (tmp_path / "latest").resolve() == second.resolve()
    assert (tmp_path / "latest").readlink().name == second.name
    assert find_run(tmp_path, "latest") == second.resolve()
    assert find_run(tmp_path, first.name) == first.resolve()
    assert (first / "raw").is_dir()


def test_a_gap_in_the_repetitions_is_filled(tmp_path):
    for _ in range(3):
        last = create_run(tmp_path, CONFIG)
    middle = last.with_name(last.name[:-1] + "2")
    for part in middle.iterdir():
        part.rmdir() if part.is_dir() else part.unlink()
    middle.rmdir()
    assert create_run(tmp_path, CONFIG) == middle


def test_a_latest_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()
    with pytest.raises(CliquenetError, match="not a link"):
        create_run(tmp_path, CONFIG)


def test_an_unknown_run_is_refused_with_the_nearest_one(tmp_path):
    run_dir = create_run(tmp_path, CONFIG)
    with pytest.raises(InputError, match=f'did you mean "{run_dir.name}"'):
        find_run(tmp_path, run_dir.name[:-1])


def test_states_keep_the_start_and_count_wall_time(tmp_path):
    run_dir = create_run(tmp_path, CONFIG)
    running = read_state(run_dir)
    assert running["state"] == "running"
    assert owner_runs(running)
    set_state(run_dir, "failed", "why")
    failed = read_state(run_dir)
    assert (failed["state"], failed["message"]) == ("failed", "why")
    assert failed["started_unix_s"] == running["started_unix_s"]
    assert failed["wall_s"] >= 0
    assert not owner_runs(failed)


def test_a_process_number_that_was_given_again_is_not_the_owner(tmp_path):
    state = read_state(create_run(tmp_path, CONFIG))
    for changed in ({"start_ticks": 1}, {"boot_id": "another"}, {"pid": 2**22 + 1}):
        assert not owner_runs({**state, "owner": {**state["owner"], **changed}})


def test_the_manifest_says_what_the_run_was_made_from_and_nothing_of_the_host(tmp_path):
    run_dir = create_run(tmp_path, CONFIG)
    write_manifest(run_dir, CONFIG, kernel="6.1.0-test", extra={"clock_reason": "asked for"})
    manifest = read_json(run_dir / "manifest.json")
    assert manifest["run_id"] == run_dir.name
    assert manifest["config"] == CONFIG.resolved()
    assert manifest["packages"]["numpy"]
    assert manifest["clock_reason"] == "asked for"
    text = json.dumps(manifest)
    assert os.uname().nodename not in text
    assert str(tmp_path) not in text


def test_json_is_written_whole_and_read_back(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": [1, None, "µ"]})
    assert read_json(path) == {"a": [1, None, "µ"]}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("inf")})
    assert read_json(path) == {"a": [1, None, "µ"]}


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_damaged_json_is_an_input_error(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        read_json(path)

import json
import subprocess
import sys

from experiments.cleanup import PROGRAM, clean_all, clean_run
from experiments.config import ExperimentConfig
from experiments.results import (
    VERIFIED,
    create_run,
    own,
    owned_by_this_process,
    read_state,
    set_state,
)


def abandon(run_dir):
    """Make a run look as if its process had been killed."""
    path = run_dir / "status.json"
    status = json.loads(path.read_text())
    status["owner"]["start_ticks"] = 1
    path.write_text(json.dumps(status))


def sleeper(*arguments):
    code = "import time; print('up', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "up\n"
    return process


def test_a_run_that_still_runs_is_left_alone(tmp_path):
    run_dir = create_run(tmp_path, ExperimentConfig())
    assert clean_all(tmp_path) == [f"{run_dir.name}: still running, left alone"]
    assert read_state(run_dir)["state"] == "running"


def test_a_run_inside_a_guest_is_its_booters(tmp_path, monkeypatch):
    code = (
        "import pathlib, sys; from experiments.config import ExperimentConfig;"
        "from experiments.results import create_run;"
        "create_run(pathlib.Path(sys.argv[1]), ExperimentConfig())"
    )
    argv = [sys.executable, "-c", code]
    subprocess.run([*argv, str(tmp_path / "plain")], check=True)
    assert clean_all(tmp_path / "plain")[0].endswith("marked incomplete")
    for name, value in owned_by_this_process().items():
        monkeypatch.setenv(name, value)
    subprocess.run([*argv, str(tmp_path / "guest")], check=True)
    assert clean_all(tmp_path / "guest")[0].endswith("still running, left alone")


def test_an_abandoned_run_is_marked_and_keeps_its_files(tmp_path):
    run_dir = create_run(tmp_path, ExperimentConfig())
    (run_dir / "raw" / "island-nyc.bin").write_bytes(b"data")
    abandon(run_dir)
    assert clean_run(run_dir) == [f"{run_dir.name}: marked incomplete"]
    assert read_state(run_dir)["state"] == "incomplete"
    assert (run_dir / "raw" / "island-nyc.bin").exists()
    assert clean_all(tmp_path) == []


def test_an_abandoned_verification_is_found_in_its_own_folder(tmp_path):
    run_dir = create_run(tmp_path / VERIFIED, ExperimentConfig(), "nine-cities-00000000")
    assert run_dir.name == "nine-cities-00000000-1"
    abandon(run_dir)
    assert clean_all(tmp_path) == [f"{run_dir.name}: marked incomplete"]


def test_a_finished_run_keeps_its_state(tmp_path):
    run_dir = create_run(tmp_path, ExperimentConfig())
    set_state(run_dir, "complete")
    assert clean_all(tmp_path) == []
    assert read_state(run_dir)["state"] == "complete"


def test_only_the_processes_of_this_very_run_are_stopped(tmp_path):
    run_dir, other = (create_run(tmp_path, ExperimentConfig()) for _ in range(2))
    abandon(run_dir)
    ours = sleeper(PROGRAM, str(run_dir))
    strangers = [sleeper(PROGRAM, str(other)), sleeper("some.program", str(run_dir))]
    try:
        lines = clean_run(run_dir)
        assert f"{run_dir.name}: stopped process {ours.pid}" in lines
        assert ours.wait(timeout=10) != 0
        assert [process.poll() for process in strangers] == [None, None]
    finally:
        for process in (ours, *strangers):
            process.kill()
            process.communicate()


def test_no_results_folder_is_nothing_to_clean(tmp_path):
    assert clean_all(tmp_path / "none") == []


def test_what_the_state_lists_is_taken_away(tmp_path):
    run_dir = create_run(tmp_path / "results", ExperimentConfig())
    guest, stranger = sleeper(), sleeper()
    folder, others = tmp_path / "cliquenet-guest-a", tmp_path / "elsewhere"
    for place in (folder, others):
        place.mkdir()
        (place / "owner").touch()
    own(run_dir, guest.pid, folder)
    own(run_dir, stranger.pid, others)
    state = read_state(run_dir)
    state["made"][1]["process"]["start_ticks"] -= 1  # the number, but not the process
    (run_dir / "status.json").write_text(json.dumps(state))
    try:
        assert clean_run(run_dir) == [f"{run_dir.name}: still running, left alone"]
        abandon(run_dir)
        assert clean_run(run_dir) == [
            f"{run_dir.name}: stopped process {guest.pid}",
            f"{run_dir.name}: removed {folder}",
            f"{run_dir.name}: marked incomplete",
        ]
        assert guest.wait(timeout=10) != 0
        assert stranger.poll() is None
        assert others.exists()
        assert not folder.exists()
    finally:
        for process in (guest, stranger):
            process.kill()
            process.wait()

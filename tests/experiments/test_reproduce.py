"""A repetition is held against the stored run, part by part."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.planning import plan_experiment
from experiments.reproduce import stored_config
from experiments.results import create_run, set_state, write_json, write_manifest
from experiments.sameness import compare_runs, near
from experiments.sources import load_config
from testbed.errors import InputError

SUMMARY = {"run_id": "x-1", "wall_s": 3.0, "t_measured_ms": 1.5, "trace_sha256": "ab", "n": [1, 2]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def analysed(folder: Path, summary: dict, bursts: pd.DataFrame) -> Path:
    (folder / "events").mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(summary))
    bursts.to_parquet(folder / "events" / "bursts.parquet")
    return folder


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame({"t_ns": [1, 2, 3], "end_ms": [0.5, None, 2.0]})


def test_runs_that_measured_the_same_are_the_same(tmp_path: Path, table) -> None:
    old = analysed(tmp_path / "old", SUMMARY, table)
    new = analysed(tmp_path / "new", {**SUMMARY, "run_id": "x-2", "wall_s": 9.0}, table)
    parts = compare_runs(old, new)
    assert [part.name for part in parts] == ["trace", "summary", "bursts.parquet"]
    assert all(part.same for part in parts)


@pytest.mark.parametrize(
    ("change", "part", "difference"),
    [
        ({"trace_sha256": "cd"}, "trace", "ab became cd"),
        ({"t_measured_ms": 1.25}, "summary", "t_measured_ms: 1.5 became 1.25"),
        ({"n": [1, 3]}, "summary", "n[1]: 2 became 3"),
        ({"extra": 1}, "summary", "extra: only in the second"),
    ],
)
def test_the_first_difference_is_named(tmp_path, table, change, part, difference) -> None:
    old = analysed(tmp_path / "old", SUMMARY, table)
    new = analysed(tmp_path / "new", {**SUMMARY, **change}, table)
    unequal = [p for p in compare_runs(old, new) if not p.same]
    assert [(p.name, p.difference) for p in unequal] == [(part, difference)]


def test_tables_are_compared_cell_by_cell(tmp_path: Path, table) -> None:
    old = analysed(tmp_path / "old", SUMMARY, table)
    other = table.assign(end_ms=[0.5, None, 2.5])
    new = analysed(tmp_path / "new", SUMMARY, other)
    assert compare_runs(old, new)[-1].difference == "end_ms of row 2: 2.0 became 2.5"
    shorter = analysed(tmp_path / "shorter", SUMMARY, table[:2])
    assert not compare_runs(old, shorter)[-1].same
    (shorter / "events" / "bursts.parquet").unlink()
    assert "only one run has it" in compare_runs(old, shorter)[-1].difference


@given(VALUES, VALUES)
def test_values_are_near_only_themselves_when_nothing_is_allowed(a: object, b: object) -> None:
    assert near(a, a, 0.0) == []
    if json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True):
        assert near(a, b, 0.0) or a == b


def test_floats_may_differ_by_a_share_but_counts_may_not() -> None:
    assert near({"t_ms": 100.0}, {"t_ms": 100.009}, 1e-4) == []
    assert near({"t_ms": 100.0}, {"t_ms": 100.02}, 1e-4) == ["t_ms: 100.0 became 100.02"]
    assert near({"n": 100000}, {"n": 100001}, 1e-4) != []
    assert near({"exact": True}, {"exact": 1}, 1e-4) != []


def stored(folder: Path, text: str = "payload: 60MB\n") -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    config = load_config(str(file), {}).at_clock("virtual")
    run_dir = create_run(folder / "results", config)
    write_manifest(run_dir, config, kernel="any", extra={})
    set_state(run_dir, "complete")
    return run_dir


def test_a_manifest_gives_the_config_back(tmp_path: Path) -> None:
    events = "events:\n  - {at_ms: 4, event: island-restart, city: nyc, down_ms: 2}\n"
    lossy = "impairments:\n  - {link: nyc-chi, loss_percent: 1}\n"
    run_dir = stored(tmp_path, "payload: 60MB\nscale: 50\nmemory: 32GB\n" + events + lossy)
    again = stored_config(run_dir)
    plan_experiment(again)  # as a run would
    assert again.resolved() == json.loads((run_dir / "manifest.json").read_text())["config"]


def test_what_changed_since_is_refused(tmp_path: Path) -> None:
    schedule = tmp_path / "mine.yaml"
    schedule.write_text("name: mine\nrounds:\n  - [[nyc, chi, lax]]\n")
    run_dir = stored(tmp_path, f"schedule: {schedule}\n")
    assert stored_config(run_dir).schedule == str(schedule)
    schedule.write_text("name: mine\nrounds:\n  - [[nyc, chi, lon]]\n")
    with pytest.raises(InputError, match=r"now stands for mine-\w{8}, not for mine-\w{8}-1"):
        stored_config(run_dir)


def test_only_a_complete_run_with_a_sound_manifest_is_repeated(tmp_path: Path) -> None:
    run_dir = stored(tmp_path)
    manifest = json.loads((run_dir / "manifest.json").read_text())
    write_json(run_dir / "manifest.json", {**manifest, "config": {"sede": 1}})
    with pytest.raises(InputError, match=r'manifest.json: unknown key "sede"'):
        stored_config(run_dir)
    write_json(run_dir / "manifest.json", {**manifest, "config": None})
    with pytest.raises(InputError, match="config: is not an object"):
        stored_config(run_dir)
    set_state(run_dir, "failed", "why")
    with pytest.raises(InputError, match="is failed: only a complete run is repeated"):
        stored_config(run_dir)

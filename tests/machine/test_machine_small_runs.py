"""Small runs in one boot: element types are exact, restarts never give a wrong sum."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.native.build import ensure_kernel_library
from experiments.analysis import analyse_run
from experiments.planning import plan_experiment
from experiments.results import create_run
from experiments.run import make_runtime
from experiments.sources import load_config
from testbed.virtualtime.kernel import ensure_kernel

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
LIMIT_S = 900
TOPOLOGY = """
name: three
cities:
  - {code: aaa, name: Aaa, region: r, lat: 0, lon: 0}
  - {code: bbb, name: Bbb, region: r, lat: 0, lon: 1}
  - {code: ccc, name: Ccc, region: r, lat: 0, lon: 2}
links:
  - {a: aaa, b: bbb, delay_ms: 3, rate_gbps: 100}
  - {a: bbb, b: ccc, delay_ms: 4, rate_gbps: 100}
  - {a: aaa, b: ccc, delay_ms: 5, rate_gbps: 100}
"""
SCHEDULE = "name: all\nrounds:\n  - [[aaa, bbb, ccc]]\n"
KILL = """events:
  - {at_ms: 4, event: island-restart, city: bbb, down_ms: 2}
  - {at_ms: 7.5, event: island-restart, city: aaa, down_ms: 2}
"""
TERM = KILL.replace("down_ms: 2", "down_ms: 2, signal: term")
AWAY = KILL.replace("down_ms: 2", "down_ms: 60")
RUNS = {
    "f32": "dtype: f32\n",
    "f32-reference": "dtype: f32\nengine: reference\n",
    "f32-ordered": "dtype: f32\nordered: on\n",
    "exponent": "dtype: i32-exponent\n",
    "exponent-reference": "dtype: i32-exponent\nengine: reference\n",
    "killed-ring": "resend_ms: 30\n" + KILL,
    "killed-repair": "resend_ms: 3\nrepair: on\n" + KILL,
    "killed-bare": KILL,
    "ended": "resend_ms: 3\nrepair: on\n" + TERM,
    "away": AWAY,
}
OF_THE_PROCESS = {"run_id", "wall_s", "network_up_wall_s", "trace_sha256", "reasons"}


@pytest.fixture(scope="module")
def summaries(tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("small")
    (folder / "three.yaml").write_text(TOPOLOGY)
    (folder / "all.yaml").write_text(SCHEDULE)
    ensure_kernel_library()
    made = {name: prepare(folder, name, text) for name, text in RUNS.items()}
    script = f'for run in "$@"; do {sys.executable} -m experiments.emulate "$run" || exit 1; done'
    options = ("--kernel", str(ensure_kernel()), "--writable", str(folder), "--memory", "2048")
    done = subprocess.run(
        [sys.executable, "-m", "testbed.virtualtime", *options, "--wall-limit", str(LIMIT_S),
         "--", "/bin/sh", "-c", script, "sh", *map(str, made.values())],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: analyse_run(run_dir) for name, run_dir in made.items()}


def prepare(folder: Path, name: str, text: str) -> Path:
    """The folder of a run that is planned and can be emulated."""
    file = folder / f"{name}-config.yaml"
    file.write_text(
        f"topology: {folder}/three.yaml\nschedule: {folder}/all.yaml\n"
        f"trees: shortest-path\npayload: 120MB\nrounds: 3\n{text}"
    )
    config = load_config(str(file), {}).at_clock("virtual")
    plan = plan_experiment(config)
    run_dir = create_run(folder / name, config)
    plan.write(run_dir / "plan.json")
    make_runtime(config, plan, run_dir).write(run_dir / "runtime.json")
    return run_dir


@pytest.mark.parametrize("name", ["f32", "f32-reference", "f32-ordered", "exponent"])
def test_sums_of_every_checked_type_are_exact(summaries, name: str) -> None:
    summary = summaries[name]
    # a burst takes a long time here, against so short a round
    assert [reason for reason in summary["reasons"] if "T measured" not in reason] == []
    assert summary["blocks_exact"] == summary["blocks_expected"] > 0
    assert summary["packets_lost"] == summary["partial_blocks"] == 0


@pytest.mark.parametrize("name", ["f32", "exponent"])
def test_both_engines_give_the_same_summary(summaries, name: str) -> None:
    native, reference = summaries[name], summaries[f"{name}-reference"]
    assert native.keys() == reference.keys()
    for key in native.keys() - OF_THE_PROCESS:
        alike(native[key], reference[key])


@pytest.mark.parametrize("name", [name for name, text in RUNS.items() if "restart" in text])
def test_a_restarted_island_never_gives_a_wrong_sum(summaries, name: str) -> None:
    summary = summaries[name]
    assert [fault["ended_ms"] is not None for fault in summary["faults"]] == [True, True]
    assert summary["blocks_wrong"] == 0
    assert summary["unrecorded"] == []
    found = sum(summary[f"blocks_{what}"] for what in ("exact", "stale", "missing"))
    assert found == summary["blocks_expected"]
    assert summary["verdict"] != "FAIL", summary["reasons"]


@pytest.mark.parametrize("name", ["killed-ring", "killed-repair", "ended"])
def test_with_recovery_nothing_is_missing_in_the_end(summaries, name: str) -> None:
    summary = summaries[name]
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["sums_exact"] is True


def test_without_recovery_what_it_had_received_is_missing(summaries) -> None:
    summary = summaries["killed-bare"]
    assert summary["verdict"] == "DEGRADED"
    assert summary["blocks_missing"] > 0


def alike(one: object, other: object) -> None:
    """Equal, but for what the time of the last nanoseconds makes of a figure."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in one:
            alike(one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        for a, b in zip(one, other, strict=True):
            alike(a, b)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-3, abs=0.05)
    else:
        assert one == other

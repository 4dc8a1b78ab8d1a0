"""The main job on real packets, as a user would run it, at a tenth of the payload."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command import cliquenet

from benchmarks.kills import trial
from experiments.planning import plan_experiment
from experiments.results import create_run
from experiments.run import make_runtime
from experiments.sameness import near
from experiments.sources import load_config
from testbed.fidelity import read_fidelity
from testbed.privileges import Capability
from testbed.virtualtime.kernel import ensure_kernel
from testbed.virtualtime.machine import run_in_virtual_time

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
EXPECTED = Path(__file__).with_name("expected_triangles.json")
LIMIT_S = 600
SMALL = ("--payload", "179MB", "--rounds", "2", "--trees", "shortest-path")


def experiment(results: Path, *options: str, status: int = 0) -> dict:
    done = cliquenet("experiment", "--results", str(results), *options)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads((results / "latest" / "summary.json").read_text())


@pytest.fixture(scope="module")
def triangles(tmp_path_factory) -> tuple[Path, dict]:
    results = tmp_path_factory.mktemp("triangles")
    return results, experiment(results, "--schedule", "triangles", "--memory", "0", *SMALL)


def test_triangles_pass_without_memory(triangles) -> None:
    _, summary = triangles
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["sums_exact"] is True
    assert summary["packets_lost"] == 0
    assert abs(summary["t_error_percent"]) <= 1.0
    assert summary["a_rms"] == 1.5
    # 135.975 ms of delay (longest + middle - shortest edge of the clique New York,
    # Frankfurt, Tokyo) and three streams of 179 MB on one link of 100 Gbit/s.
    assert summary["t_planned_ms"] == pytest.approx(135.975 + 3 * 14.32, abs=0.01)


def test_the_results_are_complete(triangles) -> None:
    results, summary = triangles
    run_dir = results / summary["run_id"]
    assert (results / "latest").resolve() == run_dir.resolve()
    names = ["plan.json", "manifest.json", "summary.json"]
    names += [f"events/{name}.parquet" for name in ("bursts", "streams", "links", "rules")]
    names += [f"plots/{name}.png" for name in ("map", "timeline", "memory", "links", "survival")]
    assert [name for name in names if not (run_dir / name).is_file()] == []
    assert json.loads((run_dir / "status.json").read_text())["state"] == "complete"


def test_links_and_paths_were_measured_before_the_rounds(triangles) -> None:
    results, summary = triangles
    fidelity = read_fidelity(results / summary["run_id"] / "raw" / "fidelity.json")
    assert (len(fidelity.links), len(fidelity.paths)) == (44, 72)
    assert summary["rtt_max_error_us"] <= 2.0
    worst = summary["fidelity"]
    assert worst["delay_error_us"] <= 1.0
    assert worst["rate_error_percent"] <= 0.1
    assert worst["jitter_us"] <= 0.1
    assert worst["lost"] == worst["reordered"] == worst["unaccounted"] == worst["mtu_wrong"] == 0
    assert summary["host"]["wall_s"] > 0
    assert summary["conservation"]["unaccounted"] == 0
    assert summary["conservation"]["sent"] == summary["conservation"]["delivered"] > 0


def test_it_measures_what_it_always_measured(triangles) -> None:
    _, summary = triangles
    expected = json.loads(EXPECTED.read_text())
    # Times may move with the interpreter's version, by a few millionths; counts may not.
    found = {key: summary[key] for key in expected}
    assert near(expected, found, relative=1e-4) == []


def test_it_is_reproduced_from_its_manifest_under_load(triangles, tmp_path: Path) -> None:
    results, first = triangles
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        done = cliquenet("reproduce", str(results / first["run_id"]), "--results", str(tmp_path))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    made = json.loads((tmp_path / "latest" / "reproduction.json").read_text())
    assert made["same"] is True
    assert {"trace", "summary", "bursts.parquet", "links.csv"} <= {p["name"] for p in made["parts"]}
    again = json.loads((tmp_path / "latest" / "summary.json").read_text())
    assert again["trace_sha256"] == first["trace_sha256"]


def test_another_seed_gives_another_trace_and_the_same_time(triangles, tmp_path: Path) -> None:
    _, first = triangles
    options = ("--schedule", "triangles", "--memory", "0", "--seed", "2", *SMALL)
    other = experiment(tmp_path, *options)
    assert other["trace_sha256"] != first["trace_sha256"]
    assert other["t_measured_ms"] == pytest.approx(first["t_measured_ms"], rel=0.01)


def test_all_to_all_without_memory_is_refused_with_the_receiver_and_the_bytes(
    tmp_path: Path,
) -> None:
    done = cliquenet(
        "experiment", "--schedule", "all-to-all", "--memory", "0", "--results", str(tmp_path)
    )
    assert done.returncode == 4
    assert "nyc must hold 86.4 ms of stream (216 MB)" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_to_all_without_memory_collides_when_forced(tmp_path: Path) -> None:
    options = ("--schedule", "all-to-all", "--memory", "0", "--force", *SMALL)
    summary = experiment(tmp_path, *options)
    assert summary["verdict"] == "DEGRADED"
    assert summary["evictions"]["collision"] > 0
    assert summary["partial_blocks"] > 0
    assert summary["sums_exact"] is True


def test_all_to_all_needs_no_memory_through_a_hub(tmp_path: Path) -> None:
    small = ("--payload", "179MB", "--rounds", "2")
    summary = experiment(tmp_path, "--config", "all-to-all-hub", *small)
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["sums_exact"] is True
    assert summary["partial_blocks"] == 0
    # Singapore is 81.615 ms from the hub, Los Angeles; nine streams share a link.
    assert summary["t_planned_ms"] == pytest.approx(2 * 81.615 + 9 * 14.32, abs=0.01)
    assert abs(summary["t_error_percent"]) <= 1.0


def test_without_multicast_and_aggregation_every_island_moves_n_minus_1_copies(
    tmp_path: Path,
) -> None:
    small = ("--schedule", "all-to-all", "--payload", "179MB", "--rounds", "1")
    summary = experiment(tmp_path, "--multicast", "off", "--aggregation", "off", *small)
    assert summary["verdict"] == "PASS", summary["reasons"]
    for moved in summary["islands"].values():
        assert moved["egress_bytes"] == pytest.approx(8 * 179e6, rel=1e-3)
        assert moved["ingress_bytes"] == pytest.approx(8 * 179e6, rel=1e-3)


def test_os_ken_runs_the_same_application(triangles, tmp_path: Path) -> None:
    _, first = triangles
    options = ("--schedule", "triangles", "--memory", "0", "--set", "controller=os-ken", *SMALL)
    other = experiment(tmp_path, *options)
    assert other["verdict"] == "PASS", other["reasons"]
    assert other["t_measured_ms"] == pytest.approx(first["t_measured_ms"], rel=1e-4)


def test_senders_at_full_speed_reach_the_bound_of_the_busiest_link(tmp_path: Path) -> None:
    options = ("--schedule", "all-to-all", "--rates", "unpaced", *SMALL)
    summary = experiment(tmp_path, *options)
    assert summary["verdict"] == "PASS", summary["reasons"]


def test_the_best_schedule_found_is_confirmed(tmp_path: Path) -> None:
    schedule = ROOT / "experiments" / "schedules" / "best-32gb.yaml"
    summary = experiment(tmp_path, "--schedule", str(schedule), "--rounds", "2")
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["objective_ms"] == pytest.approx(636.04, rel=0.01)


def test_rates_that_senders_cannot_follow_are_refused(tmp_path: Path) -> None:
    done = cliquenet("experiment", "--rates", "time-varying", "--payload", "20MB")
    assert done.returncode == 2
    assert "planned only" in done.stderr


@pytest.mark.parametrize(
    ("victim", "message", "capabilities"),
    [
        ("controller", "controller was killed by signal 9", 1 << Capability.DAC_OVERRIDE),
        (
            "agent",
            "island hkg was killed by",
            1 << Capability.DAC_OVERRIDE | 1 << Capability.NET_ADMIN,
        ),
    ],
)
def test_a_killed_process_fails_the_run_at_once_and_had_given_up_powers(
    tmp_path: Path, victim: str, message: str, capabilities: int
) -> None:
    config = load_config(None, {"schedule": "triangles", "rounds": "50"})
    plan = plan_experiment(config)
    run_dir = create_run(tmp_path, config)
    plan.write(run_dir / "plan.json")
    make_runtime(config, plan, run_dir).write(run_dir / "runtime.json")
    output = bytearray()
    outcome = run_in_virtual_time(
        [sys.executable, "tests/machine/guest_crash.py", str(run_dir), victim],
        kernel=ensure_kernel(),
        on_output=lambda stream, data: output.extend(data),
        memory_mb=4096,
        writable=run_dir,
        env={"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        wall_limit_s=LIMIT_S,
    )
    text = output.decode()
    assert outcome.status == 1, text
    assert message in text
    assert f"capabilities {capabilities:016x}\n" in text
    after_s = float(text.rpartition("ended after ")[2].split()[0])
    assert after_s < 10.0


def test_an_interrupt_leaves_nothing_behind_and_marks_the_run(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "experiment", "--results", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + LIMIT_S
    while not list(tmp_path.glob("*/log/ovs-vswitchd.log")) and time.monotonic() < deadline:
        time.sleep(0.2)
    guests = [p for p in descendants(process.pid) if p != process.pid]
    places = {Path(f"/proc/{p}/cwd").readlink() for p in guests}
    folders = {place for place in places if place.is_relative_to("/dev/shm")}
    assert folders
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == "error: interrupted"
    assert json.loads((tmp_path / "latest" / "status.json").read_text())["state"] == "incomplete"
    assert eventually(lambda: not [p for p in guests if runs(p)])
    assert not [folder for folder in folders if folder.exists()]


def test_nothing_is_left_of_a_killed_run_after_the_next_command() -> None:
    done = trial("kill", 6.0)
    assert done.left == ()
    assert done.state == "incomplete"


def eventually(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
    """Whether a condition comes true; killed processes take a moment to go."""
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def runs(pid: int) -> bool:
    """Whether a process exists and is no zombie, which its new parent has yet to collect."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found = {pid}
    while new := {p for p, parent in parents.items() if parent in found} - found:
        found |= new
    return sorted(found)

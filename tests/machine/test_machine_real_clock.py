"""The real clock, in the packaged kernel: the very command of a fit host, and its verdict.

How good the figures are depends on what else this machine does; that they are told does not.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UntrustedRunError
from testbed.virtualtime.machine import run_in_guest
from testbed.virtualtime.packaged import ensure_packaged_kernel

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
LIMIT_S = 900


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    results = tmp_path_factory.mktemp("real")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.provereal", "--results", str(results)],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, UntrustedRunError.status), done.stdout + done.stderr
    return done.returncode, done.stdout, results / "latest"


@pytest.fixture(scope="module")
def summary(proof: tuple[int, str, Path]) -> dict[str, Any]:
    return read(proof[2] / "summary.json")


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_auto_takes_the_real_clock_there_and_says_why(proof, summary) -> None:
    _, printed, run_dir = proof
    assert summary["clock"] == "real"
    assert "clock    real, chosen by auto: this kernel has netem and openvswitch" in printed
    manifest = read(run_dir / "manifest.json")
    assert manifest["clock_reason"] == summary["clock_reason"]
    assert manifest["kernel"].endswith("(User Mode Linux)")


def test_the_verdict_stands_with_its_figures(proof, summary) -> None:
    status, printed, _ = proof
    assert f"verdict  {summary['verdict']}" in printed
    assert (status == 0) == (summary["verdict"] != "FAIL")
    assert (summary["reasons"] == []) == (summary["verdict"] == "PASS")
    assert summary["send_lateness"]["bursts"] > 0, summary["reasons"]
    assert "sends late p50/p99/max" in printed
    assert summary["rtt_max_error_us"] > 0  # real time is never exact
    if summary["send_lateness"]["p99_ms"] > 20:
        assert any("too slow for real time" in reason for reason in summary["reasons"])
    too_late = [t for t in summary["rounds"] if t["measured_ms"] and t["error_percent"] > 5]
    assert len([r for r in summary["reasons"] if "T measured" in r]) == len(too_late)


def test_no_sum_is_wrong_and_every_one_is_accounted_for(summary) -> None:
    assert summary["blocks_wrong"] == 0
    found = sum(summary[f"blocks_{what}"] for what in ("exact", "stale", "missing"))
    assert found == summary["blocks_expected"] > 0
    assert summary["packets_sent"] > 0
    lost = [reason for reason in summary["reasons"] if "datagrams lost" in reason]
    assert bool(lost) == (summary["packets_lost"] > 0)
    assert not any("place unknown" in reason for reason in lost)


def test_every_direction_was_shaped_and_read_back(proof) -> None:
    queues = read(proof[2] / "raw" / "network.json")["qdiscs"]
    assert {queue["kind"] for queue in queues} == {"netem"}
    assert sorted({queue["edge"] for queue in queues} - {None}) == [0, 1, 2, 3]
    assert all(queue["backlog"] == 0 for queue in queues)


def test_the_doctor_finds_the_real_clock_there_and_no_other() -> None:
    output = {"stdout": b"", "stderr": b""}

    def keep(stream: str, data: bytes) -> None:
        output[stream] += data

    outcome = run_in_guest(
        ["/usr/bin/python3", "-B", "-m", "testbed.doctor", "--format", "json"],
        boot=ensure_packaged_kernel().boot(),
        on_output=keep,
        memory_mb=512,
        cwd=ROOT,
        wall_limit_s=LIMIT_S,
    )
    told = json.loads(output["stdout"])
    assert told["auto"]["clock"] == "real"
    features = [check for check in told["checks"] if check["part"] == "kernel features"]
    assert [check["name"] for check in features if not check["ok"]] == []
    assert told["clocks"]["virtual"]["runs"] is False  # it cannot boot another one
    (why,) = (check for check in told["checks"] if check["name"] == "virtual machine")
    assert why["found"] == "this is User Mode Linux itself, which cannot run another one"
    assert outcome.status == (0 if told["runs"] else 5)

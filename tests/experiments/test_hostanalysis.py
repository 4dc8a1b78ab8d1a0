"""Made-up runs of collectives: what analysis makes of sound and of broken ones."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_fidelity import made_fidelity, write_fidelity

from agents.collective import ROLE
from agents.operands import chunk_layout
from agents.records import Kind, Recorder
from controller.plan import Plan
from experiments.analyse import analyse
from experiments.outcome import draw, work_out
from experiments.planning import plan_experiment
from experiments.results import create_run, set_state
from experiments.run import make_runtime
from experiments.sources import load_config
from testbed.errors import InputError
from testbed.shaping import shape_for

LATE_MS = 1.0
"""Every transfer is late by so much."""


def make_run(
    results: Path,
    *,
    release: str = "planned",
    payload: str = "179MB",
    chunks: int = 9,
    **broken: Any,
) -> Path:
    """Write the files of a run; ``broken`` says what one of its hosts, hkg, did wrong."""
    config = load_config(
        None, {"schedule": "ring", "payload": payload, "chunks": chunks, "release": release}
    )
    plan = plan_experiment(config)
    run_dir = create_run(results, config)
    plan.write(run_dir / "plan.json")
    make_runtime(config, plan, run_dir).write(run_dir / "runtime.json")
    late_ms = broken.get("late_ms", LATE_MS)
    for city, code in enumerate(plan.topology.codes):
        changes = broken if code == "hkg" else {}
        _write_host(run_dir / "raw", plan, city, late_ms, changes)
    sends = (step for steps in plan.collective.steps for step in steps if step.kind == "send")
    edges = [edge for step in sends for edge in plan.collective.paths[step.path].edges]
    network = network_record(plan, edges, broken.get("stray_bytes", 0))
    (run_dir / "raw" / "network.json").write_text(json.dumps(network))
    write_fidelity(run_dir / "raw", made_fidelity(plan))
    set_state(run_dir, "complete")
    return run_dir


def _write_host(raw: Path, plan: Plan, city: int, late_ms: float, changes: dict[str, Any]) -> None:
    hosts = plan.collective
    blocks = chunk_layout(hosts.chunk_bytes / plan.scale, 9000).blocks
    recorder = Recorder(raw / f"{ROLE}-{plan.topology.codes[city]}.bin")
    steps = list(hosts.steps[city])
    arrivals = [step for step in steps if step.kind != "send"]
    lost = arrivals[-1].transfer if changes.get("loses") else -1
    for step in steps:
        sends = step.kind == "send"
        at_ns = round(((step.start_ms if sends else step.end_ms) + late_ms) * 1e6)
        kind, src = (Kind.EMIT, city) if sends else (Kind.DATA_IN, hosts.paths[step.path].src)
        if step.transfer != lost or sends:
            recorder.add(at_ns, step.transfer, kind, src, 0, blocks, 0)
    recorder.close()
    last_ms = max(step.end_ms for step in arrivals) + late_ms
    counted = {
        "complete": lost < 0,
        "steps_left": 0 if lost < 0 else 1,
        "done_ns": round(last_ms * 1e6),
        "chunks": hosts.chunks,
        "chunks_exact": hosts.chunks - changes.get("wrong", 0),
        "datagrams_out": blocks * (len(steps) - len(arrivals)),
        "egress_bytes": 0,
        "drops": changes.get("drops", {}),
        "socket_overflow": 0,
        "udp": {},
    }
    (raw / f"{ROLE}-{plan.topology.codes[city]}.json").write_text(json.dumps(counted))


def network_record(plan: Plan, edges: Sequence[int], stray_bytes: int = 0) -> dict[str, Any]:
    """A sound network; each of the edges named has carried a chunk, as often as it is named."""
    carried = dict.fromkeys(range(len(plan.topology.edges)), 0.0)
    chunk_wire_bytes = chunk_layout(plan.collective.chunk_bytes / plan.scale, 9000).wire_bytes
    for edge in edges:
        carried[edge] += chunk_wire_bytes
    carried[0] += stray_bytes
    qdiscs = [
        {
            "node": f"switch-{edge.src}",
            "interface": f"{edge.src}-{plan.topology.out_port(edge.index)}",
            "edge": edge.index,
            "kind": "netem",
            "delay_ns": round(edge.delay_ms * 1e6),
            "rate_bps": round(edge.rate_gbps * 1e9 / plan.scale),
            "limit": shape_for(edge.delay_ms, edge.rate_gbps, plan.scale, 9000).limit_packets,
            "sent_bytes": round(carried[edge.index]),
            "sent_packets": 1,
            "drops": 0,
            "backlog": 0,
        }
        for edge in plan.topology.edges
    ]
    return {"network_up": {}, "qdiscs": qdiscs, "rounds": [], "start_ns": 1}


def test_a_sound_run_passes_with_its_figures(tmp_path: Path, capsys) -> None:
    run_dir = make_run(tmp_path)
    summary = work_out(run_dir)
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["t_measured_ms"] == pytest.approx(summary["t_planned_ms"] + LATE_MS, abs=1e-5)
    assert summary["sums_exact"] is True
    assert summary["chunks_expected"] == 81
    assert summary["packets_lost"] == 0
    assert summary["transfers"] == 16 * 9
    assert sum(link["bytes_planned"] for link in summary["links"]) > 15.9 * 179e6
    assert json.loads((run_dir / "summary.json").read_text()) == summary
    assert draw(run_dir) == [run_dir / "plots" / "transfers.png"]
    assert "PASS" in capsys.readouterr().out


def test_chunks_that_are_cut_to_whole_elements_load_links_as_planned(tmp_path: Path) -> None:
    summary = analyse(make_run(tmp_path, payload="60MB", chunks=72))
    assert summary["verdict"] == "PASS", summary["reasons"]


@pytest.mark.parametrize(
    ("broken", "verdict", "reason"),
    [
        ({"wrong": 2}, "FAIL", "2 of 81 chunk sums are wrong"),
        ({"loses": True}, "FAIL", "hkg: 1 steps were never done"),
        ({"drops": {"crc": 3}}, "DEGRADED", "host hkg: crc 3"),
        ({"late_ms": 50.0}, "FAIL", "allowed ±1 %"),
        ({"late_ms": 50.0, "release": "data"}, "DEGRADED", "allowed ±1 %"),
        ({"stray_bytes": 100_000}, "FAIL", "carried"),
    ],
)
def test_what_went_wrong_is_found(
    tmp_path: Path, broken: dict[str, Any], verdict: str, reason: str
) -> None:
    summary = analyse(make_run(tmp_path, **broken))
    assert summary["verdict"] == verdict
    assert any(reason in text for text in summary["reasons"]), summary["reasons"]


def test_a_run_that_did_not_finish_is_said_to_be_so(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    (run_dir / "raw" / f"{ROLE}-nyc.bin").unlink()
    with pytest.raises(InputError, match="cannot read the records"):
        analyse(run_dir)

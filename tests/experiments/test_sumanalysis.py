"""Made-up runs of sums in the network: what analysis makes of sound and of broken ones."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_fidelity import made_fidelity, write_fidelity
from test_hostanalysis import network_record

from agents.collective import ROLE
from agents.operands import chunk_layout
from agents.records import Kind, Recorder
from controller.hostplan import HostStep
from controller.plan import Plan
from experiments.analyse import analyse
from experiments.outcome import draw, work_out
from experiments.planning import plan_experiment
from experiments.results import create_run, set_state
from experiments.run import make_runtime
from experiments.sources import load_config
from testbed.errors import InputError

ISLANDS, AGGREGATORS = 9, 5
STREAMS = ISLANDS + (AGGREGATORS - 1) + ISLANDS


def make_run(results: Path, **broken: Any) -> Path:
    """Write the files of a run, in time; ``broken`` says what its aggregator tyo did wrong."""
    config = load_config(None, {"schedule": "in-network", "payload": "179MB"})
    plan = plan_experiment(config)
    run_dir = create_run(results, config)
    plan.write(run_dir / "plan.json")
    make_runtime(config, plan, run_dir).write(run_dir / "runtime.json")
    raw = run_dir / "raw"
    for city in range(ISLANDS):
        _write_island(raw, plan, city)
    for code in plan.aggregators:
        _write_aggregator(raw, plan, code, broken if code == "tyo" else {})
    down = {edge for path in plan.collective.paths if path.is_branch for edge in path.edges}
    up = [edge for path in plan.collective.paths if not path.is_branch for edge in path.edges]
    (raw / "network.json").write_text(json.dumps(network_record(plan, [*up, *down])))
    write_fidelity(raw, made_fidelity(plan))
    set_state(run_dir, "complete")
    return run_dir


def _blocks(plan: Plan) -> int:
    return chunk_layout(plan.collective.chunk_bytes / plan.scale, 9000).blocks


def _write_island(raw: Path, plan: Plan, city: int) -> None:
    hosts, blocks = plan.collective, _blocks(plan)
    send, receive = hosts.steps[city]
    stem = raw / f"{ROLE}-{plan.topology.codes[city]}"
    recorder = Recorder(stem.with_suffix(".bin"))
    recorder.add(round(send.start_ms * 1e6), 0, Kind.EMIT, city, 0, blocks, 0)
    recorder.add(round(receive.end_ms * 1e6), 0, Kind.AGGREGATE_IN, hosts.hub, 0, blocks, 0)
    recorder.close()
    counted = {
        "complete": True,
        "steps_left": 0,
        "done_ns": round(receive.end_ms * 1e6),
        "chunks": 1,
        "chunks_exact": 1,
        "datagrams_out": blocks,
        "egress_bytes": 1,
        "late_out_ns": 0,
        "drops": {},
        "socket_overflow": 0,
        "udp": {},
    }
    stem.with_suffix(".json").write_text(json.dumps(counted))


def _sent(plan: Plan, city: int) -> HostStep:
    hosts = plan.collective
    steps = (*hosts.relays, *(steps[1] for steps in hosts.steps))
    return next(step for step in steps if hosts.paths[step.path].src == city)


def _write_aggregator(raw: Path, plan: Plan, code: str, broken: dict[str, Any]) -> None:
    hosts, blocks, city = plan.collective, _blocks(plan), plan.topology.index(code)
    stem = raw / f"aggregator-{code}"
    recorder = Recorder(stem.with_suffix(".bin"))
    feeds = hosts.feeds(city)
    steps = (*(steps[0] for steps in hosts.steps), *hosts.relays)
    for step in (step for step in steps if hosts.paths[step.path] in feeds):
        src = hosts.paths[step.path].src
        recorder.add(round(step.end_ms * 1e6), 0, Kind.HELD, src, 0, blocks, 0)
    left_ns = round(_sent(plan, city).start_ms * 1e6)
    recorder.add(left_ns, 0, Kind.AGGREGATE_OUT, city, 0, blocks, 0)
    recorder.close()
    lost, partial = broken.get("loses", 0), broken.get("partial", 0)
    counted = {
        "rounds": [{"datagrams_in": len(feeds) * blocks - lost, "datagrams_out": blocks}],
        "emitted_blocks": {"complete": blocks - partial, "timeout": partial},
        "high_water_unscaled_bytes": 819200.0,
        "drops": broken.get("drops", {}),
        "socket_overflow": 0,
        "udp": {},
    }
    stem.with_suffix(".json").write_text(json.dumps(counted))


def test_a_sound_run_passes_with_its_figures(tmp_path: Path, capsys) -> None:
    run_dir = make_run(tmp_path)
    summary = work_out(run_dir)
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["t_measured_ms"] == pytest.approx(summary["t_planned_ms"], abs=1e-5)
    assert summary["sums_exact"] is True
    assert summary["hub"] == "lax"
    assert summary["aggregators"].keys() == {"nyc", "chi", "lax", "lon", "tyo"}
    assert summary["aggregators"]["tyo"]["contributors"] == ["tyo", "sin", "hkg"]
    assert summary["memory_high_water_bytes"] == 819200.0
    blocks = _blocks(plan_experiment(load_config(None, {"schedule": "ring", "payload": "179MB"})))
    assert summary["packets_lost"] == 0
    assert summary["packets_sent"] > STREAMS * blocks
    # No link carries more than one copy of the payload.
    assert max(load["bytes_planned"] for load in summary["links"]) == pytest.approx(179e6)
    streams = pd.read_parquet(run_dir / "events" / "transfers.parquet")
    assert len(streams) == summary["transfers"] == STREAMS
    assert not streams.isna().any().any()
    for end in ("start", "end"):
        late_ms = streams[f"{end}_ms"] - streams[f"planned_{end}_ms"]
        assert late_ms.abs().max() < 1e-5
    assert draw(run_dir) == [run_dir / "plots" / "transfers.png"]
    assert "5 aggregators" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("broken", "verdict", "reason"),
    [
        ({"partial": 3}, "FAIL", "tyo: 3 blocks left as partial sums"),
        ({"loses": 2}, "FAIL", "2 datagrams lost (place unknown)"),
        ({"loses": 2, "drops": {"crc": 2}}, "FAIL", "2 datagrams lost (aggregator tyo: crc 2)"),
        ({"drops": {"job": 1}}, "DEGRADED", "aggregator tyo: job 1"),
    ],
)
def test_what_went_wrong_is_found(
    tmp_path: Path, broken: dict[str, Any], verdict: str, reason: str
) -> None:
    summary = analyse(make_run(tmp_path, **broken))
    assert summary["verdict"] == verdict
    assert any(reason in text for text in summary["reasons"]), summary["reasons"]


@pytest.mark.parametrize("suffix", [".bin", ".json"])
def test_a_run_that_did_not_finish_is_said_to_be_so(tmp_path: Path, suffix: str) -> None:
    run_dir = make_run(tmp_path)
    (run_dir / "raw" / f"aggregator-lon{suffix}").unlink()
    with pytest.raises(InputError, match="aggregator-lon"):
        analyse(run_dir)

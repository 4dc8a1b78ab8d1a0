"""Hosts as processes, real datagrams over loopback: an all-reduce by plan."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_plans import CODES, make_plan
from agent_processes import LoopbackAddressing, Processes, context

from agents.bursts import Packer
from agents.collective import run_collective
from agents.operands import chunk_layout
from agents.records import Kind, read_events
from agents.sockets import BurstSender
from agents.wire import PacketType, datagram_bytes
from controller.collectives.choose import choose
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE, host_plan
from controller.collectives.task import make_task
from controller.plan import Plan
from experiments.results import read_json

_LEAD_NS = 1_200_000_000
CHUNKS = 6


def plan_of(algorithm: str, release: str) -> Plan:
    plan = make_plan(aggregation=False, scale=100, blocks=30, interval_ms=3000)
    network = cities(plan.topology)
    task = make_task(network, ALL_REDUCE, round(plan.payload_bytes))
    best = choose(network, task, "pipelined", algorithm=algorithm, chunks=CHUNKS).best
    hosts = host_plan(best.schedule, plan.topology, bound_us=1, bound="", release=release)
    return plan.model_copy(update={"collective": hosts})


def run_hosts(processes: Processes, plan: Plan, out_dir: Path, **options: Any) -> list[dict]:
    start_ns = time.monotonic_ns() + _LEAD_NS
    contexts = [context(plan, i, out_dir, start_ns, **options) for i in range(len(CODES))]
    pids = [processes.start(run_collective, ctx) for ctx in contexts]
    assert [processes.wait(pid) for pid in pids] == [0] * len(CODES)
    return [read_json(out_dir / f"collective-{code}.json") for code in CODES]


@pytest.mark.parametrize("algorithm", ["ring", "synthesised"])
@pytest.mark.parametrize("release", ["planned", "data"])
def test_every_host_gets_the_true_sum(
    processes: Processes, tmp_path: Path, algorithm: str, release: str
) -> None:
    plan = plan_of(algorithm, release)
    counters = run_hosts(processes, plan, tmp_path, burst_datagrams=1)
    layout = chunk_layout(plan.collective.chunk_bytes / plan.scale, 9000)
    for city, counted in enumerate(counters):
        assert counted["complete"]
        assert counted["steps_left"] == 0
        assert counted["chunks_exact"] == CHUNKS
        assert counted["drops"] == {}
        steps = plan.collective.steps[city]
        sends = {step.transfer: step for step in steps if step.kind == "send"}
        assert counted["datagrams_out"] == len(sends) * layout.blocks
        events = read_events(tmp_path / f"collective-{CODES[city]}.bin")
        sent = events[events["kind"] == Kind.EMIT]
        assert list(dict.fromkeys(sent["round"].tolist())) == list(sends)
        if release == "planned":
            early_ns = [e["t_ns"] - 1e6 * sends[int(e["round"])].start_ms for e in sent]
            assert min(early_ns) >= -1000


def test_what_is_not_expected_is_counted_and_left_out(processes: Processes, tmp_path: Path) -> None:
    plan = plan_of("ring", "data")
    addresses = LoopbackAddressing()
    start_ns = time.monotonic_ns() + _LEAD_NS
    contexts = [
        context(plan, i, tmp_path, start_ns, addresses=addresses) for i in range(len(CODES))
    ]
    pids = [processes.start(run_collective, ctx) for ctx in contexts]
    layout = chunk_layout(plan.collective.chunk_bytes / plan.scale, 9000)
    packer = Packer(
        1, layout.elements, kind=PacketType.DATA, job_id=contexts[0].job_id, epoch=0, src=2
    )
    packer.payload[:] = np.ones_like(packer.payload)
    packer.address(round_index=9999, clique=0, bitmap=4)
    stranger = BurstSender(datagram_bytes(layout.elements), None)
    time.sleep((start_ns - time.monotonic_ns()) / 2e9)
    stranger.send(packer.seal(1, 0, 0, 0, layout.elements), addresses.island(0))
    stranger.close()
    assert [processes.wait(pid) for pid in pids] == [0] * len(CODES)
    counted = read_json(tmp_path / f"collective-{CODES[0]}.json")
    assert counted["drops"] == {"transfer": 1}
    assert counted["chunks_exact"] == CHUNKS


def test_a_host_whose_peers_are_missing_ends_and_says_what_is_left(
    processes: Processes, tmp_path: Path
) -> None:
    plan = plan_of("ring", "data").model_copy(update={"round_interval_ms": 50.0})
    ctx = context(plan, 0, tmp_path, time.monotonic_ns(), timeout_ms=10.0)
    assert processes.wait(processes.start(run_collective, ctx)) == 0
    counted = read_json(tmp_path / f"collective-{CODES[0]}.json")
    assert not counted["complete"]
    assert counted["steps_left"] > 0
    assert counted["chunks_exact"] == 0
    assert counted["done_ns"] is None

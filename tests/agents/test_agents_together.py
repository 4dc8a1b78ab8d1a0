"""Islands and aggregators as processes, real datagrams over loopback."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_plans import CODES, make_plan
from agent_processes import Processes, run_all

from agents.averaging import Replay, start_tables
from agents.records import Kind, read_events
from agents.state import read_states
from agents.weights import table_shape
from agents.wire import stream_layout

BLOCKS = 10.5


def check_round(counters: dict[str, Any], senders: int, copies: int, blocks: int = 11) -> None:
    assert counters["expected_blocks"] == counters["exact_blocks"] == blocks
    assert counters["wrong_blocks"] == counters["incomplete_blocks"] == 0
    assert counters["missing_blocks"] == counters["missing_contributions"] == 0
    assert counters["expected_contributions"] == senders * blocks
    assert counters["datagrams_out"] == copies * blocks


@pytest.mark.parametrize("mtu_bytes", [9000, 1500])
def test_with_aggregation_one_stream_comes_in_and_every_sum_is_exact(
    processes: Processes, tmp_path: Path, mtu_bytes: int
) -> None:
    plan = make_plan(blocks=BLOCKS, rounds=3, interval_ms=200, rate_gbps=0.1)
    counters = run_all(processes, plan, tmp_path, mtu_bytes=mtu_bytes, jitter_us=5)
    layout = stream_layout(plan.payload_bytes, mtu_bytes)
    for code in CODES:
        island, aggregator = counters[f"island-{code}"], counters[f"aggregator-{code}"]
        assert island["complete"]
        assert not island["drops"]
        assert not aggregator["drops"]
        assert island["socket_overflow"] == aggregator["socket_overflow"] == 0
        assert aggregator["emitted_blocks"] == {"complete": 3 * layout.blocks}
        for k in range(3):
            mine, edge = island["rounds"][k], aggregator["rounds"][k]
            check_round(mine, 2, 2, layout.blocks)
            assert mine["datagrams_in"] == layout.blocks
            assert mine["ingress_bytes"] == edge["bytes_out"] == layout.wire_bytes
            assert mine["egress_bytes"] == edge["bytes_in"] == 2 * layout.wire_bytes
            assert edge["missing_contributions"] == 0
            assert edge["complete_blocks"] == layout.blocks


def test_without_aggregation_every_stream_comes_in(processes: Processes, tmp_path: Path) -> None:
    plan = make_plan(blocks=BLOCKS, rounds=2, interval_ms=200, rate_gbps=0.1, aggregation=False)
    counters = run_all(processes, plan, tmp_path)
    assert set(counters) == {f"island-{code}" for code in CODES}
    for code in CODES:
        for k in range(2):
            mine = counters[f"island-{code}"]["rounds"][k]
            check_round(mine, 2, 2)
            assert mine["datagrams_in"] == 22
            assert mine["ingress_bytes"] == mine["egress_bytes"]


@pytest.mark.parametrize("aggregation", [True, False])
def test_the_islands_average_what_they_receive(
    processes: Processes, tmp_path: Path, aggregation: bool
) -> None:
    plan = make_plan(
        blocks=BLOCKS, rounds=3, interval_ms=200, rate_gbps=0.1, aggregation=aggregation
    )
    counters = run_all(processes, plan, tmp_path)
    shape = table_shape(stream_layout(plan.payload_bytes, 9000))
    replay = Replay(plan, 0, start_tables(1, len(CODES), shape))
    states = [read_states(tmp_path / f"island-{code}.state", shape, 3) for code in CODES]
    for k in range(4):
        for mine, true in zip(states, replay.tables, strict=True):
            np.testing.assert_array_equal(mine[k], true.ravel())
        replay.step()
    assert (states[0][0] != states[1][0]).any()
    np.testing.assert_array_equal(states[0][1], states[1][1])
    for code in CODES:
        assert [r["stale_rows"] for r in counters[f"island-{code}"]["rounds"]] == [0, 0, 0]


def test_records_tell_every_block_once(processes: Processes, tmp_path: Path) -> None:
    plan = make_plan(blocks=BLOCKS, rate_gbps=0.1, offsets_ms=(5, 0, 0))
    run_all(processes, plan, tmp_path)
    events = read_events(tmp_path / "island-nyc.bin")
    assert (np.diff(events["t_ns"]) >= 0).all()
    emitted = events[events["kind"] == Kind.EMIT]
    assert emitted["t_ns"][0] >= 5_000_000
    assert emitted["count"].sum() == 22
    assert emitted["value"].sum() == 2 * stream_layout(plan.payload_bytes, 9000).wire_bytes
    got = events[events["kind"] == Kind.AGGREGATE_IN]
    blocks = np.concatenate([np.arange(e["block"], e["block"] + e["count"]) for e in got])
    assert sorted(blocks) == list(range(11))
    assert (got["exact"] == 1).all()
    assert (got["value"] == 0b110).all()
    edge = read_events(tmp_path / "aggregator-nyc.bin")
    assert edge[edge["kind"] == Kind.HELD]["count"].sum() == 22
    assert set(edge[edge["kind"] == Kind.HELD]["src"]) == {1, 2}
    assert edge[edge["kind"] == Kind.AGGREGATE_OUT]["count"].sum() == 11


def test_a_memory_that_is_too_small_gives_partial_sums_that_add_up(
    processes: Processes, tmp_path: Path
) -> None:
    # nyc starts when the others have sent all; their edges hold one burst of each stream
    plan = make_plan(blocks=60, memory_bytes=0, rate_gbps=0.2, offsets_ms=(40, 0, 0))
    counters = run_all(processes, plan, tmp_path, fifo_datagrams=4)
    for code in ("lon", "tyo"):
        edge, mine = counters[f"aggregator-{code}"], counters[f"island-{code}"]["rounds"][0]
        assert edge["slots"] == edge["high_water_slots"] == 8
        assert edge["high_water_bytes"] == 8 * 8192
        assert edge["emitted_blocks"]["collision"] >= 52
        assert mine["exact_blocks"] == 60
        assert mine["partial_datagrams"] >= 2 * 52
        assert mine["datagrams_in"] == sum(edge["emitted_blocks"].values())


def test_a_silent_sender_ends_in_counters_not_in_a_hang(
    processes: Processes, tmp_path: Path
) -> None:
    plan = make_plan(blocks=BLOCKS, rate_gbps=1.0, interval_ms=50)
    # tyo's stream is planned, but its first burst is due only after the deadline
    late = plan.period[0].streams[2].model_copy(update={"offset_ms": 60_000.0})
    period = plan.period[0].model_copy(update={"streams": (*plan.period[0].streams[:2], late)})
    plan = plan.model_copy(update={"period": (period,)})
    counters = run_all(processes, plan, tmp_path, timeout_ms=30.0)
    island = counters["island-nyc"]
    assert not island["complete"]
    (mine,) = island["rounds"]
    assert mine["exact_blocks"] == mine["missing_blocks"] == 0
    assert mine["incomplete_blocks"] == mine["missing_contributions"] == 11
    edge = counters["aggregator-nyc"]
    assert edge["emitted_blocks"] == {"timeout": 11}
    assert mine["stale_rows"] == 10
    assert counters["island-tyo"]["rounds"][0]["stale_rows"] == 0
    assert edge["rounds"][0]["missing_contributions"] == 11
    assert counters["island-tyo"]["rounds"][0]["exact_blocks"] == 11
    assert counters["island-tyo"]["rounds"][0]["datagrams_out"] == 0

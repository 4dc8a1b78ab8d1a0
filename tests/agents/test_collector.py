"""What an island makes of the sums that come: exact, wrong, or of somebody's older state."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_plans import make_plan
from agent_processes import LoopbackAddressing

from agents.averaging import Replay, start_tables
from agents.bursts import Packer
from agents.collector import Collector
from agents.context import AgentContext
from agents.records import Recorder
from agents.sockets import BurstSender
from agents.state import State
from agents.weights import Weights
from agents.wire import Flag, PacketType, datagram_bytes

OTHERS = 0b110


class Bench:
    """City 0's island and its aggregator's datagrams."""

    def __init__(self, folder: Path, dtype: Any, first_round: int = 0) -> None:
        self.ctx = ctx = AgentContext(
            plan=make_plan(blocks=40, rounds=2),
            city=0,
            start_ns=time.monotonic_ns(),
            out_dir=folder,
            dtype=dtype,
            addresses=LoopbackAddressing(),
        )
        self.weights = weights = Weights(1, ctx.layout, ctx.element_type)
        self.starts = start_tables(1, 3, weights.shape, ctx.element_type)
        self.file = (folder / "state").open("wb")
        state = State(self.starts[0], 1, ctx.expectations, weights, self.file)
        replay, self.recorder = Replay(ctx.plan, 0, self.starts), Recorder()
        self.collector = Collector(ctx, weights, state, replay, 1, self.recorder, first_round)
        self.collector.open_round(0)
        size = datagram_bytes(ctx.layout.elements)
        self.sender = BurstSender(size, None)
        self.packer = Packer(
            1,
            ctx.layout.elements,
            kind=PacketType.AGG,
            job_id=ctx.job_id,
            epoch=1,
            src=0,
            dtype=ctx.element_type,
        )
        self.sent = 0

    def arrive(self, block: int, *, error: int = 0, flags: int = 0, exponent: int = 0) -> None:
        """The sum of the others' block arrives, off by an error in one element."""
        total = self.starts[1] + self.starts[2]
        self.packer.address(round_index=0, clique=0, bitmap=OTHERS, cause=1)
        self.weights.fill(0, OTHERS, total, block, self.packer.payload)
        self.packer.payload[0, 5] += error
        exponents = self.weights.exponents(block, 1) + exponent
        self.packer.mark(np.array([flags]), exponents)
        elements = self.ctx.layout.elements_of(block)
        burst = self.packer.seal(1, block, self.sent, 0, elements)
        self.sender.send(burst, self.collector.socket.address)
        self.sent += 1
        assert self.collector.socket.wait(10**9)
        self.collector.receive(time.monotonic_ns())

    def found(self) -> tuple[int, int, int]:
        """Sums that are exact, stale, wrong."""
        counters = self.collector.counters(0)
        return tuple(counters[f"{what}_blocks"] for what in ("exact", "stale", "wrong"))

    def close(self) -> None:
        self.collector.close()
        self.sender.close()
        self.file.close()


@pytest.fixture(params=["i32", "i32-exponent", "f32"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, request.param)
    yield made
    made.close()


def test_an_error_of_one_in_one_element_is_a_wrong_sum(bench: Bench) -> None:
    bench.arrive(0)
    bench.arrive(1, error=1)
    bench.arrive(2, error=-1)
    assert bench.found() == (1, 0, 2)
    assert bench.recorder.array()["exact"].tolist() == [1, 0, 0]


def test_a_sum_with_an_older_state_in_it_is_not_wrong(bench: Bench) -> None:
    bench.arrive(0, error=9, flags=Flag.STALE)
    bench.arrive(1, flags=Flag.STALE)
    bench.arrive(2)
    assert bench.found() == (2, 1, 0)
    assert bench.recorder.array()["exact"].tolist() == [2, 1, 1]


def test_another_exponent_is_a_wrong_sum(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "i32-exponent")
    bench.arrive(0)
    bench.arrive(1, exponent=1)
    assert bench.found() == (1, 0, 1)
    bench.close()


def test_a_round_of_an_earlier_life_is_neither_taken_nor_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "i32", first_round=1)
    bench.arrive(0)
    assert bench.found() == (0, 0, 0)
    assert bench.collector.drops() == {"round": 1}
    assert len(bench.recorder.array()) == 0
    bench.close()

"""What an island sends again when another one asks for blocks."""

import socket
from collections import Counter, deque
from collections.abc import Iterator
from io import BufferedWriter, BytesIO
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from agent_plans import make_plan
from agent_processes import LoopbackAddressing

from agents.averaging import start_tables
from agents.bursts import Run, parse, runs
from agents.context import AgentContext
from agents.ownstream import OwnStream
from agents.records import Kind, Recorder
from agents.recovery.control import REPAIR, Control, decode
from agents.recovery.gaps import NEVER_NS
from agents.repairsource import MAX_WAITING, RepairSource
from agents.sockets import ControlSocket
from agents.state import State
from agents.weights import Weights
from agents.wire import PacketType

NYC, LON, TYO = 0, 1, 2
BLOCKS = 500
MS = 1_000_000


class Bench:
    """Nyc's answers; this process is lon's island."""

    def __init__(self) -> None:
        plan = make_plan(blocks=BLOCKS, rounds=4, scale=100)  # an access link of 1 Gbit/s
        addresses = LoopbackAddressing()
        self.ctx = AgentContext(
            plan=plan,
            city=NYC,
            start_ns=0,
            out_dir=Path(),
            resend_ms=10,
            repair=True,
            addresses=addresses,
        )
        self.weights = Weights(1, self.ctx.layout)
        self._file = cast(BufferedWriter, BytesIO())
        start = start_tables(1, 3, self.weights.shape)[NYC]
        ctx = self.ctx
        self.state = State(start, 1 << NYC, ctx.expectations, self.weights, self._file)
        self.refusals: deque[bytes] = deque()
        self.recorder = Recorder()
        self.island = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.island.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.island.bind(addresses.island(LON))
        self.island.setblocking(False)
        stream = OwnStream(ctx, self.weights, self.state, 5)
        self.source = RepairSource(
            ctx, stream, self.state, 5, cast(ControlSocket, self), self.recorder
        )

    def send(self, datagram: bytes, _to: object) -> None:
        """`ControlSocket.send`."""
        self.refusals.append(datagram)

    def ask(self, *ranges: tuple[int, int], src: int = LON, round_index: int = 0) -> None:
        message = Control(PacketType.NACK, src, 9, round_index, 0, REPAIR, ranges)
        self.source.hear(message, 0)

    def received(self) -> list[Run]:
        """Everything that has come to lon."""
        got: list[Run] = []
        while True:
            try:
                data = bytearray(self.island.recv(65536))
            except BlockingIOError:
                return got
            rejects: Counter[str] = Counter()
            (batch,) = parse(
                np.frombuffer(data, np.uint8),
                len(data),
                len(data),
                kind=PacketType.DATA,
                job_id=self.ctx.job_id,
                rejects=rejects,
            )
            got += runs(batch)

    def close(self) -> None:
        self.source.close()
        self.island.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_blocks_are_made_anew_as_they_were_sent(bench: Bench) -> None:
    bench.ask((3, 2), (499, 5))
    assert bench.source.due_ns == 0
    bench.source.poll(0)
    got = bench.received()
    assert [run.block for run in got] == [3, 4, 499]
    for run in got:
        truth = np.zeros((1, 2048), np.int32)
        bench.weights.fill(0, 1 << NYC, bench.state.table(0), run.block, truth)
        np.testing.assert_array_equal(run.values, truth)
        assert (run.round, run.src, run.bitmap, run.epoch) == (0, NYC, 1 << NYC, 5)
    assert bench.source.due_ns == NEVER_NS
    events = bench.recorder.array()
    assert (events["kind"] == Kind.REPAIR).all()
    assert (events["count"].sum(), set(events["value"])) == (3, {LON})


def test_a_round_that_is_gone_is_refused(bench: Bench) -> None:
    bench.state.table(3)
    bench.ask((3, 2), round_index=1)
    bench.source.poll(0)
    assert bench.received() == []
    rejects: Counter[str] = Counter()
    refusal = decode(bench.refusals[0], bench.ctx.job_id, rejects)
    assert refusal is not None
    assert (refusal.kind, refusal.round, refusal.src) == (PacketType.UNAVAILABLE, 1, NYC)
    assert refusal.flags == REPAIR
    assert len(bench.refusals) == 1
    bench.ask((3, 2), round_index=2)
    bench.source.poll(0)
    assert len(bench.received()) == 2


def test_a_round_that_has_not_begun_is_neither_sent_nor_refused(bench: Bench) -> None:
    bench.ask((3, 2), round_index=1)
    bench.source.poll(0)
    assert bench.received() == []
    assert not bench.refusals
    assert bench.source.counters()["repair_limited_blocks"] == 2


@pytest.mark.parametrize(
    ("src", "round_index", "block", "reason"),
    [(NYC, 0, 0, "source"), (99, 0, 0, "source"), (LON, 4, 0, "source"), (LON, 0, 500, "block")],
)
def test_what_does_not_belong_here_is_counted(
    bench: Bench, src: int, round_index: int, block: int, reason: str
) -> None:
    bench.ask((block, 1), src=src, round_index=round_index)
    bench.source.poll(10**12)
    assert bench.source.drops == {reason: 1}
    assert bench.received() == []


def test_the_rate_is_limited_and_what_waits_is_bounded(bench: Bench) -> None:
    allowed = round(0.25 * 1e9 / 8 / 8290 * 0.02)
    for block in range(BLOCKS):
        for count in (1, 2, 3):
            bench.ask((block, count))
            bench.ask((block, count))  # waits already
    assert bench.source.counters()["repair_limited_blocks"] >= 2 * (3 * BLOCKS - 3 - MAX_WAITING)
    bench.source.poll(0)
    assert bench.source.counters()["repair_sent_blocks"] == allowed == 75
    due_ns = bench.source.due_ns
    assert 0 < due_ns <= 8290 * 8 * 4 + 10
    bench.source.poll(due_ns)
    assert bench.source.counters()["repair_sent_blocks"] == allowed + 1

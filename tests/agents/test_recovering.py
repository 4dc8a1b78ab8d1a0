"""What is lost on the way, and what in the own socket."""

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from agent_plans import make_plan
from agent_processes import LoopbackAddressing

from agents.bursts import Packer, parse
from agents.context import AgentContext
from agents.records import Recorder
from agents.recovering import Recovery
from agents.recovery.control import REPAIR, Control, encode
from agents.sockets import BurstReceiver, BurstSender
from agents.state import State
from agents.weights import Weights
from agents.wire import PacketType, datagram_bytes

ELEMENTS = 352
MS = 1_000_000


class Bench:
    """Nyc's recovery behind a real socket with little room; this process is the aggregator."""

    def __init__(self, out_dir: Path, **options: bool) -> None:
        plan = make_plan(blocks=500)
        self.ctx = ctx = AgentContext(
            plan=plan,
            city=0,
            start_ns=0,
            out_dir=out_dir,
            mtu_bytes=1500,
            resend_ms=10,
            addresses=LoopbackAddressing(),
            **options,
        )
        weights = Weights(1, ctx.layout)
        self._file = (out_dir / "state").open("wb")
        start = np.zeros(weights.shape, np.int32)
        state = State(start, 1, ctx.expectations, weights, self._file)
        self.recovery = Recovery(
            ctx, weights, state, 1, lambda _: np.zeros(ctx.layout.blocks, np.uint64), Recorder()
        )
        self.receiver = BurstReceiver(("127.9.9.2", 0), interface=None, idle_ns=MS)
        self.receiver._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        self._sender = BurstSender(datagram_bytes(ELEMENTS), None)
        self._packer = Packer(7, ELEMENTS, kind=PacketType.AGG, job_id=ctx.job_id, epoch=1, src=0)
        self._packer.address(round_index=0, clique=0, bitmap=0b110)

    def send(self, first: int, count: int) -> None:
        for seq in range(first, first + count, 7):
            self._sender.send(self._packer.seal(7, seq, seq, 0, ELEMENTS), self.receiver.address)

    def take(self) -> int:
        """Receive what is there; how many datagrams were fresh."""
        fresh = 0
        rejects: Counter[str] = Counter()
        while (got := self.receiver.receive(rejects)) is not None:
            kind, job_id = PacketType.AGG, self.ctx.job_id
            batches = parse(self.receiver.buffer, *got, kind=kind, job_id=job_id, rejects=rejects)
            for batch in self.recovery.fresh(batches, self.receiver.overflow, 0):
                fresh += len(batch.headers)
        assert not rejects
        return fresh

    def close(self) -> None:
        self.recovery.close()
        self.receiver.close()
        self._sender.close()
        self._file.close()


@pytest.fixture(params=[False, True], ids=["", "repair"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, repair=request.param)
    yield made
    made.close()


def test_a_full_socket_is_told_apart_from_loss_on_the_way(bench: Bench) -> None:
    bench.send(0, 70)
    bench.send(77, 70)  # 70 to 76 got lost on the way
    fresh = bench.take()
    assert bench.recovery.counters()["noticed_datagrams"] == 7
    assert bench.recovery.counters()["overflowed_datagrams"] == 0
    bench.send(147, 7000)
    fresh += bench.take()
    bench.send(7147, 7)
    fresh += bench.take()
    counters = bench.recovery.counters()
    assert bench.receiver.overflow > 0
    assert counters["overflowed_datagrams"] == counters["noticed_datagrams"] - 7 > 0
    assert fresh == 7154 - counters["noticed_datagrams"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Control(PacketType.NACK, 0, 1, ranges=((0, 1),)), "type"),
        (Control(PacketType.HEARTBEAT, 1, 1, ranges=((5, 2),)), "source"),
        (Control(PacketType.HEARTBEAT, 0, 1, flags=REPAIR, ranges=((5, 2),)), "type"),
    ],
)
def test_what_no_island_is_told_is_counted(bench: Bench, message: Control, reason: str) -> None:
    bench.recovery.hear(encode(message, bench.ctx.job_id), 0)
    bench.recovery.hear(b"noise", 0)
    assert bench.recovery.drops() == {reason: 1, "short": 1}


def test_blocks_of_senders_are_taken_only_with_repair(bench: Bench) -> None:
    expected = PacketType.DATA if bench.ctx.repair else PacketType.AGG
    assert bench.recovery.kind_of(PacketType.DATA) is expected
    assert bench.recovery.kind_of(PacketType.AGG) is PacketType.AGG
    assert bench.recovery.kind_of(200) is PacketType.AGG
    assert bench.recovery.kind_of(PacketType.NACK) is None
    nack = Control(PacketType.NACK, 1, 1, flags=REPAIR, ranges=((0, 1),))
    bench.recovery.hear(encode(nack, bench.ctx.job_id), 5)
    assert bench.recovery.drops() == ({} if bench.ctx.repair else {"type": 1})
    assert (bench.recovery.serves_until_ns > 0) == bench.ctx.repair

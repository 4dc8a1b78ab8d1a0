"""One aggregator process with recovery on; this process plays its senders and its island."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_plans import make_plan
from agent_processes import Processes, context
from test_daemon import LON, NYC, TYO, Bench

from agents.aggregator.daemon import Aggregator
from agents.bursts import Run, parse, runs
from agents.context import AgentContext
from agents.recovery.control import Control, decode, encode
from agents.sockets import BurstReceiver, ControlSocket
from agents.wire import PacketType


class RecoveringBench(Bench):
    """The island's side too asks and hears."""

    def __init__(self, processes: Processes, out_dir: Path, **options: Any) -> None:
        super().__init__(processes, out_dir, timeout_ms=10_000.0, **options)
        self.epoch = -1

    def next(self) -> Run | Control:
        """The next sum or control datagram."""
        data = self._island.recv(65536)
        rejects: Counter[str] = Counter()
        if data[3] != PacketType.AGG:
            message = decode(data, self.ctx.job_id, rejects)
            assert message is not None, rejects
            return message
        buffer, job_id = np.frombuffer(bytearray(data), np.uint8), self.ctx.job_id
        (batch,) = parse(
            buffer, len(data), len(data), kind=PacketType.AGG, job_id=job_id, rejects=rejects
        )
        (run,) = runs(batch)
        self.epoch = run.epoch
        return run

    def until(self, kind: PacketType) -> Control:
        """The next control datagram of a kind."""
        while True:
            message = self.next()
            if isinstance(message, Control) and message.kind is kind:
                return message

    def sum(self) -> Run:
        """The next sum; heartbeats are passed over."""
        while True:
            message = self.next()
            if isinstance(message, Run):
                return message

    def complete(self, *blocks: int) -> None:
        for block in blocks:
            self.send(LON, block)
            self.send(TYO, block)

    def terminate(self) -> None:
        os.kill(self._pid, signal.SIGTERM)

    def ask(self, *ranges: tuple[int, int], **changes: Any) -> None:
        nack = Control(PacketType.NACK, NYC, self.epoch, ranges=ranges)._replace(**changes)
        self.ask_raw(encode(nack, self.ctx.job_id))

    def ask_raw(self, datagram: bytes) -> None:
        self._sender.sendto(datagram, self.ctx.addresses.control(NYC))


@pytest.fixture
def bench(processes: Processes, tmp_path: Path) -> Iterator[RecoveringBench]:
    made = RecoveringBench(processes, tmp_path, resend_ms=50.0)
    yield made
    made.close()


def test_what_is_asked_for_comes_again_bit_by_bit(bench: RecoveringBench) -> None:
    bench.complete(3, 4, 5)
    first = [bench.sum() for _ in range(3)]
    bench.ask((1, 2), (0, 1))
    again = [bench.sum() for _ in range(3)]
    assert [run.seq for run in again] == [0, 1, 2]
    for run in again:
        np.testing.assert_array_equal(run.values, first[run.seq].values)
        assert run._replace(values=None) == first[run.seq]._replace(values=None)  # type: ignore[arg-type]
    counters = bench.stop()
    assert counters["recovery"]["resend_datagrams"] == 3
    assert counters["rounds"][0]["datagrams_out"] == 3, "a resend is not output"


def test_heartbeats_tell_where_the_stream_stands(bench: RecoveringBench) -> None:
    bench.complete(0, 1)
    message = bench.until(PacketType.HEARTBEAT)
    while message.ranges != ((2, 0),):  # from before the last sum
        message = bench.until(PacketType.HEARTBEAT)
    assert message.round == 0


def test_a_complete_round_is_told_at_once_and_only_once(bench: RecoveringBench) -> None:
    bench.complete(*range(20))
    message = bench.until(PacketType.END_ROUND)
    assert (message.round, message.ranges) == (0, ((20, 0),))
    assert bench.until(PacketType.HEARTBEAT).round == 1
    bench.stop()


def test_the_ring_takes_its_share_of_the_memory(bench: RecoveringBench) -> None:
    counters = bench.stop()
    share = 50e-3 * 100e9 / 8
    assert counters["recovery"]["ring_datagrams"] == share // 8248
    assert counters["slots"] == (1e9 - share + 12 * 2 * 8192) // 8192


def test_garbage_is_counted_and_not_answered(bench: RecoveringBench) -> None:
    bench.complete(0)
    bench.sum()
    good = encode(Control(PacketType.NACK, NYC, bench.epoch, ranges=((0, 1),)), bench.ctx.job_id)
    for bad in (b"", good[:30], good[:-1], good[:-1] + b"\xff", good + bytes(4), bytes(3000)):
        bench.ask_raw(bad)
    bench.ask((0, 1), src=LON)
    bench.ask((0, 1), epoch=bench.epoch - 1)
    bench.ask((0, 0))
    bench.ask((0, 1), kind=PacketType.UNAVAILABLE)
    bench.ask((0, 1))
    assert bench.sum().seq == 0
    counters = bench.stop()
    assert counters["drops"] == {
        "short": 2,
        "length": 2,
        "crc": 1,
        "magic": 1,
        "source": 1,
        "epoch": 1,
        "range": 1,
        "type": 1,
    }
    assert counters["recovery"]["resend_datagrams"] == 1


def test_sigterm_flushes_tells_and_still_answers(bench: RecoveringBench) -> None:
    bench.send(LON, 8)
    bench.complete(9)
    assert bench.sum().block == 9
    bench.terminate()
    run = bench.sum()
    assert run.block == 8
    assert bench.until(PacketType.END_ROUND).ranges == ((2, 0),)
    bench.ask((1, 1))
    assert bench.sum().block == 8
    counters = bench.end()
    assert counters["emitted_blocks"] == {"complete": 1, "flush": 1}
    assert counters["recovery"]["resend_datagrams"] == 1


def test_a_change_of_rounds_amid_the_last_answers_does_not_make_it_spin(
    processes: Processes, tmp_path: Path
) -> None:
    plan = make_plan(interval_ms=60, rounds=20)
    ctx = context(plan, NYC, tmp_path, time.monotonic_ns(), resend_ms=50.0)

    def main(ctx: AgentContext) -> int:
        waits = []
        wait = BurstReceiver.wait

        def counted(self: BurstReceiver, timeout_ns: int, *others: ControlSocket) -> Any:
            waits.append(timeout_ns)
            return wait(self, timeout_ns, *others)

        BurstReceiver.wait = counted  # type: ignore[method-assign]
        aggregator = Aggregator(ctx)
        os.kill(os.getpid(), signal.SIGTERM)
        aggregator.run()
        (tmp_path / "waits").write_text(str(len(waits)))
        return 0

    assert processes.wait(processes.start(main, ctx)) == 0
    assert int((tmp_path / "waits").read_text()) < 200  # a tenth of a second: a wait per heartbeat

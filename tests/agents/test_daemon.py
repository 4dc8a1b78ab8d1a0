"""One aggregator process or one island process against hand-made datagrams."""

import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_plans import make_plan
from agent_processes import LoopbackAddressing, Processes, context

from agents.aggregator.daemon import run_aggregator
from agents.aggregator.status import LOG_SUFFIX, SOCKET_SUFFIX, status_file
from agents.aggregator.statusclient import read_status
from agents.averaging import start_tables
from agents.bursts import Packer, Run, parse, runs
from agents.context import AgentContext
from agents.island import run_island
from agents.weights import Weights, contributors
from agents.wire import Cause, Elements, PacketType, StreamLayout, datagram_bytes

NYC, LON, TYO = 0, 1, 2


class Contents:
    """What the islands send in round 0."""

    def __init__(self, blocks: int) -> None:
        self._weights = Weights(1, StreamLayout(blocks, 2048, 2048))
        self._tables = start_tables(1, 3, self._weights.shape)

    def fill(self, bitmap: int, block: int, out: Elements) -> None:
        table = sum(self._tables[i] for i in contributors(bitmap))
        self._weights.fill(0, bitmap, table, block, out)


class Bench:
    """Nyc's aggregator under test; this process plays the senders and nyc's island."""

    def __init__(self, processes: Processes, out_dir: Path, **options: Any) -> None:
        plan = make_plan(blocks=20, interval_ms=20_000, rounds=2)
        start_ns = time.monotonic_ns()
        self.ctx: AgentContext = context(plan, NYC, out_dir, start_ns, **options)
        self._processes = processes
        self._island = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._island.bind(self.ctx.addresses.island(NYC))
        self._island.settimeout(5)
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._contents = Contents(21)  # one block more than the run has
        self._pid = processes.start(run_aggregator, self.ctx)
        self._wait_until_bound()

    def _wait_until_bound(self) -> None:
        ip, port = self.ctx.addresses.aggregator(NYC)
        own = f"{int.from_bytes(socket.inet_aton(ip), 'little'):08X}:{port:04X}"
        end = time.monotonic() + 10
        while own not in Path("/proc/net/udp").read_text():
            assert time.monotonic() < end, "the aggregator did not open its socket"
            time.sleep(0.01)

    def datagram(self, src: int, block: int, **changes: Any) -> bytes:
        fields = {
            "job_id": self.ctx.job_id,
            "round_index": 0,
            "clique": 0,
            "bitmap": 1 << src,
            "kind": PacketType.DATA,
            "epoch": 1,
            **changes,
        }
        fixed = {name: fields[name] for name in ("kind", "job_id", "epoch")}
        packer = Packer(1, 2048, src=src, **fixed)
        self._contents.fill(1 << src, min(block, 20), packer.payload)
        packer.address(
            round_index=fields["round_index"], clique=fields["clique"], bitmap=fields["bitmap"]
        )
        return bytes(packer.seal(1, block, 0, 0, 2048))

    def send(self, src: int, block: int, **changes: Any) -> None:
        self.send_raw(self.datagram(src, block, **changes))

    def send_raw(self, data: bytes) -> None:
        self._sender.sendto(data, self.ctx.addresses.aggregator(NYC))

    def receive(self) -> Run:
        rejects: Counter[str] = Counter()
        data = bytearray(self._island.recv(65536))
        buffer = np.frombuffer(data, np.uint8)
        job_id = self.ctx.job_id
        (batch,) = parse(
            buffer, len(data), len(data), kind=PacketType.AGG, job_id=job_id, rejects=rejects
        )
        (run,) = runs(batch)
        return run

    def truth(self, bitmap: int, block: int) -> np.ndarray:
        out = np.zeros((1, 2048), np.int32)
        self._contents.fill(bitmap, block, out)
        return out

    def stop(self) -> dict[str, Any]:
        os.kill(self._pid, signal.SIGTERM)
        return self.end()

    def end(self) -> dict[str, Any]:
        assert self._processes.wait(self._pid) == 0
        return json.loads((self.ctx.out_dir / "aggregator-nyc.json").read_text())

    def close(self) -> None:
        self._island.close()
        self._sender.close()


@pytest.fixture(params=[10_000.0])
def bench(request: pytest.FixtureRequest, processes: Processes, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(processes, tmp_path, timeout_ms=request.param, status_socket=True)
    yield made
    made.close()


def test_sums_carry_their_contributors_and_a_running_number(bench: Bench) -> None:
    for number, block in enumerate((3, 7)):
        bench.send(LON, block)
        bench.send(TYO, block)
        run = bench.receive()
        assert (run.block, run.bitmap, run.cause) == (block, 0b110, Cause.COMPLETE)
        assert (run.round, run.src, run.seq) == (0, NYC, number)
        np.testing.assert_array_equal(run.values, bench.truth(0b110, block))


def test_what_is_not_for_this_aggregator_is_counted_and_never_added(bench: Bench) -> None:
    good = bench.datagram(LON, 0)
    bench.send_raw(good[:30])
    bench.send_raw(b"")
    bench.send_raw(good[:-1])
    bench.send_raw(good[:-4] + b"\x00\x01\x02\x03")
    bench.send(LON, 0, job_id=bench.ctx.job_id ^ 1)
    bench.send(LON, 0, kind=PacketType.AGG)
    bench.send(LON, 0, round_index=1)  # opens half an interval after round 0's start
    bench.send(LON, 0, round_index=99)
    bench.send(LON, 0, clique=1)
    bench.send(LON, 0, bitmap=0b110)
    bench.send(NYC, 0)  # the own contribution does not come through here
    bench.send(LON, 20)
    bench.send(LON, 2**40)
    bench.send(LON, 0)
    bench.send(LON, 0)
    bench.send(TYO, 0)
    run = bench.receive()
    np.testing.assert_array_equal(run.values, bench.truth(0b110, 0))
    counters = bench.stop()
    assert counters["drops"] == {
        "short": 2,
        "length": 1,
        "crc": 1,
        "job": 1,
        "type": 1,
        "round": 2,
        "clique": 1,
        "contributor": 2,
        "block": 2,
        "duplicate": 1,
    }
    assert counters["emitted_blocks"] == {"complete": 1}


@pytest.mark.parametrize("bench", [50.0], indirect=True)
def test_a_timeout_fires_without_traffic(bench: Bench) -> None:
    sent = time.monotonic()
    bench.send(LON, 5)
    run = bench.receive()
    assert time.monotonic() - sent >= 0.05
    assert (run.block, run.bitmap, run.cause) == (5, 0b010, Cause.TIMEOUT)
    np.testing.assert_array_equal(run.values, bench.truth(0b010, 5))
    bench.send(TYO, 5)
    run = bench.receive()
    assert (run.block, run.bitmap, run.cause) == (5, 0b100, Cause.COMPLETE)
    counters = bench.stop()
    assert counters["emitted_blocks"] == {"timeout": 1, "complete": 1}
    assert counters["late_blocks"] == 1


def test_sigterm_flushes_what_is_held(bench: Bench) -> None:
    bench.send(LON, 8)
    bench.send(TYO, 9)
    bench.send(LON, 9)
    assert bench.receive().block == 9
    counters = bench.stop()
    run = bench.receive()
    assert (run.block, run.bitmap, run.cause) == (8, 0b010, Cause.FLUSH)
    assert counters["emitted_blocks"] == {"complete": 1, "flush": 1}
    assert counters["high_water_slots"] == 2
    assert counters["rounds"][0]["contributions"] == 3


def test_its_status_says_who_is_missing(bench: Bench) -> None:
    socket_path = status_file(bench.ctx.out_dir, "nyc", SOCKET_SUFFIX)
    for block in (4, 6, 9):
        bench.send(LON, block)
    bench.send(TYO, 9)
    assert bench.receive().block == 9
    status = read_status(socket_path)
    assert status.memory.occupied_slots == 2
    assert status.rounds[0].contributions == {"lon": 3, "tyo": 1}
    assert status.rounds[0].gaps == {"lon": 7, "tyo": 9}
    assert (status.rounds[0].complete_blocks, status.rounds[0].expected_blocks) == (1, 20)
    assert status.oldest is not None
    assert (status.oldest.block, status.oldest.missing) == (4, ("tyo",))
    assert status.oldest.age_ms <= status.time_ms
    bench.send(TYO, 4)
    assert bench.receive().block == 4
    status = read_status(socket_path)
    assert status.oldest is not None
    assert status.oldest.block == 6
    bench.stop()
    assert not socket_path.exists()
    last = read_status(status_file(bench.ctx.out_dir, "nyc", LOG_SUFFIX))
    assert last.emitted_blocks == {"complete": 2, "flush": 1}
    assert last.memory.occupied_slots == 0


def test_an_earlier_process_of_a_sender_is_refused(bench: Bench) -> None:
    bench.send(LON, 0)
    bench.send(LON, 1, epoch=9)  # restarted: its contributions count once all the same
    bench.send(LON, 0, epoch=9)
    bench.send(LON, 2)
    bench.send(TYO, 0)
    bench.send(TYO, 1)
    for block in (0, 1):
        run = bench.receive()
        assert (run.block, run.bitmap) == (block, 0b110)
        np.testing.assert_array_equal(run.values, bench.truth(0b110, block))
    counters = bench.stop()
    assert counters["drops"] == {"duplicate": 1, "epoch": 1}


def test_a_wrong_sum_is_found_by_the_island(processes: Processes, tmp_path: Path) -> None:
    plan = make_plan(blocks=2, interval_ms=100, rate_gbps=1.0)
    ctx = context(plan, NYC, tmp_path, time.monotonic_ns() + 100_000_000)
    pid = processes.start(run_island, ctx)
    packer = Packer(2, 2048, kind=PacketType.AGG, job_id=ctx.job_id, epoch=1, src=NYC)
    Contents(2).fill(0b110, 0, packer.payload)
    packer.payload[1, 77] += 1
    packer.address(round_index=0, clique=0, bitmap=0b110, cause=Cause.COMPLETE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        datagrams = bytes(packer.seal(2, 0, 0, 0, 2048))
        size = datagram_bytes(2048)
        time.sleep(0.15)
        for part in (datagrams[:size], datagrams[size:]):
            sock.sendto(part, ctx.addresses.island(NYC))
    assert processes.wait(pid) == 0
    counters = json.loads((tmp_path / "island-nyc.json").read_text())
    assert counters["complete"]
    assert counters["rounds"][0]["exact_blocks"] == 1
    assert counters["rounds"][0]["wrong_blocks"] == 1


def test_an_agent_that_cannot_start_says_why_and_exits_1(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ctx = context(make_plan(), NYC, tmp_path, time.monotonic_ns())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(LoopbackAddressing().island(NYC))
        assert processes.wait(processes.start(run_island, ctx)) == 1
    assert capfd.readouterr().err.splitlines() == ["island nyc: [Errno 98] Address already in use"]

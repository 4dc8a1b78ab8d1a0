"""Buffers from a real socket to either engine, and sums to another one, over loopback."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from agents.aggregator.engine import Engine, EngineSettings
from agents.aggregator.engines import make_engine
from agents.aggregator.intake import Came, make_intake, serving_sockets
from agents.aggregator.native import NativeEngine
from agents.aggregator.output import AggregateStream
from agents.aggregator.ring import ResendRing
from agents.bursts import Packer
from agents.names import EngineName
from agents.records import Recorder
from agents.sockets import BurstReceiver, BurstSender
from agents.wire import HEADER_DTYPE, PacketType, StreamLayout, datagram_bytes, wire_bytes

LAYOUT = StreamLayout(blocks=40, elements=80, last_elements=7)
IDLE_NS = 20_000_000


@dataclass
class Bench:
    """An aggregator's inner parts, with sockets of the test at both ends."""

    kind: EngineName
    burst: int = 5
    sent: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.island = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.island.bind(("127.0.0.1", 0))
        self.island.settimeout(0.05)
        self.receiver = BurstReceiver(("127.0.0.1", 0), interface=None, idle_ns=IDLE_NS)
        self.sender = BurstSender(datagram_bytes(LAYOUT.elements), None)
        ring = ResendRing(12, datagram_bytes(LAYOUT.elements))
        self.output = AggregateStream(ring, self.island.getsockname(), self.burst)
        self.rejects: Counter[str] = Counter()
        self.start_ns = time.monotonic_ns()
        settings = EngineSettings(
            city=3,
            job_id=7,
            epoch=1,
            start_ns=self.start_ns,
            layout=LAYOUT,
            slots=64,
            burst_datagrams=self.burst,
            timeout_ns=1 << 62,
        )
        self.engine: Engine = make_engine(self.kind, settings, ring, self.output.send, Recorder())
        self.engine.open_round(0, 0, 0b11)
        self.intake = make_intake(self.engine, self.receiver, self.output, self.rejects)

    def send(self, source: int, block: int, count: int) -> None:
        packer = Packer(count, LAYOUT.elements, kind=PacketType.DATA, job_id=7, epoch=1, src=source)
        packer.payload[:] = np.arange(count)[:, None] + 1000 * source + block
        packer.address(round_index=0, clique=0, bitmap=1 << source)
        last = LAYOUT.elements_of(block + count - 1)
        self.sender.send(packer.seal(count, block, 0, 0, last), self.receiver.address)

    def run(self, until_ns: int) -> Came:
        """As the daemon does."""
        got = self.intake(until_ns)
        for buffer, length, segment in got:
            self.engine.take(buffer, length, segment, time.monotonic_ns())
        self.output.send()
        return got

    def arrived(self) -> list[bytes]:
        try:
            while True:
                self.sent.append(self.island.recv(1 << 16))
        except TimeoutError:
            return self.sent

    def close(self) -> None:
        for closing in (self.island, self.receiver, self.sender, self.output):
            closing.close()


@pytest.fixture(params=["native", "reference"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def test_sums_reach_the_island_and_are_counted(bench: Bench) -> None:
    for block in range(0, 40, 4):
        for source in (0, 1):
            bench.send(source, block, 4)
    while bench.run(time.monotonic_ns() + 10**9):
        pass
    datagrams = bench.arrived()
    headers = np.array([np.frombuffer(d[:56], HEADER_DTYPE)[0] for d in datagrams])
    assert headers["weight_id"].tolist() == list(range(40))
    assert headers["seq"].tolist() == list(range(40))
    for block, datagram in enumerate(datagrams):
        assert set(np.frombuffer(datagram[56:], "<i4").tolist()) == {1000 + 2 * block}
    expected = 39 * wire_bytes(80) + wire_bytes(7)
    assert bench.output.datagrams == {0: 40}
    assert bench.output.wire_bytes == {0: expected}
    assert bench.engine.progress(0) == (80, 40, 80, 2 * expected)


def test_nothing_is_imported_amid_a_run() -> None:
    program = """
import sys, time, test_intake
bench = test_intake.Bench("reference")
before = set(sys.modules)
for source in (0, 1):
    bench.send(source, 0, 4)
    bench.run(time.monotonic_ns() + 10**9)
assert bench.output.datagrams == {0: 4}
print(*sorted(set(sys.modules) - before))
"""
    paths = {"PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[2]}"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=paths, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


def test_what_comes_when_the_time_is_over_is_left_to_the_caller(bench: Bench) -> None:
    bench.send(0, 0, 4)
    bench.send(0, 4, 3)
    came = []
    while len(came) < 2:  # together, or one after the other
        for buffer, *sizes in bench.intake(0):
            came.append(sizes)
            assert bench.engine.occupied == 4 * (len(came) - 1)
            bench.engine.take(buffer, *sizes, time.monotonic_ns())
    assert came == [[count * datagram_bytes(80), datagram_bytes(80)] for count in (4, 3)]
    assert bench.engine.occupied == 7


def test_it_comes_back_when_nothing_comes(bench: Bench) -> None:
    begin_ns = time.monotonic_ns()
    assert not bench.intake(begin_ns + 10**12)
    assert time.monotonic_ns() - begin_ns >= 0.9 * IDLE_NS


def test_a_send_that_fails_is_told() -> None:
    bench = Bench("native")
    try:
        bench.output.to = ("255.255.255.255", 9)  # not allowed without SO_BROADCAST
        bench.intake = make_intake(bench.engine, bench.receiver, bench.output, bench.rejects)
        for source in (0, 1):
            bench.send(source, 0, 4)
        with pytest.raises(OSError, match="cannot receive or send: Permission denied"):
            bench.run(time.monotonic_ns() + 10**9)
    finally:
        bench.close()


def test_a_signal_while_the_network_is_slow_ends_nothing() -> None:
    bench = Bench("native")
    listener = socket.create_server(("127.0.0.1", 0))
    full = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    timer = threading.Timer(0.3, drain, [far])
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        full.setblocking(False)
        with suppress(BlockingIOError):  # unlike UDP, it is full as long as nobody reads
            while True:
                full.send(bytes(1 << 16))
        full.setblocking(True)
        sockets = serving_sockets(bench.receiver, full, ("127.0.0.1", 1), 5)
        for source in (0, 1):
            bench.send(source, 0, 4)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        timer.start()
        assert isinstance(bench.engine, NativeEngine)
        bench.engine.serve(sockets, time.monotonic_ns() + 10**7)
        assert bench.engine.take_sent() == [(0, 4, 4 * wire_bytes(80))]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        for closing in (full, listener):
            closing.close()
        timer.join()
        far.close()
        bench.close()


def drain(sock: socket.socket) -> None:
    while sock.recv(1 << 20):
        pass

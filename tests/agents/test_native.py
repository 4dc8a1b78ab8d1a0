"""The engine in C against the reference: the same bytes, counters and events, whatever comes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.aggregator.engine import Engine, EngineSettings, ReferenceEngine
from agents.aggregator.native import NativeEngine
from agents.aggregator.ring import ResendRing
from agents.bursts import Packer
from agents.native.layout import LIVE_ROUNDS, VECTOR_BYTES, Kernel
from agents.records import Recorder
from agents.wire import (
    HEADER_BYTES,
    HEADER_DTYPE,
    DType,
    PacketType,
    StreamLayout,
    datagram_bytes,
)
from testbed.errors import InputError

BLOCKS = 30
FEW, MANY = (10, 3), (131, 131)
"""Elements of a block and of the last: too few for the kernel's fast way, and enough."""
SENDERS = 5
MASKS = {0: 0b01111, 1: 0b11111, 2: 0b00001, 0xFFFFFFFF: 0b10101}
CLIQUE = 3
Make = Callable[..., Engine]


def run_settings(shape: tuple[int, int] = FEW, **changes: Any) -> EngineSettings:
    dtype = changes.get("dtype", DType.I32)
    plain = EngineSettings(
        city=9,
        job_id=77,
        epoch=1234,
        start_ns=1_000_000,
        layout=StreamLayout(BLOCKS, *shape, dtype.element_bytes),
        slots=12,
        burst_datagrams=4,
        timeout_ns=50_000,
    )
    return replace(plain, **changes)


def row_bytes(layout: StreamLayout) -> int:
    return datagram_bytes(layout.elements, layout.element_bytes)


@dataclass
class Bench:
    """An engine with everything that it sent."""

    engine: Engine
    ring: ResendRing
    recorder: Recorder
    sent: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, make: Make, own: EngineSettings, ring_rows: int) -> "Bench":
        ring = ResendRing(ring_rows, row_bytes(own.layout))
        recorder = Recorder()
        bench = cls(make(own, ring, lambda: bench.send(), recorder), ring, recorder)
        for index, mask in MASKS.items():
            bench.engine.open_round(index, CLIQUE, mask)
        return bench

    def send(self) -> None:
        ring = self.ring
        self.sent += [bytes(ring.view(seq, 1)) for seq in range(ring.sent_seq, ring.next_seq)]
        ring.sent_seq = ring.next_seq

    def take(self, buffer: bytes, segment: int, now_ns: int) -> None:
        copy = np.frombuffer(buffer, np.uint8).copy()
        self.engine.take(copy, len(copy), segment, now_ns)
        self.engine.expire(now_ns)
        self.send()

    def close(self, now_ns: int) -> None:
        for index in MASKS:
            self.engine.close_round(index, now_ns)
            self.send()


class Traffic:
    """Random buffers: mostly what senders send, some of it garbled or out of place."""

    def __init__(self, seed: int, own: EngineSettings) -> None:
        self._random = np.random.default_rng(seed)
        self._layout = own.layout
        self._dtype = own.dtype
        self._sums = own.takes_sums

    def pick(self, *choices: Any) -> Any:
        return choices[self._random.integers(len(choices))]

    def buffer(self) -> tuple[bytes, int]:
        """Bytes of one receive buffer, and the size of its datagrams."""
        bursts = [self._burst() for _ in range(self.pick(1, 1, 2, 3))]
        data = bytearray(b"".join(bursts))
        if self._random.random() < 0.2:
            data[self._random.integers(len(data))] ^= 1 << self._random.integers(8)
        if self._random.random() < 0.05:
            del data[self._random.integers(len(data)) :]
        size = row_bytes(self._layout)
        segment = size if self._random.random() < 0.97 else int(self._random.integers(1, 200))
        return bytes(data), segment

    def _burst(self) -> bytes:
        random, pick = self._random, self.pick
        block = int(random.integers(BLOCKS))
        count = int(random.integers(1, min(6, BLOCKS - block + 1) + 1))
        rare = random.random() < 0.08
        source = int(random.integers(SENDERS + 1)) if rare else int(random.integers(SENDERS))
        is_sum = self._sums and random.random() < 0.4
        several = is_sum or (rare and pick(0, 1))
        packer = Packer(
            count,
            self._layout.elements,
            kind=pick(*PacketType) if rare else PacketType.AGG if is_sum else PacketType.DATA,
            job_id=pick(77, 78) if rare else 77,
            epoch=pick(0xFFFFFFF0, 5, 6) if rare else 5,
            src=source,
            dtype=self._dtype,
        )
        packer.payload[:] = self._values(packer.payload.shape)
        packer.address(
            round_index=pick(3, *MASKS) if rare else pick(*MASKS),
            clique=pick(CLIQUE, 4) if rare else CLIQUE,
            bitmap=int(random.integers(not rare, 64)) if several else 1 << source,
            flags=pick(0, 0, 0, 1, 2, 129),
            exponent=pick(0, 0, 1, -3, 40, 32767, -32768),
        )
        ends = block + count >= BLOCKS and random.random() < 0.9
        last = self._layout.last_elements if ends else self._layout.elements
        return bytes(packer.seal(count, block, int(random.integers(1 << 32)), 0, last))

    def _values(self, shape: tuple[int, ...]) -> np.ndarray:
        random = self._random
        if self._dtype in (DType.I32, DType.I32_EXPONENT):
            bits = int(random.integers(4, 33))
            return random.integers(-(1 << bits - 1), 1 << bits - 1, shape, np.int32)
        scale = 10.0 ** int(random.integers(-44, 38))
        values = (random.standard_normal(shape) * scale).astype(np.float32)
        if random.random() < 0.15:
            values[random.random(shape) < 0.05] = self.pick(np.nan, np.inf, -np.inf, -0.0)
        if self._dtype is DType.BF16:
            return (values.view(np.uint32) >> 16).astype(np.uint16)
        if random.random() < 0.1:  # any bits at all
            return random.integers(0, 1 << 32, shape, np.uint32).view(np.float32)
        return values


def compare(
    own: EngineSettings, seed: int, steps: int, ring_rows: int, make: Make = NativeEngine
) -> Bench:
    """Let both engines take the same; check that nothing tells them apart."""
    native = Bench.of(make, own, ring_rows)
    reference = Bench.of(ReferenceEngine, own, ring_rows)
    traffic, now_ns = Traffic(seed, own), own.start_ns
    for _ in range(steps):
        now_ns += traffic.pick(0, 1, 900, 7000, 30_000)
        buffer, segment = traffic.buffer()
        for bench in (native, reference):
            bench.take(buffer, segment, now_ns)
        assert native.engine.occupied == reference.engine.occupied
        assert native.engine.oldest() == reference.engine.oldest()
        assert native.engine.next_timeout_ns >= reference.engine.next_timeout_ns
    for index in MASKS:
        assert native.engine.progress(index) == reference.engine.progress(index)
    for bench in (native, reference):
        bench.close(now_ns)
    assert native.sent == reference.sent
    assert native.engine.counters == reference.engine.counters
    assert native.engine.high_water == reference.engine.high_water
    assert native.engine.occupied == reference.engine.occupied == 0
    assert native.recorder.array().tolist() == reference.recorder.array().tolist()
    assert native.ring.sizes.tolist() == reference.ring.sizes.tolist()
    assert native.ring.sent_ns.tolist() == reference.ring.sent_ns.tolist()
    return native


TABLES = st.fixed_dictionaries(
    {
        "slots": st.integers(4, 40),
        "ways": st.sampled_from([1, 2, 4]),
        "hashing": st.sampled_from(["mod", "mix"]),
        "collision": st.sampled_from(["evict-old", "forward-new", "priority"]),
        "memory_model": st.sampled_from(["accumulate", "hold"]),
        "dtype": st.sampled_from(list(DType)),
        "burst_datagrams": st.integers(1, 7),
        "timeout_ns": st.sampled_from([1, 50_000, 400_000, 1 << 62]),
        "takes_sums": st.booleans(),
    }
)


@settings(deadline=None, max_examples=150)
@given(TABLES, st.sampled_from([FEW, MANY]), st.integers(0, 2**32), st.integers(8, 70))
def test_both_engines_do_the_same(
    table: dict[str, Any], shape: tuple[int, int], seed: int, ring_rows: int
) -> None:
    compare(run_settings(shape, **table), seed, 60, ring_rows)


@settings(deadline=None, max_examples=100)
@given(
    TABLES,
    st.sampled_from([(64, 64), (95, 95), (131, 7), (352, 352)]),
    st.sampled_from([*VECTOR_BYTES, None]),
    st.integers(0, 2**32),
)
def test_both_engines_do_the_same_in_the_fast_way(
    table: dict[str, Any], shape: tuple[int, int], vector: int | None, seed: int
) -> None:
    table |= {"dtype": DType.I32, "memory_model": "accumulate"}
    make = partial(NativeEngine, vectors=() if vector is None else (vector,))
    compare(run_settings(shape, **table), seed, 60, 16, make)


@settings(deadline=None, max_examples=50)
@given(TABLES, st.integers(0, 2**32))
def test_both_engines_do_the_same_in_order(table: dict[str, Any], seed: int) -> None:
    compare(run_settings(**table | {"memory_model": "hold", "ordered": True}), seed, 60, 16)


def test_a_long_trace_sees_every_reason_and_cause() -> None:
    own = run_settings(slots=16, ways=2, timeout_ns=300_000)
    counters = compare(own, 1, 3000, 64).engine.counters
    expected = {"short", "magic", "version", "type", "dtype", "job", "length", "crc"}
    expected |= {"epoch", "round", "block", "clique", "contributor", "duplicate"}
    assert set(counters.drops) == expected
    assert {"complete", "timeout", "collision"} <= set(counters.emitted)
    assert counters.late > 0
    assert counters.saturated > 0


def one_block(kind: PacketType, source: int, bitmap: int, value: int) -> bytes:
    packer = Packer(1, FEW[0], kind=kind, job_id=77, epoch=1, src=source)
    packer.address(round_index=0, clique=CLIQUE, bitmap=bitmap)
    packer.payload[:] = value
    return bytes(packer.seal(1, 0, 0, 0, FEW[0]))


@pytest.mark.parametrize("make", [NativeEngine, ReferenceEngine])
def test_sums_of_other_aggregators_are_added_only_where_they_are_taken(make: Make) -> None:
    size = row_bytes(run_settings().layout)
    for takes_sums in (True, False):
        bench = Bench.of(make, run_settings(takes_sums=takes_sums), 8)
        bench.take(one_block(PacketType.DATA, 0, 0b0001, 5), size, 1)
        bench.take(one_block(PacketType.AGG, 2, 0b1110, 70), size, 2)
        if not takes_sums:
            assert bench.sent == []
            assert bench.engine.counters.drops == {"type": 1}
            continue
        (sent,) = bench.sent
        header = np.frombuffer(sent, HEADER_DTYPE, 1)[0]
        assert (header["bitmap"], header["src"], header["type"]) == (MASKS[0], 9, PacketType.AGG)
        assert set(np.frombuffer(sent, np.int32, offset=HEADER_BYTES).tolist()) == {75}
        bench.take(one_block(PacketType.AGG, 3, 0b0011, 1), size, 3)
        bench.take(one_block(PacketType.AGG, 4, 0b110000, 1), size, 4)
        bench.take(one_block(PacketType.AGG, 4, 0, 1), size, 5)
        assert bench.engine.counters.drops == {"duplicate": 1, "contributor": 2}


def test_many_events_and_sums_in_one_call() -> None:
    """More than a chunk of events, and more sums than the ring has rows, from one close."""
    blocks = 5000
    own = run_settings(layout=StreamLayout(blocks, 1, 1), slots=blocks)
    for make in (NativeEngine, ReferenceEngine):
        ring, recorder = ResendRing(8, datagram_bytes(1)), Recorder()
        sent = []

        def send(ring: ResendRing = ring, sent: list[int] = sent) -> None:
            sent += range(ring.sent_seq, ring.next_seq)
            ring.sent_seq = ring.next_seq

        engine: Engine = make(own, ring, send, recorder)
        engine.open_round(0, CLIQUE, 3)
        packer = Packer(500, 1, kind=PacketType.DATA, job_id=77, epoch=1, src=0)
        packer.address(round_index=0, clique=CLIQUE, bitmap=1)
        for block in range(0, blocks, 1000):
            for first in (block + 500, block):  # no two runs follow each other
                data = np.frombuffer(packer.seal(500, first, 0, 0, 1), np.uint8).copy()
                engine.take(data, len(data), datagram_bytes(1), 1)
        engine.close_round(0, 2)
        send()
        assert sent == list(range(blocks))
        assert recorder.array()["count"].tolist() == [500] * 10 + [blocks]


def test_what_sending_raises_comes_out_of_the_call() -> None:
    def fail() -> None:
        raise OSError("no route")

    own = run_settings(burst_datagrams=2)
    engine = NativeEngine(own, ResendRing(8, row_bytes(own.layout)), fail, Recorder())
    engine.open_round(0, CLIQUE, 1)
    packer = Packer(5, FEW[0], kind=PacketType.DATA, job_id=77, epoch=1, src=0)
    packer.address(round_index=0, clique=CLIQUE, bitmap=1)
    data = np.frombuffer(packer.seal(5, 0, 0, 0, FEW[0]), np.uint8)
    with pytest.raises(OSError, match="no route"):
        engine.take(data, len(data), row_bytes(own.layout), 1)


def test_refusals() -> None:
    ring = ResendRing(8, row_bytes(run_settings().layout))

    def make(**changes: Any) -> NativeEngine:
        return NativeEngine(run_settings(**changes), ring, lambda: None, Recorder())

    with pytest.raises(InputError, match="ways = no set"):
        make(slots=3, ways=4)
    with pytest.raises(InputError, match="hold"):
        make(ordered=True)
    engine = make()
    for index in range(LIVE_ROUNDS):
        engine.open_round(index, CLIQUE, 1)
    with pytest.raises(ValueError, match="open already"):
        engine.open_round(LIVE_ROUNDS, CLIQUE, 1)
    with pytest.raises(ValueError, match="not in a buffer"):
        engine.take(np.zeros(10, np.uint8), 11, 1, 0)


@given(st.binary(max_size=300), st.integers(0, 7))
def test_an_empty_or_random_buffer_is_counted_and_no_more(data: bytes, segment: int) -> None:
    benches = [Bench.of(make, run_settings(), 8) for make in (NativeEngine, ReferenceEngine)]
    for bench in benches:
        bench.take(data, segment or max(1, len(data)), 5)
    native, reference = benches
    assert native.engine.counters == reference.engine.counters
    assert native.sent == []


@pytest.mark.parametrize("name", ["crc32c", "crc32c_by_table"])
def test_checksums(name: str) -> None:
    function = getattr(Kernel(), name)
    data = np.random.default_rng(1).integers(0, 256, 9000, np.uint8)
    for length in (*range(700), 1344, 1345, 1408, 2048, 8191, 8844, 8990):
        part = data[length % 8 : length % 8 + length]
        assert function(0, part.ctypes.data, length) == crc32c(part.tobytes())
    half = function(0, data.ctypes.data, 4500)
    assert function(half, data.ctypes.data + 4500, 4500) == crc32c(data.tobytes())

"""What holds of the table whatever comes: any order, loss and duplication, every setting."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_player import play
from traces import Trace

from agents.aggregator.table import Emission, Table
from agents.wire import DType, StreamLayout

SENDERS = 4
LAYOUT = StreamLayout(blocks=12, elements=3, last_elements=2)
MASK = (1 << SENDERS) - 1

Step = tuple[str, int, int, int, int]

dtypes = st.sampled_from(list(DType))
options = st.fixed_dictionaries(
    {
        "slots": st.integers(4, 16),
        "ways": st.sampled_from([1, 2, 4]),
        "hashing": st.sampled_from(["mod", "mix"]),
        "collision": st.sampled_from(["evict-old", "forward-new", "priority"]),
        "timeout_ns": st.sampled_from([5, 30, 1 << 62]),
        "memory_model": st.sampled_from(["accumulate", "hold"]),
        "vectorised": st.booleans(),
    }
)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Bursts in any order, duplicates too, time-outs, rounds: what, round, sender, block, count."""
    made: list[Step] = []
    for _ in range(draw(st.integers(1, 60))):
        if draw(st.integers(0, 5)) == 0:
            made.append(("expire", 0, 0, 0, 0))
            continue
        block = draw(st.integers(0, 11))
        count = 1 if block == 11 else draw(st.integers(1, min(7, 11 - block)))
        sender = draw(st.integers(0, SENDERS - 1))
        made.append(("add", draw(st.integers(0, 1)), sender, block, count))
    return made


def elements(dtype: DType, round_index: int, sender: int, block: int) -> tuple[np.ndarray, int]:
    """A contribution as on the wire, and its exponent; sums of all stay in every range."""
    generator = np.random.default_rng([round_index, sender, block])
    count = LAYOUT.elements_of(block)
    if dtype in (DType.I32, DType.I32_EXPONENT):
        exponent = int(generator.integers(-2, 3)) if dtype is DType.I32_EXPONENT else 0
        return generator.integers(-(2**29), 2**29, count, np.int32), exponent
    values = generator.normal(0, 1000, count).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if dtype is DType.BF16 else values, 0


def exact(dtype: DType, values: np.ndarray, exponent: int) -> np.ndarray:
    """Elements as float64, which holds every one of them exactly."""
    if dtype is DType.BF16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64) * 2.0**exponent


class Bench:
    """A table, what was given to it, and what it made of that."""

    def __init__(self, dtype: DType, options: dict[str, Any]) -> None:
        self.dtype = dtype
        options = dict(options)
        self.slots = options.pop("slots")
        self.timeout_ns = options["timeout_ns"]
        self.table = Table(self.slots, LAYOUT, self._take, dtype=dtype, **options)
        for round_index in (0, 1):
            self.table.open_round(round_index, MASK)
        self.came: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        self.left: dict[tuple[int, int], int] = defaultdict(int)
        self.sums: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
        self.raw: list[tuple[int, int, bytes, int]] = []

    def _take(self, emission: Emission) -> None:
        for i, row in enumerate(emission.values):
            key = emission.round, emission.block + i
            assert emission.bitmap, "a sum of nobody"
            assert self.left[key] & emission.bitmap == 0, "two sums of a block share a contributor"
            self.left[key] |= emission.bitmap
            self.sums[key].append(exact(self.dtype, row, emission.exponent))
            self.raw.append((key[1], emission.bitmap, row.tobytes(), emission.exponent))

    def play(self, steps: list[Step]) -> None:
        for now_ns, (what, round_index, sender, block, count) in enumerate(steps):
            if what == "expire":
                self.table.expire(now_ns)
                self._nothing_is_overdue(now_ns)
            for b in range(block, block + count):
                self.came[round_index, b].setdefault(sender, now_ns)
            if what == "add" and self.dtype is DType.I32_EXPONENT:
                for b in range(block, block + count):  # exponents differ from block to block
                    self._add(round_index, sender, b, 1, now_ns)
            elif what == "add":
                self._add(round_index, sender, block, count, now_ns)
            assert self.table.occupied <= self.table.high_water <= self.slots
        self.table.drain()
        assert self.table.occupied == 0

    def _add(self, round_index: int, sender: int, block: int, count: int, now_ns: int) -> None:
        made = [elements(self.dtype, round_index, sender, b) for b in range(block, block + count)]
        values = np.stack([row for row, _ in made])
        self.table.add(round_index, 1 << sender, block, values, now_ns, exponent=made[0][1])

    def _nothing_is_overdue(self, now_ns: int) -> None:
        assert self.table.next_timeout_ns > now_ns
        for key, arrivals in self.came.items():
            for sender, t in arrivals.items():
                if t + self.timeout_ns <= now_ns:
                    assert self.left[key] >> sender & 1, "a slot outlived its time-out"

    def tolerance(self, key: tuple[int, int]) -> np.ndarray:
        """How far the sum of the sums of a block may be from the truth."""
        made = [elements(self.dtype, *key[:1], s, key[1]) for s in self.came[key]]
        sizes = sum(abs(exact(self.dtype, *one)) for one in made)
        if self.dtype is DType.I32:
            return 0 * sizes
        if self.dtype is DType.I32_EXPONENT:  # half a unit for each side of each addition
            return 0 * sizes + SENDERS * 2.0 ** max(exponent for _, exponent in made)
        return sizes * SENDERS * 2.0 ** (-8 if self.dtype is DType.BF16 else -24)


@settings(max_examples=300, deadline=None)
@given(steps(), dtypes, options)
def test_nothing_is_lost_or_counted_twice(
    steps: list[Step], dtype: DType, options: dict[str, Any]
) -> None:
    bench = Bench(dtype, options)
    bench.play(steps)
    assert bench.left == {k: sum(1 << s for s in v) for k, v in bench.came.items()}
    for key, arrivals in bench.came.items():
        total = sum(exact(dtype, *elements(dtype, *key[:1], s, key[1])) for s in arrivals)
        assert (abs(sum(bench.sums[key]) - total) <= bench.tolerance(key)).all()
    drops = bench.table.counters.drops
    given_blocks = sum(count for what, _, _, _, count in steps if what == "add")
    taken = sum(map(len, bench.came.values()))
    assert given_blocks == taken + drops["duplicate"]
    assert set(drops) <= {"duplicate"}


@settings(max_examples=100, deadline=None)
@given(st.data(), dtypes, options)
def test_ordered_results_are_the_same_in_any_order(
    data: st.DataObject, dtype: DType, options: dict[str, Any]
) -> None:
    options |= {"memory_model": "hold", "ordered": True}
    arrivals = [("add", 0, s, b, 1) for s in range(SENDERS) for b in range(12)]
    results = []
    for _ in range(2):
        bench = Bench(dtype, options)
        bench.play(data.draw(st.permutations(arrivals)))
        results.append(whole_sums(bench))
    assert results[0] == results[1]


def whole_sums(bench: Bench) -> dict[int, bytes]:
    """What a receiver makes of each block: it orders single contributions in the same way."""
    receiver: dict[int, bytes] = {}

    def take(emission: Emission) -> None:
        assert emission.bitmap == MASK
        for i, row in enumerate(emission.values):
            receiver[emission.block + i] = row.tobytes() + bytes([emission.exponent & 0xFF])

    table = Table(64, LAYOUT, take, dtype=bench.dtype, memory_model="hold", ordered=True)
    table.open_round(0, MASK)
    for number, (block, bitmap, raw, exponent) in enumerate(bench.raw):
        values = np.frombuffer(raw, bench.dtype.on_wire)[np.newaxis]
        table.add(0, bitmap, block, values, number, exponent=exponent)
    return receiver


@pytest.mark.parametrize("adversarial", [False, True])
@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("ways", [1, 2, 4])
@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=8, deadline=None)
def test_bursts_at_once_are_bursts_block_by_block(
    ways: int, dtype: DType, adversarial: bool, seed: int, data: st.DataObject
) -> None:
    chosen = data.draw(options)
    chosen |= {"memory_model": "accumulate", "ways": ways}
    del chosen["vectorised"]
    trace = Trace(seed, adversarial, dtype, bursts=80)
    fast, slow = (play(trace, **chosen, vectorised=v) for v in (True, False))
    assert fast == slow

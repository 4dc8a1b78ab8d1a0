"""The aggregator's table: hand-worked cases, invariants, fast against slow path."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.aggregator.table import Emission, Table
from agents.wire import Cause, StreamLayout

ELEMENTS, LAST = 6, 2
LAYOUT = StreamLayout(blocks=20, elements=ELEMENTS, last_elements=LAST)
A, B, C = 1, 2, 4


@cache
def stream(round_index: int, bitmap: int) -> np.ndarray:
    """Random int32, the same for the same place; the sum of three stays in the range."""
    generator = np.random.default_rng([round_index, bitmap])
    return generator.integers(-(2**29), 2**29, (LAYOUT.blocks, ELEMENTS), np.int32)


def contribution(round_index: int, bitmap: int, block: int, count: int = 1) -> np.ndarray:
    width = LAYOUT.elements_of(block)
    return stream(round_index, bitmap)[block : block + count, :width]


@dataclass
class Bench:
    """A table together with everything that it emits."""

    table: Table = field(init=False)
    out: list[Emission] = field(default_factory=list)

    @classmethod
    def make(cls, slots: int = 100, mask: int = A | B | C, **options: Any) -> "Bench":
        bench = cls()
        bench.table = Table(slots, LAYOUT, bench._take, **options)
        bench.table.open_round(0, mask)
        bench.table.open_round(1, mask)
        return bench

    def _take(self, emission: Emission) -> None:
        self.out.append(emission._replace(values=emission.values.copy()))

    def add(
        self, bitmap: int, block: int, count: int = 1, round_index: int = 0, t: int = 0
    ) -> None:
        values = contribution(round_index, bitmap, block, count)
        self.table.add(round_index, bitmap, block, values, t)

    def left(self) -> list[tuple[int, int, int, str]]:
        """What has left: (block, count, bitmap, cause)."""
        return [(e.block, len(e.values), e.bitmap, e.cause.name.lower()) for e in self.out]


def test_a_burst_is_held_until_the_last_sender_came() -> None:
    bench = Bench.make()
    bench.add(A, 4, 3)
    bench.add(B, 4, 3)
    assert bench.table.occupied == 3
    assert bench.out == []
    bench.add(C, 4, 3)
    assert bench.left() == [(4, 3, A | B | C, "complete")]
    total = sum(contribution(0, s, 4, 3) for s in (A, B, C))
    np.testing.assert_array_equal(bench.out[0].values, total)
    assert (bench.table.occupied, bench.table.high_water) == (0, 3)
    assert bench.table.progress(0) == (9, 3)


def test_the_short_last_block() -> None:
    bench = Bench.make()
    for sender in (A, B, C):
        bench.add(sender, 19)
    assert bench.left() == [(19, 1, 7, "complete")]
    assert bench.out[0].values.shape == (1, LAST)


def test_a_single_sender_passes_without_memory() -> None:
    bench = Bench.make(slots=1, mask=A)
    bench.add(A, 0, 5)
    assert bench.left() == [(0, 5, A, "complete")]
    assert bench.table.high_water == 0


@pytest.mark.parametrize("before", [True, False])
def test_a_duplicate_is_not_added_before_or_after_completion(before: bool) -> None:
    bench = Bench.make(mask=A | B)
    bench.add(A, 0, 2)
    if before:
        bench.add(A, 0, 2)
    bench.add(B, 0, 2)
    if not before:
        bench.add(A, 0, 2)
    assert bench.left() == [(0, 2, A | B, "complete")]
    np.testing.assert_array_equal(
        bench.out[0].values, contribution(0, A, 0, 2) + contribution(0, B, 0, 2)
    )
    assert bench.table.counters.drops == {"duplicate": 2}


def test_overlapping_partial_sums_are_refused() -> None:
    bench = Bench.make()
    bench.add(A | B, 3)
    bench.add(B | C, 3)
    bench.add(C, 3)
    assert bench.left() == [(3, 1, 7, "complete")]
    assert bench.table.counters.drops == {"overlap": 1}


def test_timeout_lets_a_partial_sum_leave_and_the_rest_completes() -> None:
    bench = Bench.make(timeout_ns=100)
    bench.add(A, 0, 2, t=10)
    bench.add(B, 0, 1, t=60)
    bench.add(A, 5, 1, t=60)
    assert bench.table.next_timeout_ns == 110
    bench.table.expire(109)
    assert bench.out == []
    bench.table.expire(110)
    assert bench.left() == [(0, 1, A | B, "timeout"), (1, 1, A, "timeout")]
    assert bench.table.next_timeout_ns == 160
    bench.add(C, 0, t=120)  # nobody else is missing: it leaves at once
    bench.add(C, 1, t=120)  # B is still missing
    assert bench.left()[2:] == [(0, 1, C, "complete")]
    assert bench.table.counters.late == 2
    assert bench.table.progress(0)[1] == 1
    bench.table.expire(160)
    bench.add(B, 1, t=161)
    assert bench.left()[3:] == [(5, 1, A, "timeout"), (1, 1, B | C, "complete")]


def test_a_timeout_spares_what_was_completed_and_opened_again_elsewhere() -> None:
    bench = Bench.make(slots=1, mask=A | B, timeout_ns=100)
    bench.add(A, 0, t=0)
    bench.add(B, 0, t=1)
    bench.add(A, 1, t=50)  # same slot, another block
    bench.table.expire(120)
    assert bench.left() == [(0, 1, A | B, "complete")]
    bench.table.expire(150)
    assert bench.left()[1:] == [(1, 1, A, "timeout")]


def test_collision_evicts_the_old_block() -> None:
    bench = Bench.make(slots=4, mask=A | B)
    bench.add(A, 0, 4)
    bench.add(A, 4, 2)
    assert bench.left() == [(0, 1, A, "collision"), (1, 1, A, "collision")]
    bench.add(B, 0, 4)  # 0, 1: only B was missing; 2, 3 are still held
    assert bench.left()[2:] == [
        (0, 1, B, "complete"),
        (1, 1, B, "complete"),
        (2, 1, A | B, "complete"),
        (3, 1, A | B, "complete"),
    ]
    assert bench.table.occupied == 2
    assert bench.table.high_water == 4


def test_collision_forwards_the_new_block() -> None:
    bench = Bench.make(slots=4, mask=A | B, collision="forward-new")
    bench.add(A, 0, 4)
    bench.add(A, 4, 1)
    bench.add(B, 4, 1)
    assert bench.left() == [(4, 1, A, "bypass"), (4, 1, B, "complete")]
    bench.add(B, 0, 4)
    assert bench.left()[2:] == [(0, 4, A | B, "complete")]


def test_two_rounds_of_the_same_block_collide() -> None:
    bench = Bench.make(slots=4, mask=A | B)
    bench.add(A, 2, round_index=0)
    bench.add(A, 2, round_index=1)
    assert [(e.round, e.cause) for e in bench.out] == [(0, Cause.COLLISION)]


def test_closing_a_round_flushes_it_and_refuses_what_comes_later() -> None:
    bench = Bench.make()
    bench.add(A, 0, 2)
    bench.add(A, 7, round_index=1)
    bench.table.close_round(0)
    assert bench.left() == [(0, 1, A, "flush"), (1, 1, A, "flush")]
    bench.add(B, 0, 2)
    assert bench.table.counters.drops == {"round": 2}
    bench.table.drain()
    assert bench.left()[2:] == [(7, 1, A, "flush")]
    assert bench.table.occupied == 0


@pytest.mark.parametrize(
    ("bitmap", "block", "shape", "reason"),
    [
        (8, 0, (1, ELEMENTS), "contributor"),
        (A | 8, 0, (1, ELEMENTS), "contributor"),
        (0, 0, (1, ELEMENTS), "contributor"),
        (A, 20, (1, ELEMENTS), "block"),
        (A, 2**63, (1, ELEMENTS), "block"),
        (A, 3, (1, ELEMENTS - 1), "block"),
        (A, 19, (1, ELEMENTS), "block"),
        (A, 18, (2, ELEMENTS), "block"),
        (A, 0, (1, LAST), "block"),
    ],
)
def test_misfits_are_refused(bitmap: int, block: int, shape: tuple[int, int], reason: str) -> None:
    bench = Bench.make()
    bench.table.add(0, bitmap, block, np.zeros(shape, np.int32), 0)
    assert bench.table.counters.drops == {reason: shape[0]}
    assert bench.table.occupied == 0


Step = tuple[str, int, int, int, int]


@st.composite
def traces(draw: st.DrawFn) -> list[Step]:
    """Bursts in any order, duplicates too, and timeouts: what, round, sender, block, count."""
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 60))):
        if draw(st.integers(0, 9)) == 0:
            steps.append(("expire", 0, 0, 0, 0))
            continue
        block = draw(st.integers(0, 19))
        count = 1 if block == 19 else draw(st.integers(1, min(7, 19 - block)))
        steps.append(("add", draw(st.integers(0, 1)), draw(st.integers(0, 2)), block, count))
    return steps


tables = st.fixed_dictionaries(
    {
        "slots": st.integers(1, 24),
        "hashing": st.sampled_from(["mod", "mix"]),
        "collision": st.sampled_from(["evict-old", "forward-new"]),
        "timeout_ns": st.sampled_from([7, 40, 1 << 62]),
    }
)


def play(steps: list[Step], options: dict[str, Any], *, vectorised: bool) -> Bench:
    bench = Bench.make(vectorised=vectorised, **options)
    slots, peak = options["slots"], 0
    for now_ns, (what, round_index, sender, block, count) in enumerate(steps):
        if what == "expire":
            bench.table.expire(now_ns)
        else:
            bench.add(1 << sender, block, count, round_index, now_ns)
        peak = max(peak, bench.table.occupied)
        assert bench.table.occupied <= slots
    assert peak <= bench.table.high_water <= slots
    bench.table.drain()
    assert bench.table.occupied == 0
    return bench


@settings(max_examples=200)
@given(traces(), tables)
def test_whatever_happens_nothing_is_lost_or_counted_twice(
    steps: list[Step], options: dict[str, Any]
) -> None:
    bench = play(steps, options, vectorised=True)
    delivered: dict[tuple[int, int], int] = defaultdict(int)
    for what, round_index, sender, block, count in steps:
        for b in range(block, block + count if what == "add" else block):
            delivered[round_index, b] |= 1 << sender
    left: dict[tuple[int, int], int] = defaultdict(int)
    sums: dict[tuple[int, int], Any] = defaultdict(int)
    for emission in bench.out:
        for i, row in enumerate(emission.values):
            key = emission.round, emission.block + i
            assert left[key] & emission.bitmap == 0, "two sums of a block share a contributor"
            left[key] |= emission.bitmap
            sums[key] = sums[key] + row
    assert left == delivered
    for (round_index, block), bitmap in delivered.items():
        senders = [1 << s for s in range(3) if bitmap >> s & 1]
        total = sum(contribution(round_index, s, block)[0] for s in senders)
        np.testing.assert_array_equal(sums[round_index, block], total)


@settings(max_examples=200)
@given(traces(), tables)
def test_the_fast_path_does_what_the_slow_path_does(
    steps: list[Step], options: dict[str, Any]
) -> None:
    def one_by_one(bench: Bench) -> list[Any]:
        return [
            (e.round, e.block + i, e.bitmap, e.cause, row.tobytes())
            for e in bench.out
            for i, row in enumerate(e.values)
        ]

    fast = play(steps, options, vectorised=True)
    slow = play(steps, options, vectorised=False)
    assert one_by_one(fast) == one_by_one(slow)
    assert fast.table.counters == slow.table.counters
    assert fast.table.high_water == slow.table.high_water


@pytest.mark.parametrize("hashing", ["mod", "mix"])
def test_the_oldest_held_block_and_who_is_missing_there(hashing: str) -> None:
    bench = Bench.make(hashing=hashing, timeout_ns=10)
    assert bench.table.oldest() is None
    bench.add(B, 2, round_index=1, t=1)
    bench.add(A, 7, t=3)
    bench.add(A, 4, t=5)
    assert bench.table.oldest() == (1, 2, 1, A | C)
    bench.table.expire(11)  # leaves as a partial sum: nothing is held of it any more
    assert bench.table.oldest() == (0, 7, 3, B | C)
    bench.add(A, 2, round_index=1, t=12)
    bench.table.close_round(0)
    assert bench.table.oldest() == (1, 2, 12, C)

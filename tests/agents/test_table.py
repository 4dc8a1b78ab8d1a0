"""The aggregator's table: hand-worked cases of what comes, waits and leaves."""

import gc
import tracemalloc

import numpy as np
import pytest
from table_bench import ELEMENTS, LAST, A, B, Bench, C, contribution

from agents.aggregator.table import OpenBlock
from agents.wire import Cause
from testbed.errors import InputError


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


def test_a_single_sender_passes_without_memory() -> None:
    bench = Bench.make(slots=1, mask=A)
    bench.add(A, 0, 5)
    assert bench.left() == [(0, 5, A, "complete")]
    assert bench.table.high_water == 0


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


@pytest.mark.parametrize("ways", [2, 4])
def test_blocks_of_one_set_lie_in_its_ways(ways: int) -> None:
    bench = Bench.make(slots=2 * ways, mask=A | B, ways=ways)
    for n in range(ways):
        bench.add(A, 2 * n, t=n)
    assert bench.out == []
    bench.add(A, 2 * ways, t=ways)
    assert bench.left() == [(0, 1, A, "collision")]
    bench.add(B, 2, t=ways)
    assert bench.left()[1:] == [(2, 1, A | B, "complete")]
    bench.add(A, 2 * ways + 2, t=ways)  # the way that has become free
    assert len(bench.out) == 2


def test_priority_keeps_the_more_urgent_block() -> None:
    bench = Bench.make(slots=4, mask=A | B, collision="priority")
    bench.add(A, 5)
    bench.add(A, 9)
    assert bench.left() == [(9, 1, A, "bypass")]
    bench.add(A, 1)
    assert bench.left()[1:] == [(5, 1, A, "collision")]
    bench.add(A, 1, round_index=1)
    assert bench.left()[2:] == [(1, 1, A, "bypass")]
    bench.add(B, 1)
    assert bench.left()[3:] == [(1, 1, A | B, "complete")]


def test_fewer_slots_than_ways_are_refused() -> None:
    with pytest.raises(InputError, match="1 blocks // 2 ways"):
        Bench.make(slots=1, ways=2)


def test_memory_does_not_grow_from_round_to_round() -> None:
    bench = Bench.make(mask=A | B)
    sizes = []
    tracemalloc.start()
    for k in range(2, 302):
        bench.table.close_round(k - 2)
        bench.table.open_round(k, A | B)
        bench.table.add(k, A, 0, np.zeros((19, ELEMENTS), np.int32), k)
        bench.table.add(k, B, 0, np.zeros((18, ELEMENTS), np.int32), k)
        bench.out.clear()
        if k % 100 == 0:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[2] - sizes[1] < 2000


def test_who_is_missing_for_what_has_been_held_longest() -> None:
    bench = Bench.make(slots=100, timeout_ns=5)
    assert bench.table.oldest() is None
    bench.add(A, 3, 2, t=1)
    bench.add(A, 0, t=2)
    bench.add(B, 3, t=3)
    assert bench.table.oldest() == OpenBlock(round=0, block=3, first_ns=1, missing=C)
    bench.add(C, 3, t=4)
    assert bench.table.oldest() == (0, 4, 1, B | C)
    assert bench.table.seen(0)[:5].tolist() == [A, 0, 0, A | B | C, A]
    bench.table.expire(6)
    assert bench.table.oldest() == (0, 0, 2, B | C)

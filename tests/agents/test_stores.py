"""What the memory keeps: rows, who has to go for one, flags, ranges, and ordered sums."""

import numpy as np
import pytest
from table_bench import A, B, Bench, C, contribution

from agents.names import MemoryModel
from agents.wire import Flag
from testbed.errors import InputError


def test_hold_takes_a_row_for_every_contribution_but_the_last() -> None:
    bench = Bench.make(slots=8, memory_model="hold")
    bench.add(A, 0, 2)
    bench.add(B, 0, 2)
    assert bench.table.occupied == 4
    bench.add(C, 0, 2)
    assert bench.left() == [(b, 1, A | B | C, "complete") for b in (0, 1)]
    assert (bench.table.occupied, bench.table.high_water) == (0, 4)


def test_hold_without_a_free_row_evicts_what_was_stored_first() -> None:
    bench = Bench.make(slots=4, memory_model="hold")
    for sender, block in ((A, 1), (A, 2), (B, 2), (A, 3)):
        bench.add(sender, block)
    bench.add(B, 3)
    assert bench.left() == [(1, 1, A, "collision")]
    bench.add(C, 3)
    assert bench.left()[1:] == [(3, 1, A | B | C, "complete")]


def test_hold_without_a_free_row_may_evict_the_own_block() -> None:
    bench = Bench.make(slots=2, mask=15, memory_model="hold")
    for sender in (A, B, C):
        bench.add(sender, 1)
    assert bench.left() == [(1, 1, A | B, "collision")]
    assert bench.table.occupied == 1
    bench.add(8, 1)
    assert bench.left()[1:] == [(1, 1, C | 8, "complete")]


def test_a_block_whose_first_contributions_left_takes_the_lowest_free_way() -> None:
    bench = Bench.make(slots=4, mask=31, ways=2, memory_model="hold")
    bench.add(A, 0)  # way 0 of set 0
    for sender, block in ((A, 2), (B, 2), (A, 1)):  # way 1 of set 0, and a row for set 1
        bench.add(sender, block)
    bench.add(30, 0)  # completes, which frees way 0
    bench.add(C, 2)
    bench.add(8, 2)  # no row is free, and nothing is older than the own block
    bench.add(A, 4)
    bench.add(A, 6)  # of two that came at one time, the lowest way goes
    assert bench.left() == [
        (0, 1, 31, "complete"),
        (2, 1, A | B | C, "collision"),
        (2, 1, 8, "collision"),
    ]


@pytest.mark.parametrize(
    ("collision", "block", "left"),
    [
        ("forward-new", 0, [(0, 1, B, "bypass")]),
        ("priority", 0, [(3, 1, A | B, "collision")]),
        ("priority", 3, [(3, 1, C, "bypass")]),
    ],
)
def test_hold_without_a_free_row_as_the_policy_says(
    collision: str, block: int, left: list[tuple[int, int, int, str]]
) -> None:
    bench = Bench.make(slots=4, mask=15, memory_model="hold", collision=collision)
    for sender, held in ((A, 0), (A, 1), (A, 3), (B, 3)):
        bench.add(sender, held)
    bench.add(B if block == 0 else C, block)
    assert bench.left() == left


def test_ordered_sums_that_are_not_whole_leave_one_by_one() -> None:
    bench = Bench.make(memory_model="hold", ordered=True, timeout_ns=10)
    bench.add(C, 0, t=0)
    bench.add(A, 0, t=1)
    bench.table.expire(10)
    assert bench.left() == [(0, 1, A, "timeout"), (0, 1, C, "timeout")]
    bench.add(B, 0, t=11)
    assert bench.left()[2:] == [(0, 1, B, "complete")]
    assert bench.table.progress(0) == (3, 1)


def test_ordered_without_hold_is_refused() -> None:
    with pytest.raises(InputError, match="memory model to hold"):
        Bench.make(ordered=True)


def test_a_sum_that_was_taken_block_by_block_still_saturates() -> None:
    bench = Bench.make()
    width = contribution(0, A, 0).shape[1]
    for sender, first, values in ((A, 0, [1 << 30]), (B, 0, [(1 << 30) - 1, 7]), (C, 0, [5])):
        block = np.repeat(np.array(values, np.int32)[:, np.newaxis], width, axis=1)
        bench.table.add(0, sender, first, block, 0)
    assert bench.out[0].values.tolist() == [[(1 << 31) - 1] * width]
    assert bench.out[0].flags == Flag.SATURATED


@pytest.mark.parametrize("memory_model", ["accumulate", "hold"])
def test_a_flag_does_not_stay_in_the_slot(memory_model: MemoryModel) -> None:
    bench = Bench.make(slots=2, memory_model=memory_model)
    for block, flags in ((0, 0x40), (2, 0)):
        for sender in (A, B, C):
            values = contribution(0, sender, block)
            bench.table.add(0, sender, block, values, 0, flags=flags)
    assert [e.flags for e in bench.out] == [0x40, 0]

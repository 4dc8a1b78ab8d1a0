"""Where blocks lie, and which has to go."""

from typing import Any

import pytest

from agents.aggregator.sets import Sets
from testbed.errors import InputError

BLOCKS = 64


class Bench:
    """Sets with two rounds; blocks are stored by hand."""

    def __init__(self, slots: int, first_round: int = 0, **options: Any) -> None:
        options = {"ways": 1, "hashing": "mod", "collision": "evict-old", **options}
        self.sets = Sets(slots, **options)
        self.ledgers = [
            self.sets.open_round((first_round + k) & 0xFFFFFFFF, 1, BLOCKS) for k in range(2)
        ]

    def store(self, block: int, t: int = 0, k: int = 0) -> int:
        slot = self.sets.free_way(self.ledgers[k], block)
        assert slot is not None
        self.sets.occupy(self.ledgers[k], slot, block, 1, t)
        return slot

    def in_set(self, block: int, k: int = 0) -> int | None:
        return self.sets.victim_in_set(self.ledgers[k], block)

    def anywhere(self, block: int, k: int = 0) -> int | None:
        return self.sets.victim_anywhere(self.ledgers[k], block)


@pytest.mark.parametrize(("slots", "ways", "used"), [(8, 1, 8), (9, 2, 8), (11, 4, 8), (4, 4, 4)])
def test_a_remainder_that_fills_no_set_is_not_used(slots: int, ways: int, used: int) -> None:
    assert Sets(slots, ways, "mod", "evict-old").slots == used


def test_fewer_slots_than_ways_are_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError, match="3 blocks // 4 ways = no set"):
        Sets(3, 4, "mod", "evict-old")


def test_a_block_takes_the_lowest_free_way_of_its_set() -> None:
    bench = Bench(8, ways=2)  # four sets
    assert [bench.store(block) for block in (1, 5, 2, 0)] == [2, 3, 4, 0]
    assert bench.sets.free_way(bench.ledgers[0], 9) is None
    bench.sets.release(2)
    assert bench.store(9) == 2
    assert bench.sets.slot(bench.ledgers[0], 5) == 3


def test_mixing_gives_another_set_in_another_round() -> None:
    bench = Bench(64, ways=2, hashing="mix")
    homes = [bench.sets.free_way(ledger, block) for ledger in bench.ledgers for block in range(32)]
    assert homes[:32] != homes[32:]
    assert all(slot is not None and slot % 2 == 0 for slot in homes)
    assert len(set(homes)) > 20


def test_slots_for_a_burst_are_those_for_its_blocks_one_by_one() -> None:
    for ways in (1, 2, 4):
        for hashing in ("mod", "mix"):
            bench = Bench(32, ways=ways, hashing=hashing)
            for block in (3, 11, 20) if hashing == "mod" else (3,):
                bench.store(block)
            ledger, sets = bench.ledgers[0], bench.sets
            for first in range(0, BLOCKS - 4):
                index = sets.free_slots(ledger, first, 4)
                if index is not None:
                    slots = list(range(32))[index] if isinstance(index, slice) else index.tolist()
                    ways_of_each = [sets.free_way(ledger, first + i) for i in range(4)]
                    assert slots == ways_of_each


def test_the_oldest_of_a_set_goes_and_of_several_the_lowest_way() -> None:
    bench = Bench(4, ways=4)
    for block, t in ((0, 30), (1, 10), (2, 10), (3, 20)):
        bench.store(block, t)
    assert bench.in_set(4) == 1
    bench.sets.release(1)
    bench.store(5, 40)
    assert bench.in_set(4) == 2


def test_forward_new_frees_nothing() -> None:
    bench = Bench(2, ways=2, collision="forward-new")
    bench.store(0)
    bench.store(1)
    assert bench.in_set(2) is None
    assert bench.anywhere(2) is None


@pytest.mark.parametrize("first_round", [0, 7, 0xFFFFFFFF])
def test_priority_frees_the_later_block_or_refuses_the_newcomer(first_round: int) -> None:
    bench = Bench(4, first_round, ways=4, collision="priority")
    slots = [bench.store(block, k=k) for block, k in ((9, 0), (4, 1), (8, 1), (2, 1))]
    for choose in (bench.in_set, bench.anywhere):
        assert choose(20, k=0) == slots[2]
        assert choose(7, k=1) == slots[2]
        assert choose(8, k=1) is None
        assert choose(9, k=1) is None


def test_the_first_stored_goes_from_a_full_memory() -> None:
    bench = Bench(4)
    for block in (2, 0, 1):
        bench.store(block, t=5)
    assert bench.anywhere(9) == 2
    bench.sets.release(2)
    assert bench.anywhere(9) == 0
    bench.store(2, t=5)
    bench.sets.release(0)
    assert bench.anywhere(9) == 1


def test_arrivals_are_forgotten_with_their_round() -> None:
    bench = Bench(8)
    bench.store(0, t=5)
    bench.store(1, t=6, k=1)
    assert bench.sets.first_ns == 5
    bench.sets.release(0)
    bench.sets.forget_before({1})
    assert bench.sets.first_ns == 6
    assert bench.sets.pop_oldest() == [1]

"""Which blocks to ask which sender for."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from agents.recovery.bucket import TokenBucket
from agents.recovery.gaps import NEVER_NS, WAIT_NS
from agents.recovery.repair import MAX_BLOCKS, Repairs, Request, to_ranges
from agents.recovery.rto import Rto

MS = 1_000_000
BLOCKS = 600
MASK = 0b1010  # cities 1 and 3


class Bench:
    """One round, and what has come of it."""

    def __init__(self, depth: int = 10**6) -> None:
        self.seen: npt.NDArray[np.uint64] = np.zeros(BLOCKS, np.uint64)
        self.repairs = Repairs(
            lambda _: self.seen, lambda _: Rto(50 * MS, MS, 1000 * MS), TokenBucket(100, depth)
        )
        self.repairs.open_round(0, MASK, BLOCKS)

    def come(self, source: int, block: int, count: int, now_ns: int) -> None:
        self.seen[block : block + count] |= np.uint64(1 << source)
        self.repairs.arrived(0, source, block, now_ns)


def test_only_lost_blocks_are_asked_for_and_only_from_who_is_missing() -> None:
    bench = Bench()
    bench.seen[10:20] = 0b0010
    bench.seen[14] = 0b1010
    assert bench.repairs.poll(0) == []
    bench.repairs.lose(0, 10, 5, 0)
    bench.repairs.lose(0, 15, 3, 0)
    assert bench.repairs.poll(0) == [Request(0, 3, ((10, 4), (15, 3)))]
    assert bench.repairs.requested == 7


def test_it_asks_again_for_what_has_not_come() -> None:
    bench = Bench()
    bench.seen[:] = 0b0010
    bench.repairs.lose(0, 0, 4, 0)
    bench.repairs.poll(0)
    assert bench.repairs.poll(49 * MS) == []
    assert bench.repairs.poll(50 * MS) == [Request(0, 3, ((0, 4),))]
    bench.come(3, 0, 4, 51 * MS)
    assert bench.repairs.poll(10**10) == []
    assert bench.repairs.due_ns == NEVER_NS


def test_what_later_answers_have_overtaken_is_asked_for_at_once() -> None:
    bench = Bench()
    bench.seen[:] = 0b0010
    bench.repairs.lose(0, 0, 4, 0)
    bench.repairs.poll(0)
    bench.repairs.lose(0, 9, 1, MS)
    assert bench.repairs.poll(MS) == [Request(0, 3, ((9, 1),))]
    bench.come(3, 2, 1, 8 * MS)  # 0 and 1 are lost, 3 may be on its way
    assert bench.repairs.poll(8 * MS) == []
    assert bench.repairs.poll(8 * MS + WAIT_NS) == [Request(0, 3, ((0, 2),))]
    bench.come(3, 9, 1, 9 * MS)  # so it was lost too; 0 and 1 were asked for later
    assert bench.repairs.poll(9 * MS + WAIT_NS) == [Request(0, 3, ((3, 1),))]


def test_the_first_answer_to_a_block_asked_for_once_is_measured() -> None:
    bench = Bench()
    bench.seen[:] = 0b0010
    bench.repairs.lose(0, 0, 1, 0)
    bench.repairs.poll(0)
    bench.come(3, 0, 1, 8 * MS)
    bench.repairs.lose(0, 5, 1, 10 * MS)
    bench.repairs.poll(10 * MS)
    assert bench.repairs.poll(33 * MS) == []
    assert bench.repairs.poll(34 * MS) == [Request(0, 3, ((5, 1),))]  # 8 + 4 · 4 ms later


def test_a_long_loss_is_asked_for_piece_by_piece() -> None:
    bench = Bench()
    bench.seen[:] = 0b1000
    bench.repairs.lose(0, 0, BLOCKS, 0)
    assert bench.repairs.poll(0) == [Request(0, 1, ((0, MAX_BLOCKS),))]
    assert bench.repairs.poll(1) == []
    bench.come(1, 0, 10, 2)
    assert bench.repairs.poll(2) == [Request(0, 1, ((MAX_BLOCKS, 10),))]
    assert bench.repairs.poll(3) == []


def test_requests_are_limited() -> None:
    bench = Bench(depth=8)
    bench.seen[:] = 0b1000
    bench.repairs.lose(0, 0, BLOCKS, 0)
    assert bench.repairs.poll(0) == [Request(0, 1, ((0, 8),))]
    bench.come(1, 0, 8, MS)
    assert bench.repairs.poll(MS) == []
    assert MS < bench.repairs.due_ns <= 12 * MS
    assert bench.repairs.poll(12 * MS) == [Request(0, 1, ((8, 1),))]


def test_a_sender_that_refuses_is_not_asked_again() -> None:
    bench = Bench()
    bench.repairs.lose(0, 7, 2, 0)
    assert [r.source for r in bench.repairs.poll(0)] == [1, 3]
    bench.repairs.refuse(0, 1)
    bench.repairs.refuse(0, 1)
    bench.repairs.refuse(5, 1)
    assert [r.source for r in bench.repairs.poll(10**10)] == [3]
    assert bench.repairs.refused == 2


def test_a_closed_round_is_forgotten() -> None:
    bench = Bench()
    bench.repairs.lose(0, 7, 2, 0)
    bench.repairs.close_round(0)
    bench.repairs.lose(0, 7, 2, 0)
    bench.repairs.arrived(0, 1, 7, 0)
    assert bench.repairs.poll(1) == []


@given(st.sets(st.integers(0, 300)))
def test_ranges_hold_the_same_numbers(numbers: set[int]) -> None:
    ranges = to_ranges(np.array(sorted(numbers), np.intp))
    assert [n for first, count in ranges for n in range(first, first + count)] == sorted(numbers)
    assert all(a + n < b for (a, n), (b, _) in pairwise(ranges))

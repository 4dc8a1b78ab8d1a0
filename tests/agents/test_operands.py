import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.operands import Operands, chunk_layout, operand
from testbed.errors import InputError

SEED, CITIES, CHUNKS = 3, 3, 2
LAYOUT = chunk_layout(20_000, 9000)


def test_a_chunk_costs_its_bytes_on_the_wire() -> None:
    assert LAYOUT.blocks == 3
    assert abs(LAYOUT.wire_bytes - 20_000) <= 4


def test_a_chunk_that_is_no_datagram_is_refused() -> None:
    with pytest.raises(InputError, match=r"chunks are too small: .*fewer chunks"):
        chunk_layout(90, 9000)


@given(order=st.permutations(range(3)), adds=st.booleans())
def test_blocks_in_any_order_add_up_or_replace(order: list[int], adds: bool) -> None:
    mine, theirs = Operands(SEED, 0, CHUNKS, LAYOUT), Operands(SEED, 1, CHUNKS, LAYOUT)
    before = mine.rows(1, 0, 3).copy()
    for block in order:
        assert mine.take(7, block, theirs.rows(1, block, 1)[:, : LAYOUT.elements_of(block)]) == ""
        assert mine.complete(7) == (block == order[-1])
    mine.apply(7, 1, adds=adds)
    expected = theirs.rows(1, 0, 3) + (before if adds else 0)
    used = 2 * LAYOUT.elements + LAYOUT.last_elements
    assert np.array_equal(mine.rows(1, 0, 3).ravel()[:used], expected.ravel()[:used])
    assert np.array_equal(mine.rows(0, 0, 3), operand(SEED, 0, 0, LAYOUT))


def test_what_comes_twice_or_does_not_fit_is_refused() -> None:
    mine = Operands(SEED, 0, CHUNKS, LAYOUT)
    rows = np.ones((2, LAYOUT.elements), np.int32)
    assert mine.take(0, 0, rows) == ""
    assert mine.take(0, 1, rows[:1]) == "duplicate"
    assert mine.take(0, 2, rows[:1]) == "block"
    assert mine.take(0, 9, rows[:1]) == "block"
    assert not mine.complete(0)


def test_only_the_true_sum_of_all_hosts_is_exact() -> None:
    mine = Operands(SEED, 0, CHUNKS, LAYOUT)
    for chunk in range(CHUNKS):
        for city in (1, 2):
            whole = operand(SEED, city, chunk, LAYOUT)
            mine.take(city, 0, whole[:2])
            mine.take(city, 2, whole[2:, : LAYOUT.last_elements])
            mine.apply(city, chunk, adds=True)
        assert mine.exact_chunks(CITIES) == chunk + 1
    mine.rows(1, 1, 1)[0, 0] += 1
    assert mine.exact_chunks(CITIES) == 1

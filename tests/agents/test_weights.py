"""Block contents: sums agree, seeds and places differ, nothing can overflow."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.weights import OFFSET_LIMIT, TABLE_BLOCKS, TABLE_LIMIT, Weights, contributors

BLOCKS, ELEMENTS = 50, 16


def blocks_of(
    weights: Weights, bitmap: int, *, round_index: int = 0, block: int = 0, count: int = BLOCKS
) -> np.ndarray:
    out = np.zeros((count, ELEMENTS), np.int32)
    weights.fill(round_index, bitmap, block, out)
    return out


@given(st.integers(1, 2**10 - 1), st.integers(0, 5), st.integers(0, 49), st.integers(1, 40))
def test_the_sum_of_the_parts_is_the_true_sum(
    bitmap: int, round_index: int, block: int, count: int
) -> None:
    weights = Weights(3, BLOCKS, ELEMENTS)
    count = min(count, BLOCKS - block)
    place = {"round_index": round_index, "block": block, "count": count}
    parts = [blocks_of(weights, 1 << i, **place) for i in contributors(bitmap)]
    np.testing.assert_array_equal(blocks_of(weights, bitmap, **place), sum(parts))


def test_a_block_is_the_same_however_it_is_asked_for() -> None:
    weights = Weights(3, BLOCKS, ELEMENTS)
    whole = blocks_of(weights, 4, round_index=2)
    for block in range(BLOCKS):
        one = blocks_of(weights, 4, round_index=2, block=block, count=1)
        np.testing.assert_array_equal(one[0], whole[block])
    short = np.zeros((3, 5), np.int32)
    weights.fill(2, 4, 7, short)
    np.testing.assert_array_equal(short, whole[7:10, :5])


def test_blocks_differ_by_seed_island_round_and_place() -> None:
    weights = Weights(3, BLOCKS, ELEMENTS)
    rows = [
        *blocks_of(weights, 1),
        *blocks_of(weights, 2),
        *blocks_of(weights, 1, round_index=1),
        *blocks_of(weights, 1, round_index=TABLE_BLOCKS),
        *blocks_of(Weights(4, BLOCKS, ELEMENTS), 1),
    ]
    assert len({row.tobytes() for row in rows}) == 5 * BLOCKS


def test_two_processes_agree() -> None:
    one, other = Weights(9, BLOCKS, ELEMENTS), Weights(9, BLOCKS, ELEMENTS)
    np.testing.assert_array_equal(blocks_of(one, 7), blocks_of(other, 7))


def test_64_islands_cannot_overflow() -> None:
    assert 64 * (TABLE_LIMIT + OFFSET_LIMIT) < 2**31
    weights = Weights(1, BLOCKS, ELEMENTS)
    total = sum(blocks_of(weights, 1 << i).astype(np.int64) for i in range(64))
    np.testing.assert_array_equal(blocks_of(weights, 2**64 - 1), total)

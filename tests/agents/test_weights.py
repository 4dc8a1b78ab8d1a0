"""Coding of vectors into blocks: sums agree, seeds and places differ, nothing can overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.weights import (
    OFFSET_LIMIT,
    TABLE_BLOCKS,
    TABLE_LIMIT,
    Weights,
    contributors,
    table_shape,
)
from agents.wire import StreamLayout

BLOCKS, ELEMENTS = 50, 16
LAYOUT = StreamLayout(BLOCKS, ELEMENTS, ELEMENTS)


def table_of(bitmap: int) -> np.ndarray:
    """Sum of the tables of some islands; each is random and keyed with its index."""
    total = np.zeros((TABLE_BLOCKS, ELEMENTS), np.int32)
    for island in contributors(bitmap):
        generator = np.random.default_rng(island)
        total += generator.integers(1 - TABLE_LIMIT, TABLE_LIMIT, total.shape, np.int32)
    return total


def blocks_of(
    weights: Weights, bitmap: int, *, round_index: int = 0, block: int = 0, count: int = BLOCKS
) -> np.ndarray:
    out = np.zeros((count, ELEMENTS), np.int32)
    weights.fill(round_index, bitmap, table_of(bitmap), block, out)
    return out


@given(st.integers(1, 2**10 - 1), st.integers(0, 5), st.integers(0, 49), st.integers(1, 40))
def test_the_sum_of_the_parts_is_the_true_sum(
    bitmap: int, round_index: int, block: int, count: int
) -> None:
    weights = Weights(3, LAYOUT)
    count = min(count, BLOCKS - block)
    place = {"round_index": round_index, "block": block, "count": count}
    parts = [blocks_of(weights, 1 << i, **place) for i in contributors(bitmap)]
    np.testing.assert_array_equal(blocks_of(weights, bitmap, **place), sum(parts))


@given(st.integers(1, 2**10 - 1), st.integers(0, 5))
def test_every_block_gives_its_row_back(bitmap: int, round_index: int) -> None:
    weights = Weights(3, LAYOUT)
    sent, table = blocks_of(weights, bitmap, round_index=round_index), table_of(bitmap)
    for block in range(BLOCKS):
        row = sent[block] - weights.offset(round_index, bitmap, block)
        np.testing.assert_array_equal(row, table[weights.row(round_index, block)])


def test_a_block_is_the_same_however_it_is_asked_for() -> None:
    weights = Weights(3, LAYOUT)
    whole = blocks_of(weights, 4, round_index=2)
    for block in range(BLOCKS):
        one = blocks_of(weights, 4, round_index=2, block=block, count=1)
        np.testing.assert_array_equal(one[0], whole[block])
    short = np.zeros((3, 5), np.int32)
    weights.fill(2, 4, table_of(4), 7, short)
    np.testing.assert_array_equal(short, whole[7:10, :5])


def test_blocks_of_one_state_differ_by_seed_round_and_place() -> None:
    weights = Weights(3, LAYOUT)
    rows = [
        *blocks_of(weights, 1),
        *blocks_of(weights, 2),
        *blocks_of(weights, 1, round_index=1),
        *blocks_of(weights, 1, round_index=TABLE_BLOCKS),
        *blocks_of(Weights(4, LAYOUT), 1),
    ]
    assert len({row.tobytes() for row in rows}) == 5 * BLOCKS


def test_a_stream_of_one_short_block_fills_only_what_is_sent() -> None:
    weights = Weights(1, StreamLayout(1, ELEMENTS, 9))
    table = table_of(1)[:1, :9]
    out = np.full((1, ELEMENTS), 77, np.int32)
    weights.fill(0, 1, table, 0, out)
    np.testing.assert_array_equal(out[0, :9], table[0] + weights.offset(0, 1, 0))
    assert (out[0, 9:] == 77).all()


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (StreamLayout(100, 2048, 7), (16, 2048)),
        (StreamLayout(16, 2048, 2048), (16, 2048)),
        (StreamLayout(16, 2048, 2047), (15, 2048)),
        (StreamLayout(2, 352, 1), (1, 352)),
        (StreamLayout(1, 2048, 9), (1, 9)),
    ],
)
def test_every_round_sends_every_row_in_full(layout: StreamLayout, shape: tuple[int, int]) -> None:
    assert table_shape(layout) == shape
    weights = Weights(1, layout)
    for round_index in range(20):
        full = [b for b in range(layout.blocks) if layout.elements_of(b) == shape[1]]
        assert {weights.row(round_index, block) for block in full} == set(range(shape[0]))


def test_64_islands_cannot_overflow() -> None:
    assert 64 * (TABLE_LIMIT + OFFSET_LIMIT) < 2**31
    weights = Weights(1, LAYOUT)
    total = sum(blocks_of(weights, 1 << i).astype(np.int64) for i in range(64))
    np.testing.assert_array_equal(blocks_of(weights, 2**64 - 1), total)

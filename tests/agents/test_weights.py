"""Coding of vectors into blocks: sums agree, seeds and places differ, nothing can overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.aggregator.arithmetic import in_memory
from agents.weights import (
    TABLE_BLOCKS,
    Weights,
    contributors,
    range_of,
    table_shape,
)
from agents.wire import DType, StreamLayout
from testbed.errors import InputError

BLOCKS, ELEMENTS = 50, 16
LAYOUT = StreamLayout(BLOCKS, ELEMENTS, ELEMENTS)


def table_of(bitmap: int) -> np.ndarray:
    """Sum of the tables of some islands; each is random and keyed with its index."""
    total = np.zeros((TABLE_BLOCKS, ELEMENTS), np.int32)
    for island in contributors(bitmap):
        generator = np.random.default_rng(island)
        limit = range_of(DType.I32).table
        total += generator.integers(1 - limit, limit, total.shape, np.int32)
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
    sizes = range_of(DType.I32)
    assert 64 * (sizes.table + sizes.offset) < 2**31
    weights = Weights(1, LAYOUT)
    total = sum(blocks_of(weights, 1 << i).astype(np.int64) for i in range(64))
    np.testing.assert_array_equal(blocks_of(weights, 2**64 - 1), total)


@given(st.randoms(use_true_random=False))
def test_sums_of_64_islands_are_exact_in_float32_in_any_order(random) -> None:
    sizes = range_of(DType.F32)
    assert 64 * (sizes.table + sizes.offset) <= 2**24
    weights = Weights(1, LAYOUT, DType.F32)
    # the largest that there may be, alike in sign: nothing cancels
    table = np.full((TABLE_BLOCKS, ELEMENTS), sizes.table - 1, np.int32)
    total = np.zeros((BLOCKS, ELEMENTS), in_memory(DType.F32))
    order = list(range(64))
    random.shuffle(order)
    for island in order:
        part = np.zeros_like(total)
        weights.fill(0, 1 << island, table, 0, part)
        total += part
    truth = np.zeros_like(total)
    weights.fill(0, 2**64 - 1, table * 64, 0, truth)
    assert truth.tobytes() == total.tobytes()
    assert np.abs(truth).max() > 2**22


def test_exponents_change_every_few_blocks_and_are_the_same_for_everybody() -> None:
    scaled = Weights(1, StreamLayout(1000, 8, 8), DType.I32_EXPONENT)
    exponents = scaled.exponents(0, 1000)
    assert len(set(exponents.tolist())) > 2
    np.testing.assert_array_equal(scaled.exponents(130, 7), exponents[130:137])
    assert not Weights(1, LAYOUT).exponents(0, BLOCKS).any()


def test_elements_whose_sums_cannot_be_checked_are_refused() -> None:
    with pytest.raises(InputError, match=r"bf16 cannot be checked.*use f32"):
        Weights(1, LAYOUT, DType.BF16)

"""Size of the aggregator's memory, its rows and its hash."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.aggregator.memory import Arena, memory_slots, mixed_slots, ring_rows, span
from agents.aggregator.table import Table
from agents.names import MemoryModel
from agents.wire import StreamLayout
from testbed.errors import InputError


def test_slots_of_the_papers_edge_at_scale_100() -> None:
    # 320 MB / 8192 B = 39062.5 blocks; two senders with 32 datagrams each add 64
    assert memory_slots(32e9 / 100, 32, 2, 8192) == 39062 + 64


def test_no_memory_leaves_the_packet_fifo() -> None:
    assert memory_slots(0, 8, 2, 8192) == 16


def test_less_than_one_block_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError, match=r"5000 bytes \+ 0 datagrams × 2 senders × 8192 bytes"):
        memory_slots(5000, 0, 2, 8192)


def test_splitmix64_known_values() -> None:
    # the first outputs of SplitMix64 with seed 0 are e220a8397b1dcdaf and 6e789e6aa1b965f4
    assert mixed_slots(0, 2, 1 << 32).tolist() == [0x7B1DCDAF, 0xA1B965F4]


def test_mixed_slots_stay_inside_spread_out_and_change_with_the_round() -> None:
    blocks, slots = 20_000, 1000
    first, second = mixed_slots(0, blocks, slots), mixed_slots(1, blocks, slots)
    assert first.min() >= 0
    assert first.max() < slots
    load = np.bincount(first, minlength=slots)
    # Poisson with mean 20: 5 standard deviations on either side
    assert load.min() > 0
    assert load.max() < 20 + 5 * 20**0.5 + 5
    assert (first != second).mean() > 0.99


@given(st.lists(st.integers(1, 5), max_size=40))
def test_rows_are_never_handed_out_twice_nor_beyond_the_need(sizes: list[int]) -> None:
    arena = Arena(12, 4)
    held: list[list[int]] = []
    most = 0
    for size in sizes:
        while sum(map(len, held)) + size > 12:
            arena.give(held.pop(0))
        held.append(arena.take(size))
        rows = [row for part in held for row in part]
        assert len(set(rows)) == len(rows)
        most = max(most, len(rows))
        assert max(rows) < most, "a row was touched that the need did not call for"


def test_rows_come_back_in_order() -> None:
    arena = Arena(100, 4)
    rows = arena.take(4)
    arena.take(4)
    arena.give(rows)
    assert arena.take(4) == rows
    assert span(rows) == slice(0, 4)
    assert span([3, 5]) == [3, 5]


def test_more_than_the_memory_is_refused() -> None:
    arena = Arena(3, 4)
    arena.take(2)
    with pytest.raises(MemoryError, match="3 blocks"):
        arena.take(2)


def test_a_ring_holds_its_share_and_some_bursts_at_least() -> None:
    assert ring_rows(1e6, 1000, 4) == 1000
    assert ring_rows(1_000_999, 1000, 4) == 1000
    assert ring_rows(0, 1000, 4) == 32


@given(st.integers(24, 2000), st.sampled_from([1, 2, 4]), st.sampled_from(["accumulate", "hold"]))
def test_a_table_never_holds_more_than_its_memory(
    memory_bytes: int, ways: int, model: MemoryModel
) -> None:
    layout = StreamLayout(blocks=100, elements=6, last_elements=6)
    slots = memory_slots(memory_bytes, 0, 1, 24)
    if slots < ways:
        with pytest.raises(InputError, match="no set of slots"):
            Table(slots, layout, print, ways=ways, memory_model=model)
        return
    table = Table(slots, layout, lambda _: None, ways=ways, memory_model=model)
    table.open_round(0, 7)
    for sender in (1, 2):
        for block in range(100):
            table.add(0, sender, block, np.zeros((1, 6), np.int32), 0)
            assert 24 * table.occupied <= memory_bytes
    assert memory_bytes - 24 * ways < 24 * table.high_water <= memory_bytes

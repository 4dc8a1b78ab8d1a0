"""The benchmark sends what engines accept, and every engine gives it the true sums back."""

from collections import Counter

import numpy as np
import pytest

from agents.bursts import parse, runs
from agents.wire import PacketType
from benchmarks.aggregator import compare, soak
from benchmarks.aggregator_load import (
    JOB_ID,
    PARTS,
    Shape,
    Streams,
    datagram_elements,
    order,
    segments,
)
from benchmarks.aggregator_side import KINDS, take_whole

SHAPE = Shape(size=1400, senders=3, blocks=92, lag=1)


def test_the_streams_of_every_part_are_valid() -> None:
    streams = Streams(SHAPE, seed=1)
    assert SHAPE.stride == 128
    for part in (0, 1, PARTS - 1, PARTS, 77):
        streams.turn(part)
        round_index, base = part // PARTS, part % PARTS * 128
        rejects: Counter[str] = Counter()
        total = np.zeros_like(streams.sums)
        for sender in range(SHAPE.senders):
            burst = np.frombuffer(streams.burst(sender, 10, 40), np.uint8).copy()
            (batch,) = parse(
                burst, len(burst), 1400, kind=PacketType.DATA, job_id=JOB_ID, rejects=rejects
            )
            (run,) = runs(batch)
            assert (run.round, run.src, run.block, run.bitmap) == (
                round_index, sender, base + 10, 1 << sender,
            )  # fmt: skip
            total[10:50] += run.values
        assert not rejects
        np.testing.assert_array_equal(total[10:50], streams.sums[10:50])


def test_shapes() -> None:
    assert (segments(1400), segments(8900), segments(100)) == (46, 7, 64)
    assert (datagram_elements(1400), datagram_elements(8900)) == (336, 2211)
    assert SHAPE.held_blocks == 92
    assert Shape(8900, 3, 1000, 2).held_blocks == 5 * 7
    with pytest.raises(ValueError, match="1401"):
        datagram_elements(1401)


def test_a_part_is_sent_in_whole_and_each_sender_lags() -> None:
    sent = list(order(bursts=3, senders=2, lag=2))
    assert sent == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert list(order(bursts=2, senders=2, lag=1)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(order(4, 3, 1)) == [(sender, index) for sender in range(3) for index in range(4)]


def test_every_engine_takes_the_load_and_sends_true_sums() -> None:
    rows = compare(SHAPE, KINDS, seconds=0.1, repeats=1, ring_mb=1)
    assert [row["engine"] for row in rows] == list(KINDS)
    for row in rows:  # a wrong sum or a refused datagram would have raised
        assert row["datagram_bytes"] == 1400
        assert row["gbps_least"] <= row["gbps_per_core"] <= row["gbps_most"]
        assert row["gbps_per_core"] > 0
        assert row["ratio_to_bound"] > 0


def test_what_is_lost_on_the_way_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="2 of 3 of a part have come"):
        take_whole(lambda: None, lambda: 2, 3, longest_s=0.0)


def test_a_part_that_comes_late_is_waited_for() -> None:
    came: list[int] = []
    take_whole(lambda: came.append(1), lambda: len(came), 3)
    assert len(came) == 3


def test_a_soak_tells_time_and_memory() -> None:
    told = soak(SHAPE, 0.3, ring_mb=1)
    assert told["parts"] > 0
    assert told["datagrams"] == told["parts"] * SHAPE.datagrams
    assert told["ns_per_datagram_first"] > 0
    assert set(told) >= {"time_growth", "memory_growth_bytes"}

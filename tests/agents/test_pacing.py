"""Burst times: exact in bytes on the wire, in order, reproducible."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.pacing import Burst, burst_schedule, catch_up, slowed
from agents.wire import StreamLayout, stream_layout, wire_bytes

LAYOUT = stream_layout(17.9e6, 9000)


def test_a_burst_of_four_jumbo_datagrams_takes_265_microseconds_at_1_gbps() -> None:
    # 4 · 8290 bytes · 8 bit / 1 Gbit/s = 265.28 µs
    bursts = burst_schedule(LAYOUT, rate_gbps=1.0, offset_ns=1000, burst_datagrams=4)
    assert bursts[0] == Burst(1000, 0, 4, 33160, 0)
    assert bursts[1] == Burst(1000 + 265_280, 4, 4, 33160, 0)
    assert len(bursts) == 540


@given(
    st.integers(1, 300),
    st.integers(1, 352),
    st.floats(0.001, 100),
    st.integers(1, 7),
    st.integers(1, 8),
)
def test_every_block_leaves_once_per_copy_at_the_rate(
    blocks: int, last: int, rate_gbps: float, burst: int, copies: int
) -> None:
    layout = StreamLayout(blocks, 352, last)
    bursts = burst_schedule(
        layout, rate_gbps=rate_gbps, offset_ns=0, burst_datagrams=burst, copies=copies
    )
    assert sum(b.wire_bytes for b in bursts) == copies * layout.wire_bytes
    for copy in range(copies):
        mine = [b for b in bursts if b.copy == copy]
        sent = [block for b in mine for block in range(b.block, b.block + b.count)]
        assert sent == list(range(blocks))
        earlier = 0
        for b in mine:
            assert b.due_ns - mine[0].due_ns == pytest.approx(8 * earlier / rate_gbps, abs=1.01)
            earlier += b.wire_bytes
    assert [b.due_ns for b in bursts] == sorted(b.due_ns for b in bursts)


def test_copies_are_spread_evenly() -> None:
    layout = StreamLayout(4, 352, 352)
    bursts = burst_schedule(layout, rate_gbps=1.0, offset_ns=0, burst_datagrams=2, copies=2)
    burst_ns = 2 * wire_bytes(352) * 8
    assert [(b.copy, b.due_ns) for b in bursts] == [
        (0, 0),
        (1, burst_ns // 2),
        (0, burst_ns),
        (1, burst_ns * 3 // 2),
    ]


def test_jitter_is_bounded_ordered_and_seeded() -> None:
    def times(jitter_ns: int, *key: int) -> np.ndarray:
        bursts = burst_schedule(
            LAYOUT,
            rate_gbps=1.0,
            offset_ns=5000,
            burst_datagrams=4,
            jitter_ns=jitter_ns,
            jitter_key=key,
        )
        return np.array([b.due_ns for b in bursts])

    plain, jittered = times(0), times(20_000, 1, 2, 3)
    late = jittered - plain
    assert late.min() >= 0
    assert 15_000 < late.max() <= 20_000
    assert (np.diff(jittered) >= 0).all()
    assert (jittered == times(20_000, 1, 2, 3)).all()
    assert (jittered != times(20_000, 2, 2, 3)).any()
    # jitter longer than a burst must not let bursts overtake each other
    assert (np.diff(times(1_000_000, 1)) >= 0).all()


@given(
    st.integers(1, 60),
    st.integers(1, 3),
    st.integers(0, 200),
    st.integers(0, 40_000_000),
    st.randoms(use_true_random=False),
)
def test_what_is_left_of_a_stream_leaves_once_and_no_faster_than_planned(
    blocks: int, copies: int, gone: int, since_ns: int, random
) -> None:
    layout = StreamLayout(blocks, 352, 352)
    bursts = burst_schedule(
        layout, rate_gbps=0.01, offset_ns=1_000_000, burst_datagrams=4, copies=copies
    )
    sent = Counter(burst.block for burst in bursts[:gone])
    left = catch_up(bursts, sent, since_ns)
    assert Counter((b.block, b.copy) for b in left) == Counter(
        (b.block, b.copy) for b in bursts[gone:]
    )
    times = [burst.due_ns for burst in left]
    assert times == sorted(times)
    assert all(t >= since_ns for t in times)
    on_time = [burst for burst in bursts[gone:] if burst.due_ns >= since_ns]
    assert left[: len(on_time)] == on_time
    overdue = len(left) - len(on_time)
    if overdue > 1:  # they keep their distances
        planned = np.diff([burst.due_ns for burst in bursts[gone : gone + overdue]])
        np.testing.assert_array_equal(np.diff(times[len(on_time) :]), planned)


def test_a_stream_ends_later_by_as_long_as_its_sender_was_away() -> None:
    bursts = burst_schedule(LAYOUT, rate_gbps=1.0, offset_ns=0, burst_datagrams=4)
    sent = Counter(burst.block for burst in bursts[:100])
    left = catch_up(bursts, sent, bursts[130].due_ns)
    assert len(left) == len(bursts) - 100
    away_ns = bursts[130].due_ns - bursts[100].due_ns
    assert left[-1].due_ns - bursts[-1].due_ns == pytest.approx(away_ns, rel=1e-3)
    assert [burst.block for burst in left[-30:]] == [burst.block for burst in bursts[100:130]]


DUES = st.lists(st.integers(0, 1000), min_size=1, max_size=30).map(sorted)


def stream(dues: list[int]) -> list[Burst]:
    return [Burst(due, block, 1, 100, 0) for block, due in enumerate(dues)]


@given(DUES, st.integers(-500, 1500), st.integers(0, 800))
def test_a_sender_that_pauses_sends_nothing_then_and_all_of_it_later(
    dues: list[int], begin: int, length: int
) -> None:
    late = [b.due_ns for b in slowed(stream(dues), [(begin, begin + length, float("inf"))], 0)]
    assert not any(max(begin, dues[0]) <= due < begin + length for due in late)
    waits = max(0, begin + length - max(begin, dues[0]))
    assert late == [due if due < max(begin, dues[0]) else due + waits for due in dues]


@given(
    DUES,
    st.lists(
        st.tuples(st.integers(-100, 900), st.integers(0, 400), st.sampled_from([1.0, 3.0, 7.5])),
        max_size=3,
    ),
    st.integers(-100, 600),
)
def test_a_slow_sender_keeps_its_order_and_is_never_early(
    dues: list[int], windows: list[tuple[int, int, float]], free: int
) -> None:
    slow = sorted((begin, begin + length, factor) for begin, length, factor in windows)
    late = slowed(stream(dues), slow, free)
    assert [b.block for b in late] == list(range(len(dues)))
    assert [b.due_ns for b in late] == sorted(b.due_ns for b in late)
    assert late[0].due_ns >= free
    shift = max(0, free - dues[0])
    most = shift + sum((end - begin) * (1 - 1 / factor) for begin, end, factor in slow)
    for due, burst in zip(dues, late, strict=True):
        assert due + shift <= burst.due_ns + 1
        assert burst.due_ns <= due + most + 1


def test_a_sender_at_a_third_of_its_pace_for_a_while() -> None:
    late = slowed(stream([0, 10, 20, 30, 40]), [(10, 40, 3.0)], 0)
    assert [b.due_ns for b in late] == [0, 10, 40, 50, 60]
    assert slowed([], [(10, 40, 3.0)], 0) == []

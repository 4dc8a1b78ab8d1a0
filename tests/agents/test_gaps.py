"""The receiver's list of what is missing, against a plain set."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.recovery.bucket import TokenBucket
from agents.recovery.gaps import MAX_GAPS, NEVER_NS, WAIT_NS, GapCounters, GapTracker
from agents.recovery.rto import Rto

MS = 1_000_000


def tracker(depth: int = 10**6) -> GapTracker:
    return GapTracker(Rto(20 * MS, MS, 500 * MS), TokenBucket(1e3, depth), GapCounters())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 120), st.integers(1, 12)),
        st.tuples(st.just("gone"), st.integers(0, 120), st.integers(1, 30)),
        st.tuples(st.just("announce"), st.integers(0, 120), st.integers(0, 120)),
        st.tuples(st.just("poll"), st.integers(0, 40), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(steps, st.integers(1, 50))
def test_every_number_is_fresh_once_and_missing_until_then(
    calls: list[tuple[str, int, int]], depth: int
) -> None:
    gaps, now_ns, known = tracker(depth), 0, 0
    came: set[int] = set()
    lost: set[int] = set()
    for what, first, count in calls:
        now_ns += MS
        if what == "arrive":
            expected = set(range(first, first + count)) - came
            fresh = gaps.arrive(first, count, now_ns)
            assert {first + o + i for o, n in fresh for i in range(n)} == expected
            assert sum(n for _, n in fresh) == len(expected)
            came |= expected
            lost -= expected
            known = max(known, first + count)
        elif what == "gone":
            gone = set(range(first, min(first + count, known))) - came - lost
            assert gaps.unavailable(first, count) == len(gone)
            lost |= gone
        elif what == "announce":
            upcoming, oldest = max(first, count), min(first, count)
            known = max(known, upcoming)
            gone = set(range(oldest)) - came - lost
            assert gaps.announce(upcoming, oldest, now_ns) == (upcoming, len(gone))
            lost |= gone
        else:
            now_ns += first * MS
            for asked_first, asked in gaps.poll(now_ns):
                assert set(range(asked_first, asked_first + asked)) <= set(range(known))
                assert not set(range(asked_first, asked_first + asked)) & (came | lost)
        missing = set(range(known)) - came - lost
        assert gaps.next_seq == known
        assert gaps.pending == len(missing)
        assert gaps.counters.unavailable == len(lost)
        assert (gaps.due_ns < NEVER_NS) >= bool(missing)
        assert gaps.settled(known) == (not missing)
    counted = gaps.counters
    closed = sum(c.count for c in gaps.closed())
    assert closed == counted.late + counted.recovered
    assert counted.noticed == closed + gaps.pending + counted.unavailable


def test_a_gap_is_asked_for_after_a_wait_and_again_after_the_time_out() -> None:
    gaps = tracker()
    gaps.arrive(0, 1, 0)
    gaps.arrive(2, 1, 0)
    assert gaps.due_ns == WAIT_NS
    assert gaps.poll(WAIT_NS - 1) == []
    assert gaps.poll(WAIT_NS) == [(1, 1)]
    assert gaps.poll(WAIT_NS + 20 * MS - 1) == []
    assert gaps.poll(WAIT_NS + 20 * MS) == [(1, 1)]
    assert gaps.due_ns == WAIT_NS + 20 * MS + 30 * MS
    assert gaps.counters.requested == 2


def test_only_first_requests_are_measured() -> None:
    rto = Rto(20 * MS, MS, 500 * MS)
    gaps = GapTracker(rto, TokenBucket(1e3, 100), GapCounters())
    gaps.arrive(0, 1, 0)
    gaps.arrive(4, 3, 0)
    assert gaps.poll(0) == [(1, 3)]
    gaps.arrive(1, 1, 5 * MS)
    assert rto.srtt_ns == 5 * MS
    gaps.arrive(2, 1, 9 * MS)
    assert rto.srtt_ns == 5 * MS, "one measurement a request"
    assert gaps.due_ns <= 9 * MS + rto.timeout_ns(), "what comes restarts the timer"
    gaps.poll(60 * MS)
    gaps.arrive(3, 1, 61 * MS)
    assert rto.srtt_ns == 5 * MS, "nobody knows which request was answered"
    assert gaps.pending == 0


def test_a_large_gap_is_asked_for_as_the_bucket_allows() -> None:
    gaps = tracker(depth=10)
    gaps.arrive(0, 1, 0)
    gaps.arrive(101, 3, 0)
    assert gaps.poll(0) == [(1, 10)]
    assert gaps.due_ns == pytest.approx(MS, abs=2)
    assert gaps.poll(2 * MS) == [(11, 2)]


def test_the_memory_is_bounded() -> None:
    gaps = tracker()
    for seq in range(0, 4 * MAX_GAPS, 2):
        gaps.arrive(seq, 1, seq)
    assert gaps.pending == MAX_GAPS
    assert gaps.counters.unavailable == 2 * MAX_GAPS - 1 - MAX_GAPS


def test_a_gap_that_is_cut_ever_finer_is_bounded_too() -> None:
    gaps = tracker()
    gaps.arrive(0, 1, 0)
    gaps.arrive(8 * MAX_GAPS, 1, 0)
    for seq in range(2, 8 * MAX_GAPS, 4):
        gaps.arrive(seq, 1, seq)
    known = gaps.counters
    assert known.noticed == known.late + gaps.pending + known.unavailable
    assert gaps.pending <= 4 * MAX_GAPS


def test_a_late_one_that_was_given_up_is_still_taken() -> None:
    gaps = tracker()
    gaps.arrive(0, 1, 0)
    gaps.arrive(3, 1, 0)
    assert gaps.unavailable(1, 2) == 2
    assert list(gaps.arrive(2, 1, 1)) == [(0, 1)]
    assert (gaps.counters.unavailable, gaps.pending) == (1, 0)
    assert list(gaps.arrive(2, 1, 2)) == []
    assert gaps.counters.duplicate == 1


def test_nothing_is_hoped_for_after_the_end() -> None:
    gaps = tracker()
    gaps.arrive(5, 1, 0)
    assert gaps.abandon() == 5
    assert gaps.poll(10**12) == []
    assert gaps.due_ns == NEVER_NS

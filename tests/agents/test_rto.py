"""The retransmission time-out."""

from hypothesis import given
from hypothesis import strategies as st

from agents.recovery.rto import Rto

MS = 1_000_000


def rto() -> Rto:
    return Rto(initial_ns=20 * MS, floor_ns=MS, ceiling_ns=500 * MS)


def test_the_formula_of_rfc_6298() -> None:
    timer = rto()
    assert timer.timeout_ns() == 20 * MS
    timer.sample(8 * MS)
    assert timer.timeout_ns() == 8 * MS + 4 * 4 * MS
    timer.sample(16 * MS)
    srtt, variation = 8 * MS + MS, 4 * MS + MS
    assert timer.srtt_ns == srtt
    assert timer.timeout_ns() == srtt + 4 * variation


def test_each_try_waits_half_as_long_again() -> None:
    timer = rto()
    assert [timer.timeout_ns(k) / MS for k in (1, 2, 3)] == [20, 30, 45]
    assert timer.timeout_ns(1000) == 500 * MS


def test_a_back_off_holds_until_the_next_measurement() -> None:
    timer = rto()
    timer.back_off(0)
    timer.back_off(29 * MS)  # within the same time-out
    assert timer.timeout_ns() == 30 * MS
    timer.back_off(30 * MS)
    assert timer.timeout_ns() == timer.timeout_ns(3) == 45 * MS
    timer.sample(2 * MS)
    assert timer.timeout_ns() == 6 * MS


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**12))), st.integers(0, 100))
def test_it_stays_between_floor_and_ceiling(samples: list[int | None], tries: int) -> None:
    timer = rto()
    for now_ns, sample in enumerate(samples):
        if sample is None:
            timer.back_off(now_ns)
        else:
            timer.sample(sample)
        assert MS <= timer.timeout_ns(tries) <= 500 * MS


def test_a_constant_round_trip_time_keeps_a_margin() -> None:
    timer = rto()
    for _ in range(200):
        timer.sample(10 * MS)
    assert 11 * MS <= timer.timeout_ns() <= 11.01 * MS

"""Numbers that wrap."""

from hypothesis import given
from hypothesis import strategies as st

from agents.recovery.serial import WRAP, Epochs, unwrap

HALF = WRAP // 2


@given(st.integers(0, 2**60), st.integers(-HALF, HALF - 1))
def test_the_nearest_number_is_found(near: int, away: int) -> None:
    assert unwrap((near + away) % WRAP, near) == near + away


def test_an_earlier_process_is_refused_and_a_later_one_takes_over() -> None:
    epochs = Epochs()
    assert epochs.admits(3, 100)
    assert epochs.admits(3, 100)
    assert not epochs.admits(3, 99)
    assert epochs.admits(3, 101)
    assert not epochs.admits(3, 100)
    assert epochs.admits(4, 7)
    assert (epochs.latest(3), epochs.latest(4), epochs.latest(5)) == (101, 7, None)


def test_epochs_wrap() -> None:
    epochs = Epochs()
    assert epochs.admits(0, WRAP - 1)
    assert epochs.admits(0, 5)
    assert not epochs.admits(0, WRAP - 1)

"""Shares as people write them, and the thresholds that the kernel compares with."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.impairment import Impairment, burst_thresholds, threshold


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (0, 0),
        (100, 2**32 - 1),
        (50, 2**31 - 1),  # hit if 2^31 - 1 >= r: half of all r
        (1, round(0.01 * 2**32) - 1),
        (1e-9, 1),  # the least that is not never
    ],
)
def test_thresholds_by_hand(percent: float, expected: int) -> None:
    assert threshold(percent) == expected


@given(st.floats(1e-6, 100))
def test_a_share_survives_rounding_to_a_threshold(percent: float) -> None:
    found = Impairment(loss=threshold(percent)).loss_share
    assert found == pytest.approx(percent / 100, abs=1.1 / 2**32)


@given(st.floats(0.01, 60), st.floats(2, 1000))
def test_a_burst_loss_has_its_share_and_its_mean_length(percent: float, burst: float) -> None:
    enter, leave = burst_thresholds(percent, burst)
    impairment = Impairment(enter_burst=enter, leave_burst=leave)
    assert impairment.loss_share == pytest.approx(percent / 100, rel=0.01)
    assert impairment.mean_burst == pytest.approx(burst, rel=1e-6)


def test_the_chain_as_the_kernel_walks_it_loses_what_was_asked_for() -> None:
    # loss_gilb_ell() of Linux: the state of before the step decides about the packet.
    enter, leave = burst_thresholds(5, 4)
    steps = np.random.default_rng(1).integers(0, 2**32, 400_000)
    lost, bad = [], False
    for step in steps:
        lost.append(bad)
        bad = step >= leave if bad else step < enter
    runs = sum(1 for before, now in pairwise(lost) if now and not before)
    assert sum(lost) / len(lost) == pytest.approx(0.05, rel=0.05)
    assert sum(lost) / runs == pytest.approx(4, rel=0.05)


def test_bursts_that_cannot_be_are_refused_with_the_least_that_can() -> None:
    with pytest.raises(InputError, match=r"runs of 1 lost.* 60 % of loss: use runs of 1\.5 or"):
        burst_thresholds(60, 1)
    with pytest.raises(InputError, match="less than 100 %"):
        burst_thresholds(100, 5)

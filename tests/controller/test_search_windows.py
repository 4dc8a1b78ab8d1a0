"""Windows of rounds: never more than what a rotation really leaves."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.search.lifetimes import rms_lifetimes
from controller.search.local import Pool
from controller.search.partitions import all_partitions, averaging_stack
from controller.search.windows import Windows

PARTITIONS = all_partitions(6)
STACK = averaging_stack(PARTITIONS)
POOL = Pool(PARTITIONS, np.zeros(len(PARTITIONS)), STACK.reshape(len(PARTITIONS), -1))
WINDOWS = Windows(POOL)


@settings(max_examples=60, deadline=None)
@given(
    rounds=st.lists(st.integers(0, len(PARTITIONS) - 1), min_size=2, max_size=6),
    others=st.sets(st.integers(0, len(PARTITIONS) - 1), max_size=12),
)
def test_windows_bound_the_lifetime(rounds: list[int], others: set[int]) -> None:
    allowed = np.array(sorted({*rounds, *others}))
    lifetime = float(rms_lifetimes(STACK[rounds][None], 60.0)[0])
    if not WINDOWS.mixes(allowed):
        assert lifetime == math.inf
        return
    two = WINDOWS.two(allowed)
    three = WINDOWS.three(allowed, 99.0, math.inf)
    longer = [WINDOWS.longer(allowed, k, 99.0, math.inf) for k in (3, 4, 5)]
    for bound in (two, three, *longer):
        assert bound <= lifetime - 1 + 1e-6
    # Two ways to the same figure.
    assert longer[0] == pytest.approx(three, abs=1e-6)


def test_no_time_means_no_bound() -> None:
    everything = np.arange(len(PARTITIONS) - 20, len(PARTITIONS))
    assert WINDOWS.longer(everything, 4, 99.0, time.monotonic() - 1) == -math.inf


# Rounds that all leave out the first island, or keep two halves apart, never mix.
def test_rounds_that_never_mix() -> None:
    halves = np.flatnonzero((PARTITIONS[:, :3] != PARTITIONS[:, 3:4]).all(axis=1))
    apart = [i for i in halves if set(PARTITIONS[i, :3]).isdisjoint(PARTITIONS[i, 3:])]
    assert not WINDOWS.mixes(np.array(apart))
    assert WINDOWS.mixes(np.arange(len(PARTITIONS)))

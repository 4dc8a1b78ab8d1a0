"""Averages are nearest integers, start vectors orthogonal, the replay averages exactly."""

from fractions import Fraction

import numpy as np
import pytest
from agent_plans import rotating_plan
from hypothesis import given
from hypothesis import strategies as st

from agents.averaging import Replay, average, start_tables
from agents.weights import Range, range_of
from agents.wire import DType
from testbed.errors import InputError

SHAPE = (4, 256)


@given(st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20), st.integers(1, 64))
def test_an_average_is_the_nearest_integer_and_a_half_goes_to_the_even_one(
    totals: list[int], count: int
) -> None:
    means = average(np.array(totals, np.int32), count)
    assert means.dtype == np.int32
    assert means.tolist() == [round(Fraction(total, count)) for total in totals]


def test_rounding_errors_cancel_out() -> None:
    totals = np.arange(-3000, 3000, dtype=np.int32)
    for count in (2, 3, 4, 9):
        errors = average(totals, count) - totals / count
        assert abs(errors.mean()) < 1e-3
        assert np.abs(errors).max() <= 0.5


@pytest.mark.parametrize("dtype", [DType.I32, DType.F32])
@pytest.mark.parametrize("islands", [2, 9, 64])
def test_start_vectors_are_orthogonal_and_of_one_length(islands: int, dtype: DType) -> None:
    made = start_tables(1, islands, SHAPE, dtype)
    tables = np.array(made).reshape(islands, -1).astype(np.float64)
    sizes = range_of(dtype)
    gram = tables @ tables.T / tables.shape[1] / sizes.start_rms**2
    # rounding moves an element by up to half a step, at random
    np.testing.assert_allclose(gram, np.eye(islands), atol=0.5 / sizes.start_rms)
    assert np.abs(tables).max() < sizes.table
    assert np.abs(tables.mean(axis=1)).max() < 0.2 * sizes.start_rms


def test_start_vectors_follow_the_seed_and_the_island() -> None:
    one, again, other = (start_tables(seed, 3, SHAPE) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert len({table.tobytes() for table in [*one, *other]}) == 6


def test_vectors_of_few_elements_stay_as_drawn_and_within_range() -> None:
    tables, rms = start_tables(1, 9, (1, 5)), range_of(DType.I32).start_rms
    assert len({table.tobytes() for table in tables}) == 9
    for table in tables:
        assert np.sqrt(np.square(table.astype(np.float64)).mean()) == pytest.approx(rms)
    # five elements of equal mean square cannot exceed √5 of it
    assert max(np.abs(table).max() for table in tables) <= 5**0.5 * rms


def test_vectors_that_leave_the_fixed_point_range_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.averaging.range_of", lambda _: Range(1 << 22, 1 << 22, 1))
    with pytest.raises(InputError, match="fixed-point range"):
        start_tables(1, 9, SHAPE)


def test_the_replay_by_hand() -> None:
    """(0, 3), then (0, 1) and (2, 3): 1, 2, 5, 8 become 4, 2, 5, 4 (4.5 to even) and 3, 3, 4, 4."""
    plan = rotating_plan((("nyc", "sin"),), (("nyc", "lon"), ("tyo", "sin")))
    tables = [np.array([[value]], np.int32) for value in (1, 2, 5, 8)]
    replay = Replay(plan, 0, tables)
    assert replay.total(0).tolist() == [[9]]
    assert [int(table[0, 0]) for table in replay.tables] == [4, 2, 5, 4]
    assert replay.total(1).tolist() == [[6]]
    assert [int(table[0, 0]) for table in replay.tables] == [3, 3, 4, 4]
    assert replay.total(0).tolist() == [[9]]
    assert [int(table[0, 0]) for table in tables] == [1, 2, 5, 8]


def test_the_replay_keeps_two_rounds_and_knows_no_sum_of_an_idle_one() -> None:
    plan = rotating_plan((("nyc", "sin"),), (("lon", "tyo"),), count=6)
    replay = Replay(plan, 0, start_tables(1, 4, SHAPE))
    replay.total(4)
    for round_index in (0, 2, 3):
        with pytest.raises(KeyError):
            replay.total(round_index)

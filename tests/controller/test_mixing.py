"""Mixing: closed forms, the four norms, schedules that never mix."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.mixing import averaging_matrix, mix, survival_curve, timed_objective_ms
from controller.schedule import Schedule, load_schedule
from testbed.errors import InputError
from testbed.topology import load_topology

NINE = load_topology("nine-cities")
ROWS, COLUMNS = load_schedule("triangles", NINE).rounds


def lifetimes(*rounds: tuple[tuple[str, ...], ...]) -> dict[str, float]:
    return mix(Schedule("made", rounds), NINE.codes).lifetime


def test_averaging_is_doubly_stochastic_and_idle_islands_keep_theirs() -> None:
    matrix = averaging_matrix([[0, 2], [3, 4, 5]], 7)
    np.testing.assert_allclose(matrix.sum(axis=0), 1)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert matrix[1, 1] == matrix[6, 6] == 1
    assert matrix[0, 2] == 0.5
    assert matrix[4, 3] == pytest.approx(1 / 3)


def test_all_to_all_agrees_after_one_round() -> None:
    result = mix(load_schedule("all-to-all", NINE), NINE.codes)
    assert result.lifetime == {"rms": 1, "var": 1, "tv": 1, "reach": 1}
    assert result.survival == (1, 0)
    assert result.contraction == 0


# A grid of 3 × 3: after the rows an island knows 3 of 9, ‖W − J‖² = 3 − 1 = 2 of 8.
def test_triangles_by_hand() -> None:
    result = mix(load_schedule("triangles", NINE), NINE.codes)
    assert result.lifetime["rms"] == pytest.approx(1 + math.sqrt(2 / 8), abs=1e-9)
    assert result.lifetime["var"] == pytest.approx(1 + 2 / 8, abs=1e-9)
    assert result.lifetime["tv"] == pytest.approx(1 + (2 / 3) / (8 / 9), abs=1e-9)
    assert result.lifetime["reach"] == pytest.approx(1 + 6 / 8, abs=1e-9)
    assert result.survival == (1, 0.5, 0)
    assert result.contraction == 0


# Two phases see the other kind after one round, r − 1 phases have to wait: with r
# rounds of rows and one of columns S is 1, 1/2, then (r − 1)/(r + 1)/2, …
@pytest.mark.parametrize("repeats", [2, 3])
def test_repeated_regions_wait_for_the_cross_round(repeats: int) -> None:
    found = lifetimes(*[ROWS] * repeats, COLUMNS)
    waiting = sum(range(1, repeats)) / (repeats + 1)
    assert found["rms"] == pytest.approx(1.5 + waiting * 0.5, abs=1e-9)
    assert found["var"] == pytest.approx(1.25 + waiting * 0.25, abs=1e-9)
    assert found["tv"] == pytest.approx(1.75 + waiting * 0.75, abs=1e-9)


def test_pairs_on_the_line() -> None:
    result = mix(load_schedule("pairs", NINE), NINE.codes)
    # The plain sums over 4000 rounds, rounded.
    assert result.lifetime["rms"] == pytest.approx(7.538, abs=1e-3)
    assert result.lifetime["var"] == pytest.approx(8 / 3, abs=1e-9)
    assert result.lifetime["tv"] == pytest.approx(9.62, abs=5e-3)
    assert result.lifetime["reach"] == pytest.approx(23 / 6, abs=1e-9)
    assert 0.9 < result.contraction < 1


# The best rotation of four matchings, found by search; its figures to 0.01 are public.
FOUR_MATCHINGS = (
    ((0, 1), (2, 7), (3, 5), (4, 8)),
    ((0, 4), (1, 8), (3, 6), (5, 7)),
    ((0, 7), (1, 3), (2, 4), (6, 8)),
    ((1, 2), (3, 4), (5, 8), (6, 7)),
)


def test_four_rounds_of_pairs() -> None:
    rounds = [
        tuple(tuple(NINE.codes[i] for i in pair) for pair in pairs) for pairs in FOUR_MATCHINGS
    ]
    found = lifetimes(*rounds)
    # By the plain sums, to four digits; rounded they are 2.65, 1.80, 3.16 and 2.88.
    assert found["rms"] == pytest.approx(2.651, abs=1e-3)
    assert found["var"] == pytest.approx(1.798, abs=1e-3)
    assert found["tv"] == pytest.approx(3.155, abs=1e-3)
    assert found["reach"] == pytest.approx(23 / 8, abs=1e-9)
    matrices = [averaging_matrix(pairs, 9) for pairs in FOUR_MATCHINGS]
    assert found["rms"] == pytest.approx(sum(survival_curve(matrices, 400)), rel=1e-9)


# Two classes of parallel lines of the affine plane of order 3 agree exactly, like rows
# and columns; so do any two of the four.
def test_affine_plane_mixes_like_the_grid() -> None:
    lines = [
        [[x * 3 + (slope * x + c) % 3 for x in range(3)] for c in range(3)] for slope in range(3)
    ]
    matrices = [averaging_matrix(cliques, 9) for cliques in lines]
    assert survival_curve(matrices, 3) == [1, 0.5, 0]


def test_weights_keep_the_weighted_average() -> None:
    weights = [1.0, 2.0, 5.0, 1.0, 0.5]
    matrix = averaging_matrix([[0, 2], [1, 3, 4]], 5, weights)
    shares = np.array(weights) / sum(weights)
    np.testing.assert_allclose(shares @ matrix, shares)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert matrix[0, 2] == pytest.approx(5 / 6)


# Islands a, b, c with weights 1, 1, 2 and the pairs ab, bc in turn. Of two rounds the
# second leaves ‖W_bc W_ab‖² = tr(W_ab W_bc) − 1 in the weighted norm. By hand:
# W_ab has rows (½ ½ 0), (½ ½ 0), (0 0 1); W_bc (1 0 0), (0 ⅓ ⅔), (0 ⅓ ⅔).
def test_weighted_survival_by_hand() -> None:
    rounds = [
        averaging_matrix([[0, 1]], 3, [1, 1, 2]),
        averaging_matrix([[1, 2]], 3, [1, 1, 2]),
    ]
    curve = survival_curve(rounds, 3, "var", shares=np.array([0.25, 0.25, 0.5]))
    # Each has trace 2: one direction of two is left. tr(W_ab W_bc) = ½ + ⅙ + ⅔ = 4/3.
    assert curve == pytest.approx([1, 1 / 2, (4 / 3 - 1) / 2])


def test_equal_weights_change_nothing() -> None:
    schedule = load_schedule("pairs", NINE)
    equal = mix(schedule, NINE.codes, weights=dict.fromkeys(NINE.codes, 7.0))
    assert equal.lifetime == pytest.approx(mix(schedule, NINE.codes).lifetime)


def test_bad_weights_are_refused() -> None:
    schedule = load_schedule("pairs", NINE)
    with pytest.raises(InputError, match='"nyc" is missing'):
        mix(schedule, NINE.codes, weights={code: 1.0 for code in NINE.codes if code != "nyc"})
    with pytest.raises(InputError, match='"nyc" must be above 0'):
        mix(schedule, NINE.codes, weights={**dict.fromkeys(NINE.codes, 1.0), "nyc": 0.0})


# Rows take 300 ms, columns 500: from rows on 300 + 500 / 2, from columns on 500 + 300 / 2,
# on average 600, and half of the mean duration on top.
def test_rounds_of_different_durations() -> None:
    schedule = load_schedule("triangles", NINE)
    assert timed_objective_ms(schedule, NINE.codes, [300, 500]) == pytest.approx(600 + 200)
    pairs = load_schedule("pairs", NINE)
    lifetime = mix(pairs, NINE.codes).lifetime["rms"]
    assert timed_objective_ms(pairs, NINE.codes, [200, 200]) == pytest.approx(
        200 * (lifetime + 0.5), rel=1e-9
    )
    with pytest.raises(InputError, match="2 durations"):
        timed_objective_ms(pairs, NINE.codes, [200])


def test_decay_per_second() -> None:
    pairs = mix(load_schedule("pairs", NINE), NINE.codes)
    per_round = math.log(1 / pairs.contraction)
    assert pairs.decay_per_s(250.0) == pytest.approx(4 * per_round)
    assert mix(load_schedule("triangles", NINE), NINE.codes).decay_per_s(500.0) == math.inf
    assert mix(load_schedule("regional", NINE), NINE.codes).decay_per_s(500.0) == 0
    with pytest.raises(InputError, match="more than 0 ms"):
        pairs.decay_per_s(0.0)


def test_regions_alone_never_agree() -> None:
    result = mix(load_schedule("regional", NINE), NINE.codes)
    assert set(result.lifetime.values()) == {math.inf}
    assert result.contraction == 1
    assert result.survival[:3] == (1, 0.5, 0.5)


def test_an_idle_island_never_agrees() -> None:
    assert lifetimes((NINE.codes[:-1],))["rms"] == math.inf


def test_the_tail_of_a_slow_schedule_is_summed() -> None:
    codes = [f"c{i}" for i in range(32)]
    line = [(codes[i], codes[i + 1]) for i in range(31)]
    schedule = Schedule("line", (tuple(line[0::2]), tuple(line[1::2])))
    result = mix(schedule, codes)
    index = {code: i for i, code in enumerate(codes)}
    rounds = [averaging_matrix([[index[c] for c in q] for q in r], 32) for r in schedule.rounds]
    for norm in ("rms", "var", "tv"):
        plain = sum(survival_curve(rounds, 8000, norm))
        assert result.lifetime[norm] == pytest.approx(plain, rel=1e-9)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    rounds = []
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.permutations(NINE.codes))
        cuts = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=4)))
        cliques = [tuple(order[a:b]) for a, b in zip(cuts, [*cuts[1:], 9], strict=True)]
        cliques = [clique for clique in cliques if len(clique) > 1]
        rounds.append(tuple(cliques) or ((order[0], order[1]),))
    return Schedule("drawn", tuple(rounds))


@given(schedule=schedules(), data=st.data())
def test_lifetimes_do_not_depend_on_names_or_on_the_first_phase(
    schedule: Schedule, data: st.DataObject
) -> None:
    names = dict(zip(NINE.codes, data.draw(st.permutations(NINE.codes)), strict=True))
    shift = data.draw(st.integers(0, 3)) % len(schedule.rounds)
    renamed = tuple(
        tuple(tuple(names[code] for code in clique) for clique in cliques)
        for cliques in schedule.rounds
    )
    before = mix(schedule, NINE.codes)
    after = mix(Schedule("x", renamed[shift:] + renamed[:shift]), NINE.codes)
    for norm, value in before.lifetime.items():
        assert after.lifetime[norm] == pytest.approx(value, rel=1e-9)


@given(schedule=schedules(), data=st.data())
def test_weighted_errors_fall_whatever_the_weights(schedule: Schedule, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.floats(0.1, 10), min_size=9, max_size=9))
    weights = dict(zip(NINE.codes, values, strict=True))
    result = mix(schedule, NINE.codes, weights=weights)
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(result.survival))
    assert (result.lifetime["rms"] == math.inf) == (
        mix(schedule, NINE.codes).lifetime["rms"] == math.inf
    )
    assert result.contraction <= 1 + 1e-9


@given(schedule=schedules())
def test_survival_falls_from_one(schedule: Schedule) -> None:
    result = mix(schedule, NINE.codes)
    assert result.survival[0] == 1
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(result.survival))
    assert (result.lifetime["rms"] == math.inf) == (result.lifetime["reach"] == math.inf)
    assert 1 <= result.lifetime["var"] <= result.lifetime["rms"] + 1e-12
    # S(P) is at most ‖M_P − J‖₂, which the contraction is the P-th root of.
    period = len(schedule.rounds)
    if len(result.survival) > period and period == 1:
        assert result.survival[1] <= result.contraction + 1e-9

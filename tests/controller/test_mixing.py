"""Mixing: closed forms, the four norms, schedules that never mix."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.mixing import averaging_matrix, mix, survival_curve
from controller.schedule import Schedule, load_schedule
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

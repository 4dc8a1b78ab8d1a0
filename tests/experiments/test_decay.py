"""The survival curve from parameter vectors: known values, the rounding bound, and faults."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import Faults, make_run, nine_city_plan, triangle_plan

from agents.averaging import Replay, start_tables
from agents.weights import range_of
from agents.wire import DType
from controller.mixing import averaging_matrix
from controller.plan import Plan
from experiments.analysis import analyse_run
from experiments.decay import measure_decay, rounding_bound, start_lifetime
from testbed.errors import InputError

SHAPE = (4, 1024)
NINE = 9


def replayed(plan: Plan, seed: int = 1) -> list[np.ndarray]:
    """Every island's vectors, shape (rounds + 1, elements), if every sum arrives."""
    replay = Replay(plan, 0, start_tables(seed, len(plan.topology.codes), SHAPE))
    made = [np.array(replay.tables)]
    for _ in range(plan.rounds):
        replay.step()
        made.append(np.array(replay.tables))
    return list(np.array(made).swapaxes(0, 1).reshape(len(replay.tables), plan.rounds + 1, -1))


def plan_of(rounds: list[list[list[int]]], count: int) -> Plan:
    """Any cliques of city indices on the nine cities; only cliques and rounds matter here."""
    plan = nine_city_plan("triangles", rounds=count)
    codes = plan.topology.codes
    period = tuple(
        plan.period[0].model_copy(
            update={"cliques": tuple(tuple(codes[i] for i in clique) for clique in cliques)}
        )
        for cliques in rounds
    )
    return plan.model_copy(update={"period": period})


@pytest.mark.parametrize(
    ("schedule", "rounds", "curve", "lifetime"),
    [
        # a clique of three out of nine leaves √(2/8) of the disagreement, two such rounds nothing
        ("triangles", 4, [1, 0.5, 0, 0, 0], 1.5),
        ("all-to-all", 3, [1, 0, 0, 0], 1.0),
        ("regional", 4, [1, 0.5, 0.5, 0.5, 0.5], None),
        # four pairs leave √(4/8); the planner's A
        ("pairs", 8, [1, math.sqrt(0.5)], 7.538464556),
    ],
)
def test_the_named_schedules_decay_as_the_theory_says(schedule, rounds, curve, lifetime) -> None:
    plan = nine_city_plan(schedule, rounds=rounds)
    decay = measure_decay(replayed(plan), plan)
    assert len(decay.measured) == rounds + 1
    np.testing.assert_allclose(decay.measured[: len(curve)], curve, atol=2e-7)
    theory = [*plan.prediction.survival, *[0.0] * rounds][: rounds + 1]
    np.testing.assert_allclose(decay.measured, theory, atol=2e-7)
    assert (decay.deviation <= decay.bound).all()
    assert decay.error < 2e-7
    if lifetime is None:
        assert decay.lifetime is None
        assert plan.prediction.a_rms is None
    else:
        assert decay.lifetime == pytest.approx(lifetime, abs=1e-5)
        assert decay.lifetime == pytest.approx(plan.prediction.a_rms, abs=1e-5)


def test_a_run_measures_the_lifetime_of_its_own_start() -> None:
    """Rounds of different worth: from which one a disagreement starts makes a difference."""
    pairs, everybody = [[0, 1], [2, 3], [4, 5], [6, 7]], [list(range(9))]
    made = plan_of([pairs, everybody], 3)
    assert start_lifetime(made) == pytest.approx(1 + math.sqrt(0.5))
    assert start_lifetime(plan_of([everybody, pairs], 3)) == pytest.approx(1.0)
    decay = measure_decay(replayed(made), made)
    assert decay.lifetime == pytest.approx(start_lifetime(made), abs=1e-6)
    assert decay.seen == pytest.approx(decay.lifetime)


@pytest.mark.parametrize("schedule", ["triangles", "pairs", "all-to-all", "regional"])
def test_the_named_schedules_live_as_long_from_any_round(schedule) -> None:
    plan = nine_city_plan(schedule, rounds=2)
    lifetime = plan.prediction.a_rms
    assert start_lifetime(plan) == (None if lifetime is None else pytest.approx(lifetime))


def test_the_tail_is_what_more_rounds_would_show() -> None:
    short, long = (nine_city_plan("pairs", rounds=rounds) for rounds in (5, 60))
    early, late = (measure_decay(replayed(plan), plan) for plan in (short, long))
    assert early.tail == pytest.approx(late.measured[6:].sum() + late.tail, abs=1e-5)
    assert early.tail > 10 * late.tail


splits = st.lists(st.integers(0, 3), min_size=NINE, max_size=NINE).map(
    lambda groups: [
        clique
        for group in range(4)
        if len(clique := [i for i in range(NINE) if groups[i] == group]) > 1
    ]
)


@given(st.lists(splits, min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 50))
def test_rounding_never_exceeds_its_bound(rounds, count, seed) -> None:
    plan = plan_of(rounds, count)
    decay = measure_decay(replayed(plan, seed), plan)
    assert (decay.deviation <= decay.bound).all()
    assert (np.abs(decay.measured - decay.planned) <= decay.bound + 1e-8).all()
    assert decay.bound.max() < 0.6 * (count + 1) / range_of(DType.I32).start_rms


def test_the_rounding_bound_by_hand() -> None:
    everybody = averaging_matrix([range(4)], 4)
    np.testing.assert_allclose(rounding_bound([everybody], 3, 100), 0, atol=1e-13)
    # pairs that never mix: each of k rounds may add ½ to each of 4 · 100 elements
    apart = averaging_matrix([(0, 1), (2, 3)], 4)
    np.testing.assert_allclose(rounding_bound([apart], 3, 100), [0, 10, 20, 30])
    # the other pairs next: only the error of the last round is left
    other = averaging_matrix([(0, 2), (1, 3)], 4)
    np.testing.assert_allclose(rounding_bound([apart, other], 3, 100), [0, 10, 10, 10], atol=1e-13)


def test_half_a_step_is_rounding_and_a_step_and_a_half_is_not() -> None:
    plan = plan_of([[[0, 1], [2, 3, 4, 5, 6, 7, 8]]], 1)
    starts = np.zeros((NINE, 1, 64), np.int32)
    starts[0] += 3
    starts[1] += 4
    states = [np.array([table, table]) for table in starts.reshape(NINE, -1)]
    for city in (0, 1):
        states[city][1] = 4
    decay = measure_decay(states, plan)
    assert 0 < decay.deviation[1] <= decay.bound[1]
    for city in (0, 1):
        states[city][1] = 5
    decay = measure_decay(states, plan)
    assert decay.deviation[1] > decay.bound[1]


def test_equal_start_vectors_are_refused() -> None:
    plan = triangle_plan(rounds=1)
    with pytest.raises(InputError, match="same parameter vector"):
        measure_decay([np.ones((2, 8), np.int32)] * 3, plan)


def test_a_run_tells_its_curve_and_its_a(tmp_path) -> None:
    run_dir = make_run(tmp_path, nine_city_plan("triangles", rounds=3))
    summary = analyse_run(run_dir)
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["a_rms"] == 1.5
    assert summary["a_rms_measured"] == pytest.approx(1.5, abs=1e-6)
    assert summary["survival_planned"] == [1.0, 0.5, 0.0, 0.0]
    assert summary["survival_measured"] == pytest.approx([1, 0.5, 0, 0], abs=2e-7)
    assert summary["survival_error_max"] < 2e-7
    assert summary["state_error_max"] <= summary["state_error_bound"] < 1e-6
    table = pd.read_parquet(run_dir / "events" / "survival.parquet")
    assert list(table["k"]) == [0, 1, 2, 3]
    assert list(table["measured"]) == summary["survival_measured"]


def test_vectors_that_are_not_the_averages_fail_the_run(tmp_path) -> None:
    plan = nine_city_plan("triangles", rounds=2)
    off = Faults(states={(1, "fra"): 5})
    summary = analyse_run(make_run(tmp_path, plan, off))
    assert summary["verdict"] == "FAIL"
    assert "after 1 rounds the parameter vectors are" in summary["reasons"][0]
    assert summary["state_error_max"] > summary["state_error_bound"]
    unseen = analyse_run(make_run(tmp_path, plan, Faults(states={(0, "fra"): 0})))
    assert unseen["verdict"] == "PASS"


def test_old_states_are_the_price_of_a_forced_run_only(tmp_path) -> None:
    faults = Faults(stale={(0, "lon"): 2}, states={(1, "lon"): 900}, stale_blocks={(0, "nyc"): 4})
    plan = nine_city_plan("all-to-all", rounds=1)
    summary = analyse_run(make_run(tmp_path, plan, faults))
    assert summary["verdict"] == "FAIL"
    assert summary["stale_rows"] == 2
    assert any("2 parameter rows kept an older state" in r for r in summary["reasons"])
    assert any("(lon)" in r for r in summary["reasons"])
    forced = nine_city_plan("all-to-all", rounds=1, memory_bytes=0.0)
    assert analyse_run(make_run(tmp_path, forced, faults))["verdict"] == "DEGRADED"
    wrong = replace(faults, wrong_sums={(0, "chi", 0)})
    assert analyse_run(make_run(tmp_path, forced, wrong))["verdict"] == "FAIL"
    never = Faults(states={(1, "lon"): 900})
    assert analyse_run(make_run(tmp_path, forced, never))["verdict"] == "FAIL"

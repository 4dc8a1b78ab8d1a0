"""The optimiser: small networks against brute force, workers, seeds, fronts, proofs."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES

from controller.check import check_plan
from controller.optimizer import Optimum, Progress, optimize
from controller.schedule import load_schedule
from controller.search.candidates import families, relabel, starts
from controller.search.front import Point, pareto
from controller.search.lifetimes import rms_lifetimes
from controller.search.local import full_pool
from controller.search.longbound import bound_long
from controller.search.partitions import averaging_stack
from controller.search.roundtimes import RoundTimes
from controller.search.shortproof import prove_short
from testbed.errors import InputError
from testbed.generate import make_topology
from testbed.topology import Topology

SMALL = make_topology(5, seed=3)


def optimum(topology: Topology, *, workers: int, seed: int = 1, **options: float) -> Optimum:
    return optimize(
        topology,
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=options.get("memory_bytes", 32e9),
        budget_s=60.0,
        seed=seed,
        max_period=int(options.get("max_period", 3)),
        workers=workers,
        restarts=4,
        certificate_s=options.get("certificate_s", 0.0),
    )


def brute_force(times: RoundTimes, period: int) -> float:
    """Least objective of all rotations of up to so many rounds."""
    pool = full_pool(times)
    assert pool is not None
    rounds = [pool.row(i) for i in range(len(pool.labels))]
    t_ms = np.array([times.evaluate(labels, nodes=5_000).t_ms for labels in rounds])
    matrices = averaging_stack(pool.labels)
    best = math.inf
    for length in range(1, period + 1):
        chosen = np.array(list(itertools.product(range(len(rounds)), repeat=length)))
        lifetimes = rms_lifetimes(matrices[chosen], 60.0)
        best = min(best, float((t_ms[chosen].max(axis=1) * (lifetimes + 0.5)).min()))
    return best


@pytest.mark.parametrize("memory_bytes", [0.0, 32e9])
def test_two_rounds_of_five_islands_against_brute_force(memory_bytes: float) -> None:
    times = RoundTimes(SMALL, payload_bytes=PAYLOAD_BYTES, memory_bytes=memory_bytes)
    pool = full_pool(times)
    assert pool is not None
    best_ms = brute_force(times, 2)
    deadline = time.monotonic() + 60
    proof = prove_short(times, pool, best_ms * 1.5, deadline=deadline)
    assert proof.proved
    assert proof.objective_ms == pytest.approx(best_ms, rel=1e-3)
    assert proof.lower_ms <= best_ms
    assert proof.pairs == 51 * 52 // 2
    # Nothing better is found when the best is known.
    assert prove_short(times, pool, best_ms, deadline=deadline).rounds == ()
    found = optimum(SMALL, workers=1, memory_bytes=memory_bytes, max_period=2)
    assert found.best.objective_ms == pytest.approx(best_ms, rel=1e-3)


def test_long_bound_is_below_three_rounds_of_four_islands() -> None:
    times = RoundTimes(make_topology(4, seed=5), payload_bytes=PAYLOAD_BYTES, memory_bytes=32e9)
    pool = full_pool(times)
    assert pool is not None
    best_ms = brute_force(times, 3)
    bound_ms = bound_long(times, pool, 2 * best_ms, deadline=time.monotonic() + 60)
    assert 0.4 * best_ms < bound_ms <= best_ms * (1 + 1e-9)
    # Without any time a bound is left, only a weaker one.
    at_once_ms = bound_long(times, pool, 2 * best_ms, deadline=time.monotonic() - 1)
    assert 0 < at_once_ms <= bound_ms


def test_a_proof_without_time_claims_nothing() -> None:
    topology = make_topology(5, seed=3)
    times = RoundTimes(topology, payload_bytes=PAYLOAD_BYTES, memory_bytes=32e9)
    pool = full_pool(times)
    assert pool is not None
    best_ms = brute_force(times, 2)
    proof = prove_short(times, pool, 2 * best_ms, deadline=time.monotonic() - 1)
    assert not proof.proved
    assert 0 < proof.lower_ms <= best_ms


def test_the_answer_does_not_depend_on_the_workers() -> None:
    alone, both = optimum(SMALL, workers=1), optimum(SMALL, workers=2)
    assert alone.tasks_done == alone.tasks == both.tasks_done
    assert (alone.best, alone.front) == (both.best, both.front)


def test_plan_front_and_progress_of_an_answer() -> None:
    states: list[Progress] = []
    found = optimize(
        SMALL,
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=32e9,
        budget_s=30.0,
        restarts=2,
        certificate_s=20.0,
        progress=states.append,
    )
    assert [state.done for state in states] == list(range(1, states[-1].total + 1))
    assert found.plan.feasible
    assert not check_plan(found.plan)
    assert found.plan.prediction.t_ms == pytest.approx(found.best.t_ms, rel=2e-3)
    assert found.plan.prediction.a_rms == pytest.approx(found.best.lifetime, rel=1e-5)
    assert found.best.objective_ms == min(c.objective_ms for c in found.front)
    for one, other in itertools.permutations(found.front, 2):
        assert one.t_ms < other.t_ms or one.lifetime < other.lifetime
    assert found.certificate is not None
    assert found.certificate.short.proved
    assert found.certificate.long_lower_ms <= found.best.objective_ms
    assert "proved" in found.certificate.statement


def test_the_plan_of_a_large_network_uses_the_trees_of_the_search() -> None:
    """Sixteen islands: too many trees to list, and the integer program would take minutes."""
    found = optimize(
        make_topology(16, seed=1),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=32e9,
        budget_s=4.0,
        restarts=0,
    )
    assert found.plan.feasible
    assert not check_plan(found.plan)
    assert found.plan.prediction.t_ms == pytest.approx(found.best.t_ms, rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"payload_bytes": 0.0}, "payload must be"),
        ({"memory_bytes": -1.0}, "memory must be"),
        ({"budget_s": 0.0}, "time budget"),
        ({"max_period": 7}, "1 to 6 rounds"),
        ({"restarts": -1}, "restarts"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, float], message: str) -> None:
    good = {"payload_bytes": 1e9, "memory_bytes": 0.0, "budget_s": 1.0}
    with pytest.raises(InputError, match=message):
        optimize(SMALL, **{**good, **changed})  # type: ignore[arg-type]


points = st.builds(
    Point,
    st.integers(1, 9).map(float),
    st.integers(1, 9).map(float),
    st.just(((0, 0),)),
)


@given(drawn=st.lists(points, max_size=20))
def test_front_is_not_dominated_and_dominates_all(drawn: list[Point]) -> None:
    front = pareto(drawn)
    for one, other in itertools.permutations(front, 2):
        assert one.t_ms < other.t_ms or one.lifetime < other.lifetime
    for point in drawn:
        assert any(f.t_ms <= point.t_ms and f.lifetime <= point.lifetime for f in front)


# Known closed forms: boxes and parallel lines agree exactly after one round per axis.
@pytest.mark.parametrize(
    ("count", "family", "lifetime"),
    [
        (9, "grid 3×3", 1.5),
        (9, "affine plane, 2 classes", 1.5),
        (9, "affine plane, 4 classes", 1.5),
        (16, "grid 4×4", 1 + (3 / 15) ** 0.5),
        (8, "grid 2×2×2", 1 + (3 / 7) ** 0.5 + (1 / 7) ** 0.5),
    ],
)
def test_families_mix_as_they_should(count: int, family: str, lifetime: float) -> None:
    found = dict(families(count, 6))[family]
    stack = averaging_stack(np.array(found, dtype=np.int8))[None]
    assert rms_lifetimes(stack, 60.0)[0] == pytest.approx(lifetime, rel=1e-6)


@given(count=st.integers(4, 20), period=st.integers(2, 6), seed=st.integers(0, 9))
def test_families_are_proper_rounds(count: int, period: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(count).tolist()
    for _, rounds in families(count, period):
        for labels in rounds:
            assert len(labels) == count
            assert max(labels) < count - 1
            assert sorted(relabel(labels, order)).count(0) == labels.count(labels[order.index(0)])


def test_starts_include_the_named_schedules() -> None:
    named = {start.family for start in starts(NINE, 6)}
    assert {"triangles", "pairs", "all-to-all", "regional"} <= named
    assert load_schedule("triangles", NINE).rounds

"""Islands average what packets bring them: the measured survival curve is the planned one."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import cliquenet

from agents.averaging import Replay, start_tables
from agents.state import read_states
from agents.weights import table_shape
from agents.wire import stream_layout
from controller.plan import read_plan

pytestmark = pytest.mark.machine


@pytest.fixture(
    scope="module",
    params=[("triangles", 4, 1.5), ("pairs", 8, 7.538464556)],
    ids=["triangles", "pairs"],
)
def run(request, tmp_path_factory) -> tuple[Path, dict, float]:
    schedule, rounds, lifetime = request.param
    results = tmp_path_factory.mktemp(schedule)
    options = ("--schedule", schedule, "--rounds", str(rounds), "--payload", "60MB")
    done = cliquenet("experiment", "--results", str(results), *options)
    summary_path = results / "latest" / "summary.json"
    assert summary_path.is_file(), done.stdout + done.stderr
    return results / "latest", json.loads(summary_path.read_text()), lifetime


def test_the_measured_curve_is_the_planned_one_up_to_rounding(run) -> None:
    run_dir, summary, _ = run
    plan = read_plan(run_dir / "plan.json")
    planned = [*plan.prediction.survival, *[0.0] * plan.rounds][: plan.rounds + 1]
    # one rounding step is 1.2e-7 of an element's size
    np.testing.assert_allclose(summary["survival_measured"], planned, atol=2e-7)
    assert summary["survival_error_max"] < 2e-7
    assert summary["state_error_max"] <= summary["state_error_bound"] < 2e-6
    assert summary["stale_rows"] == 0
    assert summary["sums_exact"] is True


def test_the_measured_lifetime_is_the_planned_one(run) -> None:
    _, summary, lifetime = run
    assert summary["a_rms"] == pytest.approx(lifetime, abs=1e-6)
    assert summary["a_rms_measured"] == pytest.approx(lifetime, abs=1e-5)


def test_every_vector_is_what_exact_sums_give(run) -> None:
    run_dir, summary, _ = run
    plan = read_plan(run_dir / "plan.json")
    codes = plan.topology.codes
    shape = table_shape(stream_layout(plan.payload_bytes / plan.scale, 9000))
    paths = [run_dir / "raw" / f"island-{code}.state" for code in codes]
    states = [read_states(path, shape, plan.rounds) for path in paths]
    replay = Replay(plan, 0, start_tables(summary["seed"], len(codes), shape))
    for k in range(plan.rounds + 1):
        for mine, true in zip(states, replay.tables, strict=True):
            np.testing.assert_array_equal(mine[k], true.ravel())
        replay.step()

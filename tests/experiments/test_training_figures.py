"""Training in configs, plans and summaries: what is refused, and what records give."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic_run import make_run, triangle_plan

from agents.records import EVENT_DTYPE, Kind
from controller.plan import read_plan
from controller.training import Training
from experiments.analysis import analyse_run
from experiments.identity import identity
from experiments.planning import plan_experiment
from experiments.report import print_summary
from experiments.sources import load_config
from experiments.trainingfigures import (
    HostTraining,
    check_training,
    last_sums_ns,
    measure_host,
    pace_ms,
    training_entries,
)
from testbed.errors import InputError

MS = 1_000_000


def config(**values: str):
    return load_config(None, {"payload": "179MB", **values})


def training(loop: str = "synchronous", release: str = "data", syncs: int = 3) -> Training:
    return Training(compute_ms=10, loop=loop, release=release, syncs=syncs)


def records(*begins_ms: float, took_ms: float = 10) -> np.ndarray:
    """Steps that begin at these times."""
    events = np.zeros(len(begins_ms), EVENT_DTYPE)
    for event, begin_ms in zip(events, begins_ms, strict=True):
        event["kind"], event["value"] = Kind.COMPUTED, took_ms * MS
        event["t_ns"] = round((begin_ms + took_ms) * MS)
    return events


def test_a_synchronous_step_lasts_from_one_sum_to_the_next() -> None:
    # All begin at −10; this host had its sums at 25, 75 and 125.
    host = measure_host(records(-10, 25, 75), training(), 125 * MS)
    assert host == HostTraining(steps=3, step_ms=50.0, idle_share=0.8, slowest_ms=10.0)


def test_without_its_last_sum_a_step_less_counts() -> None:
    assert measure_host(records(-10, 25, 75), training(), None).step_ms == 50
    assert measure_host(records(-10, 25), training(), None) is None


def test_a_delayed_step_counts_over_whole_periods() -> None:
    steps = records(-10, 0, 40, 90, 120, 170)
    assert measure_host(steps, training("delayed"), 999 * MS, period=2).step_ms == 40
    assert measure_host(steps, training("delayed"), 999 * MS, period=3).step_ms == pytest.approx(
        130 / 3
    )
    assert measure_host(steps, training("delayed"), 999 * MS, period=4) is None


def test_local_steps_do_not_idle() -> None:
    host = measure_host(records(-10, 0, 10, 20), training("local"), None)
    assert (host.steps, host.step_ms, host.idle_share) == (4, 10, 0)


HOSTS = {
    "nyc": HostTraining(steps=3, step_ms=49.0, idle_share=0.79, slowest_ms=10.0),
    "lon": HostTraining(steps=3, step_ms=50.0, idle_share=0.80, slowest_ms=10.0),
}


def test_the_slowest_host_sets_the_pace() -> None:
    entry = training_entries(training(), HOSTS, 50.0)["training"]
    assert (entry["step_ms"], entry["idle_share"], entry["steps"]) == (50.0, 0.8, 6)
    assert check_training(training(), HOSTS, 50.0, 1.0) == []
    assert pace_ms(training(), HOSTS, 48.0) == 50.0
    assert pace_ms(training(release="planned"), HOSTS, 48.0) == 48.0
    assert pace_ms(training("delayed"), HOSTS, 48.0) == 48.0
    assert pace_ms(None, {}, 48.0) == 48.0
    assert training_entries(None, {}, 0.0) == {}


@pytest.mark.parametrize(
    ("release", "hosts", "planned_ms", "level", "text"),
    [
        ("planned", HOSTS, 45.0, "FAIL", "50.00 ms a step, planned 45.00 ms"),
        ("data", HOSTS, 45.0, "DEGRADED", "+11.11 %"),
        ("data", {**HOSTS, "tyo": None}, 50.0, "FAIL", "tyo: too few steps"),
        (
            "data",
            {"nyc": HostTraining(3, 50.0, 0.7, 15.0)},
            50.0,
            "FAIL",
            "nyc: a step took 15.000 ms to compute, not 10 ms",
        ),
    ],
)
def test_what_speaks_against_a_training(release, hosts, planned_ms, level, text) -> None:
    (finding,) = check_training(training(release=release), hosts, planned_ms, 1.0)
    assert finding.level == level
    assert text in finding.text


def test_the_last_sum_is_the_last_that_came() -> None:
    events = np.zeros(3, EVENT_DTYPE)
    events["kind"] = [Kind.AGGREGATE_IN, Kind.DATA_IN, Kind.EMIT]
    events["t_ns"] = [5, 7, 9]
    assert last_sums_ns([events, events[2:]]) == [7, None]


@pytest.mark.parametrize("schedule", ["all-to-all", "ring"])
def test_a_plan_holds_its_training(schedule: str, tmp_path) -> None:
    asked = config(schedule=schedule, compute_ms="20", rounds="3", release="data")
    plan = plan_experiment(asked)
    assert plan.training == Training(compute_ms=20, release="data", syncs=3)
    plan.write(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    t_ms = plan.prediction.t_ms
    if plan.collective is None:
        assert plan.round_interval_ms == pytest.approx(20 + t_ms)
        assert plan.rounds == 3
    else:
        assert plan.round_interval_ms > 3 * (20 + t_ms)
        assert plan.rounds == 1


def test_planned_rounds_keep_their_room() -> None:
    bare = plan_experiment(config(schedule="all-to-all"))
    for loop, more_ms in (("synchronous", 20), ("delayed", 0), ("local", 0)):
        asked = config(schedule="all-to-all", compute_ms="20", loop=loop, rounds="4")
        assert plan_experiment(asked).round_interval_ms == bare.round_interval_ms + more_ms
    assert bare.training is None


def test_training_counts_in_a_run_s_identity_only_where_there_is_some() -> None:
    bare = config(schedule="triangles")
    assert identity(bare) == identity(bare.model_copy(update={"release": "data"}))
    assert "loop" not in identity(bare)
    trained = config(schedule="triangles", compute_ms="20")
    other = trained.model_copy(update={"release": "data"})
    assert len({identity(bare), identity(trained), identity(other)}) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loop": "local"}, "LOOP means nothing where nothing is computed"),
        ({"compute_ms": "0"}, "a step takes time"),
        ({"compute_ms": "5", "rounds": "1", "schedule": "ring"}, "needs ROUNDS of 2 or more"),
        ({"compute_ms": "5", "rounds": "2"}, "needs ROUNDS of 3 or more, not 2"),
        ({"compute_ms": "5", "loop": "delayed"}, "needs ROUNDS of 5 or more, not 4"),
        ({"compute_ms": "5", "schedule": "in-network"}, "COMPUTE_MS means nothing with"),
        ({"compute_ms": "5", "release": "data", "memory": "0"}, "sends at offsets"),
        (
            {
                "compute_ms": "5",
                "events": "[{at_ms: 1, event: aggregator-restart, city: nyc, down_ms: 2}]",
            },
            "EVENTS in a training",
        ),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_experiment(config(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loop": "locl"}, "local"),
        ({"compute_ms": "-1"}, "COMPUTE_MS"),
        ({"compute_ms": "x"}, "COMPUTE_MS"),
    ],
)
def test_bad_values_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config(**values)


@pytest.mark.parametrize("release", ["planned", "data"])
def test_a_run_of_streams_says_how_long_its_islands_idled(release: str, tmp_path: Path) -> None:
    """Sums come 25.05 ms after each round's start; the rounds start 31 ms apart."""
    compute_ms, interval_ms = 5.0, 31.0
    plan = triangle_plan(rounds=3).model_copy(
        update={
            "training": Training(compute_ms=compute_ms, release=release, syncs=3),
            "round_interval_ms": interval_ms,
        }
    )
    run_dir = make_run(tmp_path, plan)
    steps = records(-5, 25.05, 25.05 + interval_ms, took_ms=compute_ms)
    for file in (run_dir / "raw").glob("island-*.bin"):
        file.write_bytes(file.read_bytes() + steps.tobytes())
    summary = analyse_run(run_dir)
    assert summary["verdict"] == "PASS", summary["reasons"]
    training = summary["training"]
    assert training["step_ms"] == pytest.approx(interval_ms, abs=0.1)
    assert training["idle_share"] == pytest.approx(1 - compute_ms / interval_ms, abs=0.01)
    assert training["steps"] == 9
    assert (summary["send_lateness"] is None) == (release == "data")
    console = Console(record=True, width=100)
    print_summary(run_dir, summary, console)
    assert "step, synchronous" in console.export_text()

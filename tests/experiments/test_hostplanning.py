"""Configs of collectives between hosts, and the plans that come of them."""

import pytest

from controller.plan import read_plan
from experiments.cli import main
from experiments.config import COLLECTIVES
from experiments.identity import run_prefix
from experiments.planning import plan_experiment
from experiments.run import make_runtime
from experiments.sources import load_config
from testbed.errors import InputError


def config(**values):
    return load_config(None, {"payload": "179MB", **values})


@pytest.mark.parametrize("schedule", COLLECTIVES)
def test_every_collective_is_planned_for_all_cities(schedule, tmp_path):
    plan = plan_experiment(config(schedule=schedule))
    hosts = plan.collective
    assert hosts.algorithm == COLLECTIVES[schedule]
    assert hosts.release == "planned"
    assert len(hosts.steps) == 9
    assert hosts.chunks % 9 == 0 or hosts.hub is not None
    assert hosts.bound_ms <= hosts.time_ms == plan.prediction.t_ms
    assert hosts.chunk_bytes * hosts.chunks == pytest.approx(179e6)
    assert plan.round(0).streams == ()
    plan.write(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_chunks_and_release_are_taken_as_given_and_bursts_are_single(tmp_path):
    asked = config(schedule="ring", chunks="18", release="data")
    plan = plan_experiment(asked)
    assert plan.collective.chunks == 18
    assert plan.collective.release == "data"
    assert make_runtime(asked, plan, tmp_path).burst_datagrams == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"memory": "0"}, "MEMORY means nothing with SCHEDULE=ring"),
        ({"multicast": "off"}, "MULTICAST means nothing"),
        ({"loss_percent": "1"}, "LOSS_PERCENT means nothing"),
        ({"tolerance_percent": "5"}, "TOLERANCE_PERCENT means nothing"),
        ({"chunks": "10"}, "chunks: 10 does not fit"),
        ({"payload": "9kB", "chunks": "900"}, "chunks are too small"),
        ({"payload": "5B"}, "chunks"),
    ],
)
def test_what_does_not_fit_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        plan_experiment(config(**{"schedule": "ring", **values}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunks": "9"}, "CHUNKS means nothing with SCHEDULE=in-network"),
        ({"release": "data"}, "RELEASE means nothing"),
        ({"model": "occupancy"}, "MODEL means nothing"),
        ({"memory": "1GB"}, "MEMORY means nothing"),
        ({"loss_percent": "1"}, "LOSS_PERCENT means nothing.*on links without loss"),
        ({"resend_ms": "20"}, "RESEND_MS means nothing"),
        ({"payload": "5kB"}, "less than one datagram"),
    ],
)
def test_what_a_sum_in_the_network_has_no_use_for_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        plan_experiment(config(**{"schedule": "in-network", **values}))


def test_a_sum_in_the_network_is_one_chunk_that_five_aggregators_add():
    asked = config(schedule="in-network", engine="reference", fifo_datagrams="20")
    plan = plan_experiment(asked)
    assert plan.collective.chunks == 1
    assert plan.aggregators == ("nyc", "chi", "lax", "lon", "tyo")
    # S / B and the way from Singapore to Los Angeles and back, a datagram at each switch.
    assert plan.collective.time_ms == pytest.approx(14.32 + 2 * 81.615, abs=0.5)
    assert plan.collective.bound_ms < plan.collective.time_ms
    assert plan_experiment(config(schedule="ring")).aggregators == ()
    assert len(plan_experiment(config(schedule="pairs")).aggregators) == 9


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["experiment", "--schedule", "halving-doublin"], 'did you mean "halving-doubling"?'),
        (["experiment", "--schedule", "ring", "--release", "soon"], 'RELEASE: "soon"'),
        (["experiment", "--schedule", "ring", "--chunks", "-1"], "CHUNKS"),
        (["experiment", "--schedule", "tacos", "--rounds", "2"], "ROUNDS means nothing"),
        (["plan", "--schedule", "tacos"], "make collective ALGORITHM=synthesised"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(capsys, argv, message):
    assert main(argv) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line != "planning …"]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert message in errors[0]


def test_each_switch_on_the_way_takes_a_datagram_in_whole():
    coarse, fine = (
        plan_experiment(config(schedule="ring", chunks="9", scale=scale)).collective
        for scale in ("100", "1")
    )
    one = {step.transfer: step for step in coarse.steps[0] if step.kind == "send"}
    for step in fine.steps[0]:
        if step.kind == "send":
            # 8290 bytes at 1 Gbit/s, before each link but the first one.
            hops = len(fine.paths[step.path].edges) + 1
            longer_ms = one[step.transfer].end_ms - one[step.transfer].start_ms
            longer_ms -= step.end_ms - step.start_ms
            assert longer_ms == pytest.approx(hops * 8290 * 8e-6 * 0.99, abs=1e-6)


def test_links_that_are_held_until_arrival_take_longer():
    held = plan_experiment(config(schedule="tacos", model="occupancy")).collective
    free = plan_experiment(config(schedule="tacos")).collective
    assert (held.model, free.model) == ("occupancy", "pipelined")
    assert held.time_ms > free.time_ms


def test_what_only_collectives_use_does_not_change_the_id_of_other_runs():
    assert run_prefix(config(chunks="9", release="data")) == run_prefix(config())
    ring = config(schedule="ring")
    assert run_prefix(config(schedule="ring", chunks="9")) != run_prefix(ring)
    assert run_prefix(config(schedule="ring", release="data")) != run_prefix(ring)

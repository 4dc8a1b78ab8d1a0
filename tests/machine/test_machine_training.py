"""Hosts that compute between synchronisations, on packets: a step takes what its loop says."""

import pytest
from one_boot import run_in_one_boot

from agents.native.build import ensure_kernel_library
from experiments.analyse import analyse

pytestmark = pytest.mark.machine
COMPUTE_MS = 25
SHARED = f"payload: 400MB\ncompute_ms: {COMPUTE_MS}\n"
# Single datagrams: a burst takes long, against so short a round.
STREAMS = SHARED + "schedule: {folder}/all.yaml\nburst_datagrams: 1\n"
HOSTS = SHARED + "schedule: ring\nchunks: 6\n"
RUNS = {
    "ring": HOSTS + "rounds: 3\n",
    "ring-local": HOSTS + "rounds: 2\nloop: local\n",
    "streams": STREAMS + "rounds: 3\nrelease: data\n",
    "streams-planned": STREAMS + "rounds: 2\n",
    "streams-delayed": STREAMS + "rounds: 4\nloop: delayed\n",
    "streams-local": STREAMS + "rounds: 2\nloop: local\n",
}


@pytest.fixture(scope="module")
def summaries(tmp_path_factory) -> dict[str, dict]:
    ensure_kernel_library()
    made = run_in_one_boot(tmp_path_factory.mktemp("training"), RUNS)
    return {name: analyse(run_dir) for name, run_dir in made.items()}


@pytest.mark.parametrize("name", RUNS)
def test_every_sum_is_exact(summaries: dict[str, dict], name: str) -> None:
    summary = summaries[name]
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["sums_exact"] is True
    assert summary["packets_lost"] == 0


@pytest.mark.parametrize("name", ["ring", "streams"])
def test_a_synchronous_step_is_its_compute_time_and_its_synchronisation(
    summaries: dict[str, dict], name: str
) -> None:
    training = summaries[name]["training"]
    step_ms = COMPUTE_MS + summaries[name]["t_planned_ms"]
    assert training["step_planned_ms"] == pytest.approx(step_ms)
    assert training["step_ms"] == pytest.approx(step_ms, rel=0.01)
    assert training["idle_share"] == pytest.approx(1 - COMPUTE_MS / step_ms, abs=0.01)
    assert training["steps"] == 3 * training["syncs"]


def test_a_planned_round_waits_for_its_start(summaries: dict[str, dict]) -> None:
    training = summaries["streams-planned"]["training"]
    assert training["step_ms"] == pytest.approx(training["step_planned_ms"], rel=0.01)


def test_a_delayed_step_is_computed_while_a_round_goes_on(summaries: dict[str, dict]) -> None:
    training = summaries["streams-delayed"]["training"]
    assert COMPUTE_MS < training["step_ms"] < COMPUTE_MS + summaries["streams"]["t_measured_ms"]
    assert training["step_ms"] == pytest.approx(training["step_planned_ms"], rel=0.01)
    assert training["idle_share"] == pytest.approx(1 - COMPUTE_MS / training["step_ms"], abs=1e-3)


@pytest.mark.parametrize("name", ["ring-local", "streams-local"])
def test_local_steps_never_wait_and_cost_the_network_nothing(
    summaries: dict[str, dict], name: str
) -> None:
    training = summaries[name]["training"]
    assert training["step_ms"] == pytest.approx(COMPUTE_MS, rel=1e-4)
    assert training["idle_share"] == pytest.approx(0, abs=1e-4)
    assert training["steps"] > 3 * training["syncs"]
    assert abs(summaries[name]["t_error_percent"]) <= 1.0

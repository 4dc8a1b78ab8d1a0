"""Islands and hosts as processes over loopback, which compute before they synchronise."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from agent_plans import CODES, make_plan
from agent_processes import Processes, run_all
from test_collective import plan_of, run_hosts

from agents.records import Kind, read_events
from controller.plan import Plan
from controller.training import Training

COMPUTE_MS = 30.0
SYNCS = 4


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.kill_all()


def trained(plan: Plan, loop: str, release: str = "data") -> Plan:
    training = Training(compute_ms=COMPUTE_MS, loop=loop, release=release, syncs=SYNCS)
    return plan.model_copy(update={"training": training})


def spans(events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end of every step, in ns since the start."""
    done = events[events["kind"] == Kind.COMPUTED]
    return done["t_ns"] - done["value"].astype(np.int64), done["t_ns"]


def round_times(events: np.ndarray, kind: Kind, pick: str) -> list[int]:
    of_kind = events[events["kind"] == kind]
    return [int(getattr(of_kind["t_ns"][of_kind["round"] == k], pick)()) for k in range(SYNCS)]


@pytest.mark.parametrize("release", ["planned", "data"])
def test_an_island_computes_then_sends_then_waits_for_the_sum(
    processes: Processes, tmp_path: Path, release: str
) -> None:
    plan = make_plan(blocks=10, rounds=SYNCS, interval_ms=300, rate_gbps=0.1)
    counters = run_all(processes, trained(plan, "synchronous", release), tmp_path)
    for code in CODES:
        assert counters[f"island-{code}"]["complete"]
        events = read_events(tmp_path / f"island-{code}.bin")
        begins_ns, ends_ns = spans(events)
        assert len(ends_ns) == SYNCS
        assert (ends_ns - begins_ns >= COMPUTE_MS * 1e6 - 1).all()
        sent_ns = round_times(events, Kind.EMIT, "min")
        summed_ns = round_times(events, Kind.AGGREGATE_IN, "max")
        assert (np.array(sent_ns) >= ends_ns).all()
        assert (begins_ns[1:] >= np.array(summed_ns[:-1])).all()
        if release == "planned":
            assert all(at >= k * 300e6 for k, at in enumerate(sent_ns))


def test_an_island_of_a_delayed_loop_computes_while_its_round_goes_on(
    processes: Processes, tmp_path: Path
) -> None:
    plan = make_plan(blocks=60, rounds=SYNCS, interval_ms=300, rate_gbps=0.1)
    counters = run_all(processes, trained(plan, "delayed", "planned"), tmp_path)
    for code in CODES:
        assert counters[f"island-{code}"]["complete"]
        events = read_events(tmp_path / f"island-{code}.bin")
        begins_ns, _ = spans(events)
        summed_ns = round_times(events, Kind.AGGREGATE_IN, "max")
        assert (begins_ns[2:] >= np.array(summed_ns[:-2])).all()
        assert (begins_ns[1:] < np.array(summed_ns[:-1])).all()


@pytest.mark.parametrize("release", ["planned", "data"])
@pytest.mark.parametrize("loop", ["synchronous", "local"])
def test_hosts_get_the_true_sum_of_every_step(
    processes: Processes, tmp_path: Path, loop: str, release: str
) -> None:
    plan = trained(plan_of("ring", release), loop, release)
    counters = run_hosts(processes, plan, tmp_path, burst_datagrams=1)
    for code, counted in zip(CODES, counters, strict=True):
        assert counted["complete"]
        assert counted["chunks_exact"] == counted["chunks"] == SYNCS * plan.collective.chunks
        events = read_events(tmp_path / f"collective-{code}.bin")
        begins_ns, ends_ns = spans(events)
        sent = events[events["kind"] == Kind.EMIT]
        first_ns = [
            sent["t_ns"][sent["round"] // plan.collective.transfers == k].min()
            for k in range(SYNCS)
        ]
        if loop == "synchronous":
            assert len(ends_ns) == SYNCS
            assert (np.array(first_ns) >= ends_ns).all()
            assert counted["done_ns"] > ends_ns[-1]
        else:
            assert (begins_ns[1:] - begins_ns[:-1] == round(COMPUTE_MS * 1e6)).all()

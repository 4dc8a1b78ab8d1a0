"""The timer that stands for a host's processors: what it waits for, and what it records."""

from pathlib import Path

import pytest
from agent_plans import make_plan
from hypothesis import given
from hypothesis import strategies as st

from agents.context import AgentContext
from agents.gpu import Gpu
from agents.records import Kind, Recorder
from agents.rounds import NEVER_NS
from controller.training import Training

START_NS = 1_000_000_000
MS = 1_000_000
AHEAD = {"synchronous": 0, "delayed": 1, "local": 10**9}


def gpu_of(loop: str, syncs: int = 4) -> tuple[Gpu, Recorder]:
    plan = make_plan(rounds=syncs)
    ctx = AgentContext(plan=plan, city=1, start_ns=START_NS, out_dir=Path())
    recorder = Recorder()
    return Gpu(ctx, Training(compute_ms=10, loop=loop, syncs=syncs), recorder), recorder


@pytest.mark.parametrize("loop", AHEAD)
def test_the_first_step_ends_at_the_start(loop: str) -> None:
    gpu, recorder = gpu_of(loop)
    gpu.advance(START_NS - 1, 0)
    assert (gpu.steps, gpu.due_ns) == (0, START_NS)
    assert not (gpu.may_send(0, 0) and loop != "local")
    gpu.advance(START_NS, 0)
    assert gpu.steps == 1
    assert gpu.may_send(0, 0)
    assert not gpu.may_send(1, 0)
    (event,) = recorder.array()
    assert (event["kind"], event["src"], event["block"]) == (Kind.COMPUTED, 1, 0)
    assert (event["t_ns"], event["value"]) == (0, 10 * MS)


def test_a_synchronous_step_begins_with_the_sum_before_it() -> None:
    gpu, _ = gpu_of("synchronous", syncs=2)
    gpu.advance(START_NS + 5, 0)
    assert gpu.due_ns == NEVER_NS
    gpu.advance(START_NS + 70 * MS, 1)
    assert gpu.due_ns == START_NS + 80 * MS
    assert not gpu.may_send(1, 1)
    gpu.advance(START_NS + 80 * MS, 1)
    assert gpu.may_send(1, 1)
    gpu.advance(START_NS + 150 * MS, 2)  # no step is left
    assert (gpu.steps, gpu.due_ns) == (2, NEVER_NS)


def test_a_delayed_step_begins_with_the_sum_before_the_last() -> None:
    gpu, _ = gpu_of("delayed")
    gpu.advance(START_NS, 0)
    assert gpu.due_ns == START_NS + 10 * MS
    gpu.advance(gpu.due_ns, 0)
    assert (gpu.steps, gpu.due_ns) == (2, NEVER_NS)
    assert not gpu.may_send(1, 0)
    assert gpu.may_send(1, 1)


def test_local_steps_have_no_gaps_however_late_anybody_looks() -> None:
    gpu, recorder = gpu_of("local")
    gpu.advance(START_NS + 3 * MS, 0)
    assert gpu.due_ns == START_NS + 10 * MS
    gpu.advance(START_NS + 47 * MS, 0)
    assert (gpu.steps, gpu.due_ns) == (5, START_NS + 50 * MS)
    assert [event["block"] for event in recorder.array()] == [0, 1, 2, 3, 4]


@given(
    loop=st.sampled_from(["synchronous", "delayed"]),
    looks=st.lists(st.tuples(st.integers(1, 30 * MS), st.integers(0, 1)), max_size=40),
)
def test_nobody_is_further_ahead_than_the_loop_says(loop: str, looks: list) -> None:
    gpu, recorder = gpu_of(loop)
    now_ns, sums = START_NS, 0
    for later_ns, more in looks:
        now_ns += later_ns
        sums = min(sums + more, gpu.steps)  # what was not computed is in no sum
        before = gpu.steps
        gpu.advance(now_ns, sums)
        assert before <= gpu.steps <= min(4, sums + AHEAD[loop] + 1)
        assert gpu.due_ns == NEVER_NS or gpu.due_ns > now_ns
    events = recorder.array()
    assert (events["value"] >= 10 * MS).all()
    begins = (events["t_ns"].astype(int) - events["value"].astype(int)).tolist()
    ends = events["t_ns"].tolist()
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))

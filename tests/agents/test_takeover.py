"""Hosts that get another schedule: what they drop, begin again with, and carry out."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from agent_plans import CODES, WIRE_BYTES_PER_BLOCK
from agent_processes import Processes, context
from test_collective import CHUNKS, plan_of

from agents.collective import run_collective
from agents.dependencies import Dependencies
from agents.operands import Operands, chunk_layout, operand
from agents.orders import Message, Orders
from agents.records import Kind, read_events
from agents.takeover import TakeOver, read_take_over
from controller.hostplan import HOLD, NOTHING, OWN, WITH_OWN, HostStep
from experiments.replanner import Candidate, Replanner
from experiments.results import read_json
from experiments.takeovers import Question
from testbed.errors import CliquenetError

_LEAD_NS = 3_000_000_000
_LATER_NS = 100_000_000
FIRST_LINK = (0, 1)


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.kill_all()


def part(candidate: Candidate, city: int, zero_ns: int) -> TakeOver:
    state = candidate.found.state
    return TakeOver(
        zero_ns=zero_ns,
        paths=candidate.hosts.paths,
        steps=candidate.hosts.steps[city],
        origins=candidate.hosts.origins[city],
        arrived=frozenset(state.arrived_at(city)),
        flying=frozenset(f.transfer for f in state.flights if f.target == city),
    )


def replies(orders: Orders, count: int) -> list[Message]:
    came: list[Message] = []
    while len(came) < count:
        came += orders.receive()
    return came


def begin(processes: Processes, out_dir: Path, start_ns: int) -> tuple[list[Orders], list[int]]:
    plan = plan_of("ring", "planned").model_copy(update={"round_interval_ms": 20_000.0})
    ends, pids = [], []
    for city in range(len(CODES)):
        near, far = socket.socketpair()
        ctx = context(plan, city, out_dir, start_ns, burst_datagrams=1, orders=far)
        pids.append(processes.start(run_collective, ctx))
        far.close()
        ends.append(Orders(near))
    return ends, pids


def test_hosts_take_over_and_hold_the_true_sums(processes: Processes, tmp_path: Path) -> None:
    replanner = Replanner(plan_of("ring", "planned"), 9000, 1)
    question = Question(
        down=FIRST_LINK, breaks=((FIRST_LINK, 0),), until_ns=0, resume_ns=0, landed=()
    )
    candidate = replanner.plan(question)
    state = replanner.state(question)
    start_ns = time.monotonic_ns() + _LEAD_NS
    hosts, pids = begin(processes, tmp_path, start_ns)
    zero_ns = start_ns + _LATER_NS
    for city, host in enumerate(hosts):
        host.send(order="report")
        host.send(order="narrow", dropped=sorted(state.dropped))
        assert replies(host, 2) == [
            {"reply": "report", "applied": []},
            {"reply": "narrow", "applied": []},
        ]
        host.send(**part(candidate, city, zero_ns).order())
    for host in hosts:
        assert replies(host, 1) == [{"reply": "done", "zero_ns": zero_ns}]
    for host in hosts:
        host.send(order="finish")
    assert [processes.wait(pid) for pid in pids] == [0] * len(CODES)
    for code in CODES:
        counted = read_json(tmp_path / f"collective-{code}.json")
        assert counted["chunks_exact"] == CHUNKS
        assert counted["drops"] == {}
        events = read_events(tmp_path / f"collective-{code}.bin")
        sent = events["round"][events["kind"] == Kind.EMIT]
        assert min(sent) >= state.next_transfer
        assert min(events["t_ns"]) >= _LATER_NS


def test_a_host_in_another_state_says_so_and_ends(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    replanner = Replanner(plan_of("ring", "planned"), 9000, 1)
    question = Question(breaks=(), until_ns=0, resume_ns=0, landed=())
    start_ns = time.monotonic_ns() + _LEAD_NS
    wrong = part(replanner.plan(question), 0, start_ns).model_copy(
        update={"arrived": frozenset({3})}
    )
    hosts, pids = begin(processes, tmp_path, start_ns)
    hosts[0].send(order="narrow", dropped=sorted(replanner.state(question).dropped))
    hosts[0].send(**wrong.order())
    assert processes.wait(pids[0]) == 1
    assert "transfers [3] have not arrived, [] have" in capfd.readouterr().err


def test_an_order_survives_the_way_and_a_damaged_one_is_refused() -> None:
    step = HostStep("reduce", 7, 1, 0, 1.0, 2.0, (0,))
    made = TakeOver(
        zero_ns=5,
        paths=(),
        steps=(step,),
        origins=HOLD + OWN,
        arrived=frozenset({1}),
        flying=frozenset(),
    )
    near, far = (Orders(end) for end in socket.socketpair())
    near.send(**made.order())
    assert [read_take_over(order) for order in far.receive()] == [made]
    with pytest.raises(CliquenetError, match="damaged order"):
        read_take_over({"order": "take-over", "part": {"zero_ns": "soon"}})


def test_dropped_steps_are_passed_over_and_never_done() -> None:
    steps = [
        HostStep("send", 0, 0, 0, 0.0, 1.0, ()),
        HostStep("reduce", 1, 1, 0, 0.0, 1.0, ()),
        HostStep("send", 2, 1, 0, 0.0, 1.0, (1,)),
        HostStep("send", 3, 2, 0, 0.0, 1.0, ()),
    ]
    made = Dependencies(steps)
    assert made.arrived(1) == [steps[1]]
    assert made.drop({0, 2, 5}) == set()
    assert made.next_send() == steps[3]
    assert made.sends_left == 1
    made.sent()
    assert made.sends_left == 0
    assert made.next_send() is None
    assert not made.done
    assert made.drop({1}) == {1}
    assert made.expects(1) is None


def test_chunks_begin_with_what_is_said() -> None:
    layout = chunk_layout(2 * WIRE_BYTES_PER_BLOCK, 9000)
    made = Operands(3, 1, 4, layout)
    for chunk in range(4):
        values = np.full((layout.blocks, layout.elements), 5, np.int32)
        assert made.take(chunk, 0, values) == ""
        made.apply(chunk, chunk, adds=False)
    assert made.take(8, 0, values[:1]) == ""
    assert made.take(9, 0, values[:1]) == ""
    made.begin_again(HOLD + OWN + NOTHING + WITH_OWN, {9})
    own = [operand(3, 1, chunk, layout) for chunk in range(4)]
    for chunk, wanted in enumerate((values, own[1], 0 * values, own[3] + values)):
        assert (made.copy(chunk) == wanted).all()
    assert made.take(8, 0, values[:1]) == ""
    assert made.take(9, 0, values[:1]) == "duplicate"

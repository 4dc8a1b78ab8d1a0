"""When an island gives a block up for lost, and whom it asks then."""

from collections import Counter
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from agent_plans import make_plan

from agents.bursts import Run
from agents.context import NS_PER_MS, AgentContext, Endpoint
from agents.records import Kind, Recorder
from agents.recovery.control import REPAIR, Control, decode
from agents.recovery.overdue import OVERDUE_NS
from agents.repairer import QUIET_NS, Repairer
from agents.sockets import ControlSocket
from agents.wire import Cause, PacketType

NYC, LON, TYO = 0, 1, 2
BLOCKS = 40


class Bench:
    """Nyc in round 0; its requests end here."""

    def __init__(self) -> None:
        plan = make_plan(blocks=BLOCKS, interval_ms=1000)
        self.ctx = AgentContext(
            plan=plan, city=NYC, start_ns=0, out_dir=Path(), resend_ms=1, repair=True
        )
        self.seen: npt.NDArray[np.uint64] = np.zeros(BLOCKS, np.uint64)
        self.asked: list[tuple[Control, Endpoint]] = []
        self.recorder = Recorder()
        socket = cast(ControlSocket, self)
        self.repairer = Repairer(self.ctx, 1, socket, self.recorder, lambda _: self.seen)
        self.repairer.open_round(0)
        self.end_ns = round(plan.period[0].t_ms * NS_PER_MS)

    def send(self, datagram: bytes, to: Endpoint) -> None:
        """`ControlSocket.send`."""
        rejects: Counter[str] = Counter()
        message = decode(datagram, self.ctx.job_id, rejects)
        assert message is not None, rejects
        self.asked.append((message, to))

    def sum(self, block: int, count: int, bitmap: int, cause: Cause, now_ns: int) -> None:
        """A sum comes."""
        self.come(PacketType.AGG, NYC, block, count, bitmap, cause, now_ns)

    def come(
        self,
        kind: PacketType,
        src: int,
        block: int,
        count: int,
        bitmap: int,
        cause: Cause,
        now_ns: int,
    ) -> None:
        self.seen[block : block + count] |= np.uint64(bitmap)
        values = np.zeros((count, 2048), np.int32)
        run = Run(
            round=0,
            clique=0,
            src=src,
            cause=cause,
            bitmap=bitmap,
            block=block,
            epoch=1,
            seq=0,
            flags=0,
            exponent=0,
            values=values,
        )
        self.repairer.took(run, kind, now_ns)

    def poll(self, now_ns: int, settled: bool = False) -> list[tuple[int, int, tuple[object, ...]]]:
        """Requests made now: round, city asked, ranges."""
        self.asked.clear()
        self.repairer.poll(now_ns, lambda _: settled)
        assert all(m.flags == REPAIR and m.src == NYC for m, _ in self.asked)
        cities = {self.ctx.addresses.island(city)[0]: city for city in (NYC, LON, TYO)}
        return [(m.round, cities[to[0]], m.ranges) for m, to in self.asked]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_sum_that_timed_out_is_completed_by_its_senders(bench: Bench) -> None:
    bench.sum(0, 10, 0b110, Cause.COMPLETE, 1)
    bench.sum(10, 2, 0b010, Cause.COLLISION, 1)
    assert bench.poll(1) == []
    bench.sum(12, 3, 0b010, Cause.TIMEOUT, 2)
    assert bench.poll(2) == [(0, TYO, ((12, 3),))]
    event = bench.recorder.array()[0]
    assert (event["kind"], event["src"], event["block"], event["count"]) == (
        Kind.REPAIR_NACK,
        TYO,
        12,
        3,
    )
    bench.come(PacketType.DATA, TYO, 12, 3, 0b100, Cause.NONE, 3)
    assert bench.poll(4) == []
    assert bench.repairer.counters() == {
        "repair_nacks": 1,
        "repair_requested_blocks": 3,
        "repair_refused_blocks": 0,
        "repaired_blocks": 3,
    }


def test_a_round_that_has_ended_is_completed(bench: Bench) -> None:
    bench.sum(0, 30, 0b110, Cause.COMPLETE, 1)
    bench.sum(30, 5, 0b100, Cause.FLUSH, 1)
    assert bench.poll(2) == []
    assert sorted(bench.poll(2, settled=True)) == [(0, LON, ((30, 10),)), (0, TYO, ((35, 5),))]


def test_a_silent_round_is_completed_after_its_planned_end(bench: Bench) -> None:
    bench.sum(0, 39, 0b010, Cause.COLLISION, 1)
    assert bench.poll(bench.end_ns) == []
    assert bench.repairer.due_ns == bench.end_ns + QUIET_NS
    assert len(bench.poll(bench.end_ns + QUIET_NS)) == 2


def test_a_block_that_later_ones_have_overtaken_is_asked_for(bench: Bench) -> None:
    bench.sum(0, 5, 0b110, Cause.COMPLETE, 1)
    bench.sum(7, 4, 0b110, Cause.COMPLETE, 2)
    assert bench.poll(OVERDUE_NS) == []
    assert bench.poll(OVERDUE_NS + 1) == []  # below 5 nothing is missing
    asked = [(0, LON, ((5, 2),)), (0, TYO, ((5, 2),))]
    assert sorted(bench.poll(2 * OVERDUE_NS + 1)) == asked


def test_a_round_that_still_comes_in_is_not_silent(bench: Bench) -> None:
    late_ns = bench.end_ns + QUIET_NS - 1
    bench.sum(0, 39, 0b010, Cause.COLLISION, late_ns)
    assert bench.poll(late_ns + QUIET_NS - 1) == []
    assert len(bench.poll(late_ns + QUIET_NS)) == 2


def test_a_complete_round_asks_nobody(bench: Bench) -> None:
    bench.sum(0, BLOCKS, 0b110, Cause.COMPLETE, 1)
    assert bench.poll(10**12, settled=True) == []
    bench.repairer.close_round(0)
    assert bench.poll(10**13, settled=True) == []


def test_who_refuses_is_left_alone(bench: Bench) -> None:
    assert len(bench.poll(10**9)) == 2
    refusal = Control(PacketType.UNAVAILABLE, LON, 1, flags=REPAIR, ranges=((0, BLOCKS),))
    bench.repairer.refused(refusal)
    assert {city for _, city, _ in bench.poll(10**12)} == {TYO}
    assert bench.repairer.counters()["repair_refused_blocks"] == BLOCKS

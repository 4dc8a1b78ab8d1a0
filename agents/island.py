"""The island process: emits its weight stream and receives the sum of the others.

One thread. It sleeps until the next burst is due or something has arrived,
whichever comes first.
"""

import signal
import time
from functools import partial
from typing import Any

from agents.averaging import Replay, start_tables
from agents.cadence import Cadence
from agents.collector import Collector
from agents.context import NS_PER_MS, AgentContext
from agents.emitter import Emitter
from agents.ownstream import OwnStream
from agents.records import Recorder
from agents.resumption import read_former, rows_behind
from agents.rounds import NEVER_NS, RoundWindow
from agents.running import run_agent
from agents.sockets import udp_counters
from agents.state import SUFFIX, State
from agents.weights import Weights
from testbed.timers import set_timer_slack

ROLE = "island"


def run_island(ctx: AgentContext) -> int:
    """Run one city's island through all rounds; return the exit status.

    The process must be in the island host's network namespace. It ends when all
    rounds are complete or at `AgentContext.deadline_ns`, and writes
    ``island-<city>.bin`` (`agents.records`), ``island-<city>.state``
    (`agents.state`) and ``island-<city>.json``. Missing or wrong sums are told
    there, not by the status. One that was started again (`AgentContext.restart`)
    goes on from what its earlier lives left in these files.
    """
    return run_agent(ROLE, ctx, lambda c: Island(c).run())


class Island:
    """One city's island."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._stopping = self._asleep = False
        signal.signal(signal.SIGTERM, self._stop)
        weights = Weights(ctx.seed, ctx.layout, ctx.element_type)
        codes = ctx.plan.topology.codes
        starts = start_tables(ctx.seed, len(codes), weights.shape, ctx.element_type)
        replay = Replay(ctx.plan, ctx.city, starts)
        paths = partial(ctx.output_path, ROLE)
        former = read_former(paths, ctx.restart, weights.shape)
        goes_on = None
        if former is not None:
            goes_on = former.history, rows_behind(former, replay, ctx.city)
        self._former = former
        self._first_round = former.round if former else 0
        self._recorder = Recorder(paths(".bin"))
        self._file = paths(SUFFIX).open("wb")
        self._state = State(
            starts[ctx.city], 1 << ctx.city, ctx.expectations, weights, self._file, goes_on
        )
        epoch = time.monotonic_ns() // NS_PER_MS & 0xFFFFFFFF
        stream = OwnStream(ctx, weights, self._state, epoch)
        self._collector = Collector(
            ctx, weights, self._state, replay, epoch, self._recorder, self._first_round
        )
        self._cadence = Cadence(ctx, self._recorder, lambda: self._collector.sums)
        self._emitter = Emitter(ctx, stream, self._recorder, self._cadence.start_ns, former)
        self._window = RoundWindow(ctx)
        self._told_round = -1

    def run(self) -> None:
        """Send and receive until everything is done or the deadline has come."""
        set_timer_slack(1)
        emitter, collector, window = self._emitter, self._collector, self._window
        deadline_ns = self._ctx.deadline_ns
        now_ns = self._begin()
        while now_ns < deadline_ns and not self._done(now_ns) and not self._stopping:
            if now_ns >= window.due_ns:
                self._change_rounds(now_ns)
            if self._state.latest != self._told_round:
                self._tell(now_ns)
            compute_ns = self._cadence.advance(now_ns)
            emitter.look()
            if now_ns >= emitter.due_ns:
                emitter.send(now_ns)
                now_ns = time.monotonic_ns()
            wake_ns = min(
                *(emitter.due_ns, window.due_ns, compute_ns, deadline_ns), self._recover(now_ns)
            )
            arrived = self._sleep(wake_ns - now_ns)
            now_ns = time.monotonic_ns()
            if arrived:
                collector.receive(now_ns)
        self._write()

    def _stop(self, _signal: int, _frame: object) -> None:
        self._stopping = True
        if self._asleep:
            raise InterruptedError

    def _sleep(self, timeout_ns: int) -> bool:
        """Wait until something has come, the time is over, or SIGTERM came."""
        self._asleep = True
        try:
            return bool(self._collector.socket.wait(timeout_ns))
        except InterruptedError:
            return False
        finally:
            self._asleep = False

    def _begin(self) -> int:
        """Open the rounds of this time, and ask for what an earlier process had of them."""
        self._collector.open_round(0)
        now_ns = time.monotonic_ns()
        self._change_rounds(now_ns)
        recovery = self._collector.recovery
        if self._former is not None and recovery is not None:
            recovery.resume(self._former.received, now_ns)
        return now_ns

    def _done(self, now_ns: int) -> bool:
        """Whether everything was sent and has come, and nobody needs this island any more."""
        if not (self._emitter.done and self._collector.complete):
            return False
        recovery = self._collector.recovery
        return recovery is None or now_ns >= recovery.serves_until_ns

    def _recover(self, now_ns: int) -> int:
        """Ask and answer what is due; returns when the next is."""
        recovery = self._collector.recovery
        if recovery is None:
            return NEVER_NS
        recovery.poll(now_ns)
        until_ns = recovery.serves_until_ns
        return min(recovery.due_ns, until_ns if until_ns > now_ns else NEVER_NS)

    def _change_rounds(self, now_ns: int) -> None:
        for closing, opening in self._window.advance(now_ns):
            if closing is not None:
                self._collector.close_round(closing)
            if opening is not None:
                self._collector.open_round(opening)

    def _tell(self, now_ns: int) -> None:
        """Write down what was counted so far, for when this process is killed.

        Once a round, when it is fixed what the island sends in it: what comes for the
        rounds before makes no difference to the state any more.
        """
        self._told_round = self._state.latest
        until_ns = now_ns - self._ctx.start_ns
        self._ctx.write_counters(ROLE, {"until_ns": until_ns, **self._counters()})

    def _write(self) -> None:
        emitter, collector = self._emitter, self._collector
        complete = emitter.done and collector.complete
        udp = udp_counters()  # before the socket is closed: what comes later meets no port
        collector.close()
        if not self._stopping:
            self._state.finish()
        self._file.close()
        self._recorder.close()
        counters = {**self._counters(), "complete": complete, "udp": udp}
        self._ctx.write_counters(ROLE, counters)

    def _counters(self) -> dict[str, Any]:
        ctx, emitter, collector = self._ctx, self._emitter, self._collector
        recovery = collector.recovery
        rounds = [
            {
                "round": k,
                **emitter.counters(k),
                **collector.counters(k),
                "stale_rows": self._state.stale_rows[k],
            }
            for k in range(ctx.plan.rounds)
        ]
        return {
            "complete": False,
            "first_round": self._first_round,
            "rounds": rounds,
            "drops": collector.drops(),
            "socket_overflow": collector.socket.overflow,
            "receive_buffer_bytes": collector.socket.buffer_bytes,
            "udp": udp_counters(),
            **({"recovery": recovery.counters()} if recovery is not None else {}),
        }

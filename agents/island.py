"""The island process: emits its weight stream and receives the sum of the others.

One thread. It sleeps until the next burst is due or something has arrived,
whichever comes first.
"""

import time

from agents.averaging import Replay, start_tables
from agents.collector import Collector
from agents.context import NS_PER_MS, AgentContext, run_agent
from agents.emitter import Emitter
from agents.records import Recorder
from agents.rounds import NEVER_NS, RoundWindow
from agents.sockets import precise_timers, udp_counters
from agents.state import SUFFIX, State
from agents.weights import Weights

ROLE = "island"


def run_island(ctx: AgentContext) -> int:
    """Run one city's island through all rounds; return the exit status.

    The process must be in the island host's network namespace. It ends when all
    rounds are complete or at `AgentContext.deadline_ns`, and writes
    ``island-<city>.bin`` (`agents.records`), ``island-<city>.state``
    (`agents.state`) and ``island-<city>.json``. Missing or wrong sums are told
    there, not by the status.
    """
    return run_agent(ROLE, ctx, lambda c: Island(c).run())


class Island:
    """One city's island."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._recorder = Recorder()
        weights = Weights(ctx.seed, ctx.layout)
        starts = start_tables(ctx.seed, len(ctx.plan.topology.codes), weights.shape)
        self._file = ctx.output_path(ROLE, SUFFIX).open("wb")
        self._state = State(starts[ctx.city], 1 << ctx.city, ctx.expectations, weights, self._file)
        replay = Replay(ctx.plan, ctx.city, starts)
        epoch = time.monotonic_ns() // NS_PER_MS & 0xFFFFFFFF
        self._emitter = Emitter(ctx, weights, self._state, epoch, self._recorder)
        self._collector = Collector(ctx, weights, self._state, replay, epoch, self._recorder)
        self._window = RoundWindow(ctx)

    def run(self) -> None:
        """Send and receive until everything is done or the deadline has come."""
        precise_timers()
        emitter, collector, window = self._emitter, self._collector, self._window
        deadline_ns = self._ctx.deadline_ns
        collector.open_round(0)
        now_ns = time.monotonic_ns()
        while now_ns < deadline_ns and not self._done(now_ns):
            if now_ns >= window.due_ns:
                self._change_rounds(now_ns)
            if now_ns >= emitter.due_ns:
                emitter.send(now_ns)
                now_ns = time.monotonic_ns()
            wake_ns = min(emitter.due_ns, window.due_ns, deadline_ns, self._recover(now_ns))
            arrived = collector.socket.wait(wake_ns - now_ns)
            now_ns = time.monotonic_ns()
            if arrived:
                collector.receive(now_ns)
        self._write()

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

    def _write(self) -> None:
        ctx, emitter, collector = self._ctx, self._emitter, self._collector
        complete = emitter.done and collector.complete
        recovery = collector.recovery
        udp = udp_counters()  # before the socket is closed: what comes later meets no port
        collector.close()
        self._state.finish()
        self._file.close()
        self._recorder.write(ctx.output_path(ROLE, ".bin"))
        rounds = [
            {
                "round": k,
                **emitter.counters(k),
                **collector.counters(k),
                "stale_rows": self._state.stale_rows[k],
            }
            for k in range(ctx.plan.rounds)
        ]
        ctx.write_counters(
            ROLE,
            {
                "complete": complete,
                "rounds": rounds,
                "drops": collector.drops(),
                "socket_overflow": collector.socket.overflow,
                "receive_buffer_bytes": collector.socket.buffer_bytes,
                "udp": udp,
                **({"recovery": recovery.counters()} if recovery is not None else {}),
            },
        )

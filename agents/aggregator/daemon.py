"""The aggregator process: streams in, one stream of sums out, until SIGTERM.

One thread and one socket for input, with recovery another one for requests. The
receive timeout doubles as the clock for whatever is due while no traffic comes:
slot timeouts, the change of rounds, heartbeats, the wish to stop.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from agents.aggregator import report
from agents.aggregator.control import ControlPort
from agents.aggregator.engine import EngineSettings, Progress
from agents.aggregator.engines import make_engine
from agents.aggregator.intake import make_intake
from agents.aggregator.memory import memory_slots, ring_rows
from agents.aggregator.output import AggregateStream
from agents.aggregator.reporting import StatusReporter, engine_status
from agents.aggregator.ring import ResendRing
from agents.aggregator.status import Status
from agents.context import NS_PER_MS, AgentContext
from agents.records import Recorder
from agents.recovery.control import LONGEST_BYTES
from agents.rounds import RoundWindow
from agents.running import run_agent
from agents.sockets import (
    BurstReceiver,
    ControlSocket,
    interface_index,
    is_group,
    udp_counters,
)
from agents.wire import ELEMENT_BYTES, datagram_bytes, dtype_named

ROLE = "aggregator"
_IDLE_NS = 10 * NS_PER_MS
_TURN_NS = NS_PER_MS  # how long a request may have to wait for the streams
_LINGER_NS = 100 * NS_PER_MS
_LONGEST_LINGER_NS = 2000 * NS_PER_MS
_SLEEP_S = 0.25


def run_aggregator(ctx: AgentContext) -> int:
    """Run the aggregator of one city until SIGTERM; return the exit status.

    The process must be single-threaded and in the aggregator host's network
    namespace. On SIGTERM open sums are flushed and, with recovery, sent again as long
    as the island asks. ``aggregator-<city>.bin`` (`agents.records`) is written all along,
    ``aggregator-<city>.json`` at each change of rounds and in the end.
    """
    return run_agent(ROLE, ctx, _run)


def _run(ctx: AgentContext) -> None:
    aggregator = Aggregator(ctx)
    with StatusReporter(ctx, aggregator.status) as reporter:
        aggregator.run(reporter.poll)


class Aggregator:
    """One city's aggregator."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        self._recorder = Recorder(ctx.output_path(ROLE, ".bin"))
        row_bytes = datagram_bytes(ctx.layout.elements, ctx.layout.element_bytes)
        self._ring = ResendRing(
            ring_rows(ctx.resend_bytes, row_bytes, ctx.burst_datagrams), row_bytes
        )
        to = ctx.sums_to
        leaves_by = interface_index(f"{ctx.code}-a") if is_group(to) else None
        self._output = AggregateStream(self._ring, to, ctx.burst_datagrams, leaves_by)
        self._settings = self._engine_settings()
        self._engine = make_engine(
            ctx.engine, self._settings, self._ring, self._output.send, self._recorder
        )
        multicast = ctx.plan.multicast
        own_ip, port = ctx.addresses.aggregator(ctx.city)
        self._receiver = BurstReceiver(
            ("" if multicast else own_ip, port),
            interface=interface_index(f"{ctx.code}-a") if multicast else None,
            idle_ns=0 if ctx.recovers else _IDLE_NS,  # with recovery it is `_wait` that waits
        )
        self._truncated: Counter[str] = Counter()
        self._intake = make_intake(self._engine, self._receiver, self._output, self._truncated)
        self._control = self._control_port() if ctx.recovers else None
        self._window = RoundWindow(ctx)
        self._live: list[int] = []
        self._progress: dict[int, Progress] = {}

    def run(self, poll: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGTERM and until the socket is empty, then flush and write the results.

        Parameters
        ----------
        poll
            Called between two buffers every 10 ms or so, for whoever watches.
        """
        self._open_round(0)
        self._tell({"until_ns": time.monotonic_ns() - self._ctx.start_ns})
        self._sleep_until_start(poll)
        now_ns = poll_ns = time.monotonic_ns()
        busy, come, asked = True, True, False
        while busy or not self._stopping:
            if self._control is not None:
                due_ns = min(self._window.due_ns, self._engine.next_timeout_ns)
                come, asked = self._wait(self._control, now_ns, due_ns)
            got = self._intake(self._turn_end(now_ns)) if come else ()
            busy = bool(got)
            now_ns = time.monotonic_ns()
            if now_ns >= self._window.due_ns:
                self._change_rounds(now_ns)
            for buffer, length, segment in got:
                self._engine.take(buffer, length, segment, now_ns)
            if now_ns >= self._engine.next_timeout_ns:
                self._engine.expire(now_ns)
            self._output.send()
            if self._control is not None:
                self._serve(self._control, now_ns, asked)
            if now_ns >= poll_ns:
                poll()
                poll_ns = now_ns + _IDLE_NS
        self._drain(now_ns)
        self._recorder.close()
        self._tell({})

    def status(self) -> Status:
        """What the aggregator is doing right now."""
        control = self._control
        return engine_status(
            self._ctx,
            self._engine,
            self._ring,
            slots=self._settings.slots,
            live=self._live,
            rejects=self._truncated + control.drops if control else self._truncated,
            socket_overflow=self._receiver.overflow,
            recovery=control.counters() if control else {},
            now_ns=time.monotonic_ns(),
        )

    def _stop(self, _signal: int, _frame: object) -> None:
        self._stopping = True

    def _control_port(self) -> ControlPort:
        ctx = self._ctx
        socket = ControlSocket(ctx.addresses.control(ctx.city), LONGEST_BYTES)
        epoch = self._settings.epoch
        return ControlPort(ctx, epoch, socket, self._ring, self._output, self._recorder)

    def _turn_end(self, now_ns: int) -> int:
        """Until when an engine may serve the sockets by itself."""
        turn_ns = _IDLE_NS if self._control is None else _TURN_NS
        return min(self._window.due_ns, now_ns + turn_ns)

    def _wait(self, control: ControlPort, now_ns: int, due_ns: int) -> tuple[bool, bool]:
        """Wait until ``due_ns`` or a heartbeat at most; whether streams, or requests, have come.

        Where no stream has, the intake is not to be called: it would wait for one, a
        kernel's tick at least, while the island waits for an answer.
        """
        wait_ns = min(_IDLE_NS, max(0, min(control.due_ns, due_ns) - now_ns))
        come = self._receiver.wait(wait_ns, control.socket)
        return self._receiver in come, control.socket in come

    def _serve(self, control: ControlPort, now_ns: int, asked: bool) -> int:
        """Answer requests, and tell the island of rounds that are complete; how many asked."""
        for round_index in self._live:
            if not control.has_ended(round_index):
                complete = self._engine.progress(round_index).complete
                if complete == self._ctx.layout.blocks:
                    control.end_round(round_index)
        return control.serve(now_ns, asked=asked)

    def _drain(self, now_ns: int) -> None:
        """Let everything leave, and answer as long as the island still asks."""
        for round_index in tuple(self._live):
            self._close_round(round_index, now_ns)
        self._output.send()
        if self._control is None:
            return
        last_ns = now_ns + _LONGEST_LINGER_NS
        quiet_ns = now_ns + _LINGER_NS
        while now_ns < min(quiet_ns, last_ns):
            # Changes of rounds are over: one that is due must not end the wait, again and again.
            come, asked = self._wait(self._control, now_ns, min(quiet_ns, last_ns))
            got = self._intake(now_ns + _TURN_NS) if come else ()
            now_ns = time.monotonic_ns()
            for buffer, length, segment in got:  # no round is open any more: counted as refused
                self._engine.take(buffer, length, segment, now_ns)
            if self._serve(self._control, now_ns, asked):
                quiet_ns = now_ns + _LINGER_NS

    def _engine_settings(self) -> EngineSettings:
        ctx = self._ctx
        senders = max(len(e.senders) for e in ctx.expectations)
        slots = memory_slots(
            ctx.memory_bytes - ctx.resend_bytes,
            ctx.fifo_datagrams,
            max(1, senders),
            ctx.layout.elements * ELEMENT_BYTES,
        )
        return EngineSettings(
            city=ctx.city,
            job_id=ctx.job_id,
            epoch=time.monotonic_ns() // NS_PER_MS & 0xFFFFFFFF,
            start_ns=ctx.start_ns,
            layout=ctx.layout,
            slots=slots,
            burst_datagrams=ctx.burst_datagrams,
            timeout_ns=ctx.timeout_ns,
            collision=ctx.collision,
            hashing=ctx.hash,
            ways=ctx.ways,
            memory_model=ctx.memory_model,
            dtype=dtype_named(ctx.dtype),
            ordered=ctx.ordered,
            takes_sums=ctx.takes_sums,
        )

    def _sleep_until_start(self, poll: Callable[[], None]) -> None:
        """Sleep through the time when nothing can arrive, in naps, to notice SIGTERM."""
        while not self._stopping:
            poll()
            left_s = (self._ctx.start_ns - time.monotonic_ns()) / 1e9
            if left_s < _SLEEP_S:
                return
            time.sleep(min(_SLEEP_S, left_s - _SLEEP_S / 2))

    def _change_rounds(self, now_ns: int) -> None:
        for closing, opening in self._window.advance(now_ns):
            if closing is not None:
                self._close_round(closing, now_ns)
            if opening is not None:
                self._open_round(opening)
        self._tell({"until_ns": now_ns - self._ctx.start_ns})

    def _open_round(self, round_index: int) -> None:
        expectation = self._ctx.expectations[round_index]
        self._live.append(round_index)
        self._engine.open_round(round_index, expectation.clique, expectation.mask)
        self._receiver.join(self._ctx.groups(round_index))

    def _close_round(self, round_index: int, now_ns: int) -> None:
        self._live.remove(round_index)
        self._progress[round_index] = self._engine.progress(round_index)
        self._engine.close_round(round_index, now_ns)
        if self._control is not None:
            self._output.send()
            self._control.end_round(round_index)
        self._receiver.leave(self._ctx.groups(round_index))

    def _counters(self) -> dict[str, Any]:
        """Counters of the whole run; bytes as packets see them (scaled)."""
        totals = report.totals(self._engine, self._settings, self._ctx.plan.scale)
        drops = Counter(totals.pop("drops")) + self._truncated
        control = {}
        if self._control is not None:
            drops += self._control.drops
            control = {"recovery": self._control.counters()}
        return {
            **totals,
            "drops": dict(drops),
            "socket_overflow": self._receiver.overflow,
            "receive_buffer_bytes": self._receiver.buffer_bytes,
            "udp": udp_counters(),
            **control,
        }

    def _tell(self, mark: dict[str, int]) -> None:
        """Write down what was counted so far: at the end, and at each change of rounds."""
        ctx = self._ctx
        rounds = [
            report.round_counters(ctx, k, progress, self._output)
            for k, progress in sorted(self._progress.items())
        ]
        ctx.write_counters(ROLE, {**mark, "rounds": rounds, **self._counters()})

"""The aggregator process: streams in, one stream of sums out, until SIGTERM.

One thread and one socket for input. The socket's receive timeout doubles as the
clock for whatever is due while no traffic comes: slot timeouts, the change of
rounds, the wish to stop.
"""

import signal
import time
from collections import Counter
from typing import Any

from agents.admission import misfit
from agents.aggregator.memory import memory_slots
from agents.aggregator.output import AggregateStream
from agents.aggregator.reporting import StatusReporter, table_status
from agents.aggregator.status import Status
from agents.aggregator.table import Table
from agents.bursts import Batch, Run, runs
from agents.context import NS_PER_MS, AgentContext, run_agent
from agents.records import Kind, Recorder
from agents.rounds import RoundWindow
from agents.sockets import BurstReceiver, interface_index, udp_counters
from agents.wire import ELEMENT_BYTES, PacketType, wire_bytes

ROLE = "aggregator"
_IDLE_NS = 10 * NS_PER_MS
_SLEEP_S = 0.25


def run_aggregator(ctx: AgentContext) -> int:
    """Run the aggregator of one city until SIGTERM; return the exit status.

    The process must be single-threaded and in the aggregator host's network
    namespace. On SIGTERM open sums are flushed, then ``aggregator-<city>.bin``
    (`agents.records`) and ``aggregator-<city>.json`` are written.
    """
    return run_agent(ROLE, ctx, lambda c: Aggregator(c).run())


class Aggregator:
    """One city's aggregator."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        layout = ctx.layout
        self._block_bytes = layout.elements * ELEMENT_BYTES
        self._recorder = Recorder()
        epoch = time.monotonic_ns() // NS_PER_MS & 0xFFFFFFFF
        self._output = AggregateStream(ctx, epoch, self._recorder)
        self._table = Table(
            self._slots(),
            layout,
            self._output.take,
            hashing=ctx.hash,
            collision=ctx.collision,
            timeout_ns=ctx.timeout_ns,
        )
        multicast = ctx.plan.multicast
        own_ip, port = ctx.addresses.aggregator(ctx.city)
        self._receiver = BurstReceiver(
            ("" if multicast else own_ip, port),
            interface=interface_index(f"{ctx.code}-a") if multicast else None,
            idle_ns=_IDLE_NS,
        )
        self._window = RoundWindow(ctx)
        self._rejects: Counter[str] = Counter()
        self._datagrams_in: Counter[int] = Counter()
        self._bytes_in: Counter[int] = Counter()
        self._live: list[int] = []
        self._progress: dict[int, tuple[int, int]] = {}
        self._reporter = StatusReporter(ctx, self.status)

    def run(self) -> None:
        """Serve until SIGTERM and until the socket is empty, then flush and write the results."""
        try:
            self._serve()
        finally:
            self._reporter.close()
        self._reporter.log()
        for round_index in tuple(self._live):
            self._close_round(round_index)
        self._output.flush()
        self._write()

    def _serve(self) -> None:
        self._open_round(0)
        self._sleep_until_start()
        batches: list[Batch] | None = []
        while batches is not None or not self._stopping:
            batches = self._receiver.receive(PacketType.DATA, self._ctx.job_id, self._rejects)
            now_ns = time.monotonic_ns()
            self._output.tick(now_ns)
            if now_ns >= self._window.due_ns:
                self._change_rounds(now_ns)
            for batch in batches or ():
                for run in runs(batch):
                    self._take(run, now_ns)
            if now_ns >= self._table.next_timeout_ns:
                self._table.expire(now_ns)
            self._output.flush()
            self._reporter.poll(now_ns)

    def status(self) -> Status:
        """What can be told about this aggregator now."""
        return table_status(
            self._ctx,
            self._table,
            self._live,
            rejects=self._rejects,
            socket_overflow=self._receiver.overflow,
            now_ns=time.monotonic_ns(),
        )

    def _stop(self, _signal: int, _frame: object) -> None:
        self._stopping = True

    def _slots(self) -> int:
        plan, expectations = self._ctx.plan, self._ctx.expectations
        senders = max(len(e.senders) for e in expectations)
        return memory_slots(
            plan.memory_bytes / plan.scale,
            self._ctx.fifo_datagrams,
            max(1, senders),
            self._block_bytes,
        )

    def _sleep_until_start(self) -> None:
        """Sleep through the time when nothing can arrive, in naps, to notice SIGTERM."""
        while not self._stopping:
            left_s = (self._ctx.start_ns - time.monotonic_ns()) / 1e9
            if left_s < _SLEEP_S:
                return
            time.sleep(min(_SLEEP_S, left_s - _SLEEP_S / 2))

    def _change_rounds(self, now_ns: int) -> None:
        self._reporter.log()
        for closing, opening in self._window.advance(now_ns):
            if closing is not None:
                self._close_round(closing)
            if opening is not None:
                self._open_round(opening)

    def _open_round(self, round_index: int) -> None:
        self._live.append(round_index)
        self._table.open_round(round_index, self._ctx.expectations[round_index].mask)
        self._receiver.join(self._ctx.groups(round_index))

    def _close_round(self, round_index: int) -> None:
        self._live.remove(round_index)
        self._progress[round_index] = self._table.progress(round_index)
        self._table.close_round(round_index)
        self._receiver.leave(self._ctx.groups(round_index))

    def _take(self, run: Run, now_ns: int) -> None:
        """Check a run of blocks against the plan and give it to the table."""
        count, width = run.values.shape
        reason = misfit(run, PacketType.DATA, self._ctx)
        if reason:
            self._rejects[reason] += count
            return
        self._table.add(run.round, run.bitmap, run.block, run.values, now_ns)
        self._datagrams_in[run.round] += count
        self._bytes_in[run.round] += count * wire_bytes(width)
        self._recorder.add(
            now_ns - self._ctx.start_ns,
            run.round,
            Kind.HELD,
            run.src,
            run.block,
            count,
            self._table.occupied,
        )

    def _write(self) -> None:
        table, plan = self._table, self._ctx.plan
        self._recorder.write(self._ctx.out_dir / f"{ROLE}-{self._ctx.code}.bin")
        drops = self._rejects + table.counters.drops
        high_water_bytes = table.high_water * self._block_bytes
        self._ctx.write_counters(
            ROLE,
            {
                "rounds": [self._round_counters(k) for k in sorted(self._progress)],
                "drops": dict(drops),
                "emitted_blocks": dict(table.counters.emitted),
                "late_blocks": table.counters.late,
                "slots": table.slots,
                "block_bytes": self._block_bytes,
                "memory_bytes": table.slots * self._block_bytes,
                "high_water_slots": table.high_water,
                "high_water_bytes": high_water_bytes,
                "high_water_unscaled_bytes": high_water_bytes * plan.scale,
                "socket_overflow": self._receiver.overflow,
                "receive_buffer_bytes": self._receiver.buffer_bytes,
                "udp": udp_counters(),
            },
        )

    def _round_counters(self, round_index: int) -> dict[str, Any]:
        expectation, blocks = self._ctx.expectations[round_index], self._ctx.layout.blocks
        contributions, complete = self._progress[round_index]
        expected = blocks * len(expectation.senders)
        return {
            "round": round_index,
            "clique": expectation.clique,
            "senders": [self._ctx.plan.topology.codes[i] for i in expectation.senders],
            "expected_contributions": expected,
            "contributions": contributions,
            "missing_contributions": expected - contributions,
            "expected_blocks": blocks if expectation.senders else 0,
            "complete_blocks": complete,
            "datagrams_in": self._datagrams_in[round_index],
            "bytes_in": self._bytes_in[round_index],
            "datagrams_out": self._output.datagrams.get(round_index, 0),
            "bytes_out": self._output.wire_bytes.get(round_index, 0),
        }

"""The receiving half of an island: merges sums, adds its own, checks the result."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.admission import misfit
from agents.aggregator.arithmetic import in_memory
from agents.aggregator.table import Emission, Table
from agents.averaging import Replay
from agents.bursts import Batch, Run, parse, runs
from agents.context import AgentContext
from agents.received import Received
from agents.records import EXACT, NOT_CHECKED, WRONG, Kind, Recorder
from agents.recovering import Recovery
from agents.recovery.serial import Epochs
from agents.sockets import BurstReceiver, interface_index
from agents.state import State
from agents.weights import Weights
from agents.wire import (
    MAX_PAYLOAD_BYTES,
    Flag,
    PacketType,
    Values,
    datagram_bytes,
    wire_bytes,
)

_LIVE_ROUNDS = 2
_TYPE_AT = 3  # of the header's bytes


class Collector:
    """Receives the aggregate (or, with aggregation off, the raw streams) of every round.

    Partial sums of a block are merged where their contributors are disjoint.
    When all have come, the own contribution is added, the total compared with
    the true sum, element by element, and handed on to the island's state.

    Parameters
    ----------
    ctx, weights, state, replay, epoch, recorder
        The run, and what belongs to this process.
    first_round
        Rounds before it were an earlier process's: they are not received.
    """

    def __init__(
        self,
        ctx: AgentContext,
        weights: Weights,
        state: State,
        replay: Replay,
        epoch: int,
        recorder: Recorder,
        first_round: int = 0,
    ) -> None:
        self.recovery = (
            Recovery(ctx, weights, state, epoch, self._seen, recorder) if ctx.recovers else None
        )
        self._ctx = ctx
        self._weights = weights
        self._state = state
        self._replay = replay
        self._recorder = recorder
        self._kind = PacketType.AGG if ctx.plan.aggregation else PacketType.DATA
        self._own_bit = 1 << ctx.city
        self._joins = ctx.plan.multicast and not ctx.plan.aggregation
        own_ip, port = ctx.addresses.island(ctx.city)
        self.socket = BurstReceiver(
            ("" if self._joins else own_ip, port),
            interface=interface_index(f"{ctx.code}-i") if self._joins else None,
            idle_ns=0,  # `wait` says when there is something to receive
        )
        layout = ctx.layout
        self._dtype = ctx.element_type
        self._tables = [
            Table(layout.blocks, layout, self._check, dtype=self._dtype)
            for _ in range(_LIVE_ROUNDS)
        ]
        rows = MAX_PAYLOAD_BYTES // datagram_bytes(layout.elements, layout.element_bytes) + 1
        self._total: Values = np.zeros((rows, layout.elements), in_memory(self._dtype))
        self._truth: Values = np.zeros_like(self._total)
        self._verdict = NOT_CHECKED
        self._rejects: Counter[str] = Counter()
        self._epochs = Epochs()
        self._received = [Received() for _ in range(ctx.plan.rounds)]
        self._first_round = first_round
        self._sums = 0
        expected = (layout.blocks for e in ctx.expectations[first_round:] if e.senders)
        self._blocks_to_come = sum(expected)

    @property
    def complete(self) -> bool:
        """Whether every block of every round has come in full."""
        return self._blocks_to_come == 0

    @property
    def sums(self) -> int:
        """How many rounds, from the first one on, have brought every block in full."""
        expectations, blocks = self._ctx.expectations, self._ctx.layout.blocks
        while self._sums < len(expectations) and (
            not expectations[self._sums].senders
            or self._received[self._sums].complete_blocks == blocks
        ):
            self._sums += 1
        return self._sums

    def open_round(self, round_index: int) -> None:
        """Begin to accept a round."""
        if round_index < self._first_round:
            return
        mask = self._ctx.expectations[round_index].mask
        self._table(round_index).open_round(round_index, mask)
        if self._joins:
            self.socket.join(self._ctx.groups(round_index))
        if self.recovery is not None:
            self.recovery.open_round(round_index)

    def close_round(self, round_index: int) -> None:
        """Stop accepting a round; what is held of it stays incomplete."""
        if round_index < self._first_round:
            return
        self._table(round_index).close_round(round_index)
        if self._joins:
            self.socket.leave(self._ctx.groups(round_index))
        if self.recovery is not None:
            self.recovery.close_round(round_index)

    def receive(self, now_ns: int) -> None:
        """Receive one buffer."""
        got = self.socket.receive(self._rejects)
        if got is None:
            return
        kind: PacketType | None = self._kind
        length, segment = got
        if self.recovery is not None and length > _TYPE_AT:
            kind = self.recovery.kind_of(int(self.socket.buffer[_TYPE_AT]))
        if kind is not None:
            self._receive(length, segment, kind, now_ns)
        elif self.recovery is not None:
            for at in range(0, length, segment):
                datagram = self.socket.buffer[at : min(at + segment, length)]
                self.recovery.hear(datagram.tobytes(), now_ns)

    def _receive(self, length: int, segment: int, kind: PacketType, now_ns: int) -> None:
        """Take a buffer of sums or raw blocks."""
        batches: Iterable[Batch] = parse(
            self.socket.buffer,
            length,
            segment,
            kind=kind,
            job_id=self._ctx.job_id,
            rejects=self._rejects,
            dtype=self._dtype,
        )
        if self.recovery is not None and kind is PacketType.AGG:
            batches = self.recovery.fresh(batches, self.socket.overflow, now_ns)
        for batch in batches:
            for run in runs(batch):
                reason = misfit(run, kind, self._ctx)
                if run.round < self._first_round:
                    reason = "round"
                if not reason and not self._epochs.admits(run.src, run.epoch):
                    reason = "epoch"
                if reason:
                    self._rejects[reason] += len(run.values)
                    continue
                self._take(run, kind, now_ns - self._ctx.start_ns)
                if self.recovery is not None:
                    self.recovery.took(run, kind, now_ns)

    def accepted(self, round_index: int) -> int:
        """Datagrams of a live round that were merged."""
        return self._table(round_index).progress(round_index)[0]

    def counters(self, round_index: int) -> dict[str, Any]:
        """Counters of one round."""
        ctx, expectation = self._ctx, self._ctx.expectations[round_index]
        senders = [ctx.plan.topology.codes[i] for i in expectation.senders]
        blocks = ctx.layout.blocks if senders else 0
        return self._received[round_index].report(senders, blocks)

    def close(self) -> None:
        """Count what is still held as incomplete and close the socket."""
        for table in self._tables:
            table.drain()
        self.socket.close()
        if self.recovery is not None:
            self.recovery.close()

    def drops(self) -> dict[str, int]:
        """Datagrams that were refused, by reason."""
        total = Counter(self._rejects)
        if self.recovery is not None:
            total += self.recovery.drops()
        for table in self._tables:
            total += table.counters.drops
        return dict(total)

    def _table(self, round_index: int) -> Table:
        return self._tables[round_index % _LIVE_ROUNDS]

    def _seen(self, round_index: int) -> npt.NDArray[np.uint64]:
        return self._table(round_index).seen(round_index)

    def _take(self, run: Run, kind: PacketType, since_start_ns: int) -> None:
        """Merge a run of blocks and record it."""
        count, width = run.values.shape
        got, table = self._received[run.round], self._table(run.round)
        self._verdict = NOT_CHECKED
        refused = table.counters.drops.total()
        table.add(
            run.round,
            run.bitmap,
            run.block,
            run.values,
            since_start_ns,
            flags=run.flags,
            exponent=run.exponent,
        )
        surplus = table.counters.drops.total() - refused == count
        got.datagrams += count
        got.wire_bytes += count * wire_bytes(width, self._ctx.layout.element_bytes)
        if run.bitmap != self._ctx.expectations[run.round].mask:
            got.partial_datagrams += count
        if not surplus:
            got.first_ns = since_start_ns if got.first_ns is None else got.first_ns
            got.last_ns = since_start_ns
        taken = Kind.AGGREGATE_IN if kind is PacketType.AGG else Kind.DATA_IN
        self._recorder.add(
            since_start_ns,
            run.round,
            Kind.SURPLUS_IN if surplus else taken,
            run.src,
            run.block,
            count,
            run.bitmap,
            cause=run.cause,
            exact=self._verdict,
        )

    def _check(self, emission: Emission) -> None:
        """Compare merged sums that are complete with the true ones; count those that are not."""
        round_index, block, values = emission.round, emission.block, emission.values
        got = self._received[round_index]
        count, width = values.shape
        got.contributions += count * emission.bitmap.bit_count()
        mask = self._ctx.expectations[round_index].mask
        if emission.bitmap != mask:
            got.incomplete_blocks += count
            return
        total, truth = self._total[:count, :width], self._truth[:count, :width]
        own_bit, weights, state = self._own_bit, self._weights, self._state
        weights.fill(round_index, own_bit, state.table(round_index), block, total)
        total += values
        stale = bool(emission.flags & Flag.STALE)
        state.take(round_index, block, total, stale=stale)
        weights.fill(round_index, mask | own_bit, self._replay.total(round_index), block, truth)
        true = (total.view(np.int32) == truth.view(np.int32)).all(axis=1)
        if weights.scaled:
            true &= weights.exponents(block, count) == emission.exponent
        exact, excused = int(true.sum()), 0
        if exact < count:
            behind = state.behind(round_index)[weights.rows(round_index, block, count)] | stale
            excused = int((~true & behind).sum())
        self._count(got, exact, excused, count)

    def _count(self, got: Received, exact: int, stale: int, count: int) -> None:
        """Count complete sums, and say what they make of the event that brings them."""
        wrong = count - exact - stale
        got.exact_blocks += exact
        got.stale_blocks += stale
        got.wrong_blocks += wrong
        self._blocks_to_come -= count
        if wrong or self._verdict == WRONG:
            self._verdict = WRONG
        elif exact == count:
            self._verdict = EXACT

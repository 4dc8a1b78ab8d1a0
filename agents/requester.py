"""The island asks its aggregator for sums that got lost on the last hop, by their numbers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from agents.bursts import Batch, Headers
from agents.context import NS_PER_MS, AgentContext
from agents.records import Kind, Recorder
from agents.recovery.bucket import datagram_bucket
from agents.recovery.control import Control, chunks, encode
from agents.recovery.gaps import GapCounters, GapTracker, Range
from agents.recovery.histogram import Histogram
from agents.recovery.rto import Rto
from agents.recovery.serial import WRAP, Epochs
from agents.sockets import ControlSocket
from agents.wire import PacketType

REQUEST_SHARE = 0.5
"""Of the island's access link, for what is asked for again."""
_INITIAL_RTO_NS = 5 * NS_PER_MS
_LEAST_RTO_NS = NS_PER_MS
_LONGEST_RTO_NS = 500 * NS_PER_MS
_MOST_TRIES = 255  # what fits a record


class Requester:
    """Follows the aggregator's stream through its epochs.

    Parameters
    ----------
    ctx, socket, recorder
        The run, what requests leave by, and what gets an event for each.

    Attributes
    ----------
    drops
        Datagrams of an earlier process of the aggregator.
    """

    def __init__(self, ctx: AgentContext, socket: ControlSocket, recorder: Recorder) -> None:
        self.drops: Counter[str] = Counter()
        self._ctx = ctx
        self._socket = socket
        self._recorder = recorder
        self._to = ctx.addresses.control(ctx.city)
        self._epochs = Epochs()
        self._epoch = 0
        self._restarts = -1
        self._gap_counters = GapCounters()
        self._took = Histogram()
        self._bucket = datagram_bucket(ctx.access_gbps, REQUEST_SHARE, ctx.layout.burst_bytes(0, 1))
        self._rto = Rto(_INITIAL_RTO_NS, _LEAST_RTO_NS, _LONGEST_RTO_NS)
        self._tracker = self._new_tracker()
        self._ends: dict[int, int] = {}
        self._round = 0
        self._nacks = 0

    @property
    def due_ns(self) -> int:
        """When `poll` has something to do."""
        return self._tracker.due_ns

    def open_round(self, round_index: int) -> None:
        """Name the round that requests are recorded under."""
        self._round = round_index

    def close_round(self, round_index: int) -> None:
        """Forget the end of a round."""
        self._ends.pop(round_index, None)

    def settled(self, round_index: int) -> bool:
        """Whether a round has ended and all that was sent until then has come or is gone."""
        end = self._ends.get(round_index)
        return end is not None and self._tracker.settled(end)

    def fresh(self, batch: Batch, now_ns: int, *, overflowed: bool) -> Iterator[Batch]:
        """Take note of datagrams of the stream; yields those that had not come before.

        Parameters
        ----------
        batch, now_ns
            What came, and when.
        overflowed
            Whether the own socket was full before this came.
        """
        noticed_before = self._gap_counters.noticed
        start = 0
        for end in _cuts(batch.headers):
            headers = batch.headers[start:end]
            if headers["src"][0] != self._ctx.city:
                yield Batch(headers, batch.values[start:end])
            elif self._follow(int(headers["epoch"][0]), end - start):
                seq = int(headers["seq"][0])
                for offset, count in self._tracker.arrive(seq, end - start, now_ns):
                    part = slice(start + offset, start + offset + count)
                    yield Batch(batch.headers[part], batch.values[part])
            start = end
        if overflowed:
            self._gap_counters.overflowed += self._gap_counters.noticed - noticed_before
        self._record_closed(now_ns)

    def hear(self, message: Control, now_ns: int) -> None:
        """Take note of what the aggregator says."""
        if not self._follow(message.epoch, 1):
            return
        if message.kind is PacketType.UNAVAILABLE:
            for seq, count in message.ranges:
                self._record_gone(self._tracker.unavailable(seq, count), seq, now_ns)
            return
        ((upcoming, oldest),) = message.ranges
        end, gone = self._tracker.announce(upcoming, oldest, now_ns)
        self._record_gone(gone, oldest, now_ns)
        if message.kind is PacketType.END_ROUND:
            self._ends.setdefault(message.round, end)
        else:
            for round_index in (self._round - 1, self._round):
                if 0 <= round_index < message.round:
                    self._ends.setdefault(round_index, end)

    def greet(self) -> None:
        """Make the aggregator tell where its stream is, as it does to who takes it for another."""
        self._send(((0, 1),))

    def poll(self, now_ns: int) -> None:
        """Ask for what is due."""
        ranges = self._tracker.poll(now_ns)
        for part in chunks(ranges):
            self._send(part)
        for seq, count in ranges:
            self._record(Kind.NACK, seq, count, now_ns)

    def counters(self) -> dict[str, Any]:
        """What was missing, and what became of it."""
        counted = asdict(self._gap_counters)
        return {
            "nacks": self._nacks,
            "aggregator_restarts": max(0, self._restarts),
            **{f"{name}_datagrams": count for name, count in counted.items()},
            "pending_datagrams": self._tracker.pending,
            "gap_times": self._took.report(),
        }

    def _send(self, ranges: tuple[Range, ...]) -> None:
        city, epoch = self._ctx.city, self._epoch
        message = Control(PacketType.NACK, city, epoch, self._round, self._nacks, 0, ranges)
        self._nacks += 1
        self._socket.send(encode(message, self._ctx.job_id), self._to)

    def _new_tracker(self) -> GapTracker:
        return GapTracker(self._rto, self._bucket, self._gap_counters)

    def _follow(self, epoch: int, count: int) -> bool:
        """Begin anew if the aggregator has; false if these datagrams are from before."""
        if not self._epochs.admits(self._ctx.city, epoch):
            self.drops["epoch"] += count
            return False
        if epoch != self._epoch or self._restarts < 0:
            self._restarts += 1
            self._epoch = epoch
            self._tracker.abandon()
            self._tracker = self._new_tracker()
            self._ends.clear()
        return True

    def _record_closed(self, now_ns: int) -> None:
        for closed in self._tracker.closed():
            self._took.add(closed.took_ns, closed.count)
            self._record(
                Kind.GAP_CLOSED,
                closed.first,
                closed.count,
                now_ns,
                value=closed.took_ns,
                tries=min(closed.tries, _MOST_TRIES),
            )

    def _record_gone(self, count: int, seq: int, now_ns: int) -> None:
        if count:
            self._record(Kind.UNAVAILABLE, seq, count, now_ns)

    def _record(
        self, kind: Kind, seq: int, count: int, now_ns: int, *, value: int = 0, tries: int = 0
    ) -> None:
        since_start_ns = now_ns - self._ctx.start_ns
        self._recorder.add(
            since_start_ns,
            self._round,
            kind,
            self._ctx.city,
            seq % WRAP,
            min(count, WRAP - 1),  # numbers that leap about can leave out more than fits
            value,
            cause=tries,
        )


def _cuts(headers: Headers) -> list[int]:
    """Ends of the parts with consecutive numbers of one process."""
    seqs = headers["seq"].astype(np.int64)
    follows = (np.diff(seqs) % WRAP) == 1
    for name in ("epoch", "src"):
        follows &= headers[name][1:] == headers[name][:-1]
    return [*(np.flatnonzero(~follows) + 1).tolist(), len(headers)]

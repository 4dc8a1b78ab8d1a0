"""The sending half of an island: its weight stream, burst by burst, on time."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.context import NS_PER_MS, AgentContext, Endpoint
from agents.ownstream import NS_PER_US, OwnStream
from agents.pacing import Burst, burst_schedule, catch_up, slowed
from agents.records import Kind, Recorder
from agents.resumption import Former
from agents.rounds import NEVER_NS
from agents.sockets import BurstSender, interface_index
from agents.wire import datagram_bytes
from controller.plan import Stream


@dataclass
class Sent:
    """What left in one round, all copies together; times since the start of round 0."""

    datagrams: int = 0
    wire_bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None

    def add(self, now_ns: int, datagrams: int, wire_bytes: int) -> None:
        """Count one burst."""
        self.datagrams += datagrams
        self.wire_bytes += wire_bytes
        self.first_ns = now_ns if self.first_ns is None else self.first_ns
        self.last_ns = now_ns


class Emitter:
    """Sends the island's stream of every round.

    Parameters
    ----------
    ctx, stream, recorder
        The run, what makes the bursts, and what gets an event for each.
    start_of
        CLOCK_MONOTONIC time from which on a round's stream is timed; None while it is not known.
    former
        What an earlier process had sent: that is not sent again.

    Attributes
    ----------
    due_ns
        CLOCK_MONOTONIC time of the next burst, `NEVER_NS` while it is not known and after the
        last one.
    done
        Whether the last burst of the last round has left.
    sent
        What left, by round.
    """

    def __init__(
        self,
        ctx: AgentContext,
        stream: OwnStream,
        recorder: Recorder,
        start_of: Callable[[int], int | None],
        former: Former | None = None,
    ) -> None:
        self.sent = [Sent() for _ in range(ctx.plan.rounds)]
        self._ctx = ctx
        self._stream = stream
        self._recorder = recorder
        self._start_of = start_of
        self._former = former
        self._began_ns = time.monotonic_ns()
        interface = interface_index(f"{ctx.code}-i") if ctx.plan.multicast else None
        self._sender = BurstSender(
            datagram_bytes(ctx.layout.elements, ctx.layout.element_bytes), interface
        )
        self._packed = memoryview(b"")
        self._packed_of = (-1, -1)
        self._round = -1
        self._bursts: list[Burst] = []
        self._next = 0
        self._free_ns = 0
        self._to: list[Endpoint] = []
        self._start_ns: int | None = None
        self.done = False
        self.due_ns = 0
        self._prepare_due()

    def look(self) -> None:
        """See whether a round that waited may begin."""
        if self._start_ns is None and not self.done:
            self._start_ns = self._start_of(self._round)
            self._prepare_due()

    def send(self, now_ns: int) -> None:
        """Send the burst that is due."""
        burst = self._bursts[self._next]
        since_start_ns = now_ns - self._ctx.start_ns
        if self._packed_of != (self._round, burst.block):  # all copies are the same bytes
            self._packed_of = (self._round, burst.block)
            self._packed = self._stream.pack(self._round, burst.block, burst.count, since_start_ns)
        self._sender.send(self._packed, self._to[burst.copy])
        self.sent[self._round].add(since_start_ns, burst.count, burst.wire_bytes)
        self._recorder.add(
            since_start_ns,
            self._round,
            Kind.EMIT,
            self._ctx.city,
            burst.block,
            burst.count,
            burst.wire_bytes,
        )
        self._next += 1
        self._prepare_due()

    def counters(self, round_index: int) -> dict[str, Any]:
        """Counters of one round."""
        sent = self.sent[round_index]
        return {
            "datagrams_out": sent.datagrams,
            "egress_bytes": sent.wire_bytes,
            "first_out_ns": sent.first_ns,
            "last_out_ns": sent.last_ns,
        }

    def close(self) -> None:
        """Close the socket."""
        self._sender.close()

    def _prepare_due(self) -> None:
        """Find the next burst, in the next round that has one if need be."""
        while self._next == len(self._bursts):
            if self._round + 1 == self._ctx.plan.rounds:
                self.done, self.due_ns = True, NEVER_NS
                return
            self._round += 1
            self._next = 0
            stream = self._ctx.plan.round(self._round).stream_of(self._ctx.code)
            self._bursts = [] if stream is None else self._prepare_round(stream)
            self._start_ns = self._start_of(self._round)
        start_ns, due_ns = self._start_ns, self._bursts[self._next].due_ns
        self.due_ns = NEVER_NS if start_ns is None else start_ns + due_ns

    def _prepare_round(self, stream: Stream) -> list[Burst]:
        """Destinations, header and schedule of this round's stream."""
        ctx, plan = self._ctx, self._ctx.plan
        receivers = [plan.topology.index(code) for code in stream.receivers]
        if plan.multicast:
            self._to = [ctx.addresses.group(self._round, ctx.city)]
        else:
            address = ctx.addresses.aggregator if plan.aggregation else ctx.addresses.island
            self._to = [address(city) for city in receivers]
        bursts = burst_schedule(
            ctx.layout,
            rate_gbps=stream.rate_gbps / plan.scale,
            offset_ns=round(stream.offset_ms * NS_PER_MS),
            burst_datagrams=ctx.burst_datagrams,
            copies=len(self._to),
            jitter_ns=round(ctx.jitter_us * NS_PER_US),
            jitter_key=(ctx.seed, ctx.city, self._round),
        )
        left = bursts if self._former is None else self._left(bursts, self._former)
        return self._late(left) if ctx.slow else left

    def _late(self, bursts: list[Burst]) -> list[Burst]:
        """When a round's bursts leave, behind the round before, if this island is slow."""
        start_ns = self._ctx.expectations[self._round].start_ns
        since_start_ns = start_ns - self._ctx.start_ns
        slow = [
            (round(a * NS_PER_MS) - since_start_ns, round(b * NS_PER_MS) - since_start_ns, factor)
            for a, b, factor in self._ctx.slow
        ]
        bursts = slowed(bursts, slow, self._free_ns - start_ns)
        if bursts:
            self._free_ns = start_ns + bursts[-1].due_ns
        return bursts

    def _left(self, bursts: list[Burst], former: Former) -> list[Burst]:
        """What an earlier process has left of this round; nothing if nobody takes it any more."""
        ctx, here = self._ctx, self._round
        since_round_ns = self._began_ns - ctx.expectations[here].start_ns
        closed = here + 1 < ctx.plan.rounds and since_round_ns >= ctx.interval_ns * 3 // 2
        sent = Counter({block: n for (k, block), n in former.sent.items() if k == here})
        return [] if closed else catch_up(bursts, sent, since_round_ns)

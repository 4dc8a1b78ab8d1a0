"""The sending half of an island: its weight stream, burst by burst, on time."""

from dataclasses import dataclass
from typing import Any

from agents.bursts import Packer
from agents.context import NS_PER_MS, AgentContext, Endpoint
from agents.pacing import Burst, burst_schedule
from agents.records import Kind, Recorder
from agents.rounds import NEVER_NS
from agents.sockets import BurstSender, interface_index
from agents.state import State
from agents.weights import Weights
from agents.wire import PacketType, datagram_bytes
from controller.plan import Stream

NS_PER_US = 1000


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

    Attributes
    ----------
    due_ns
        CLOCK_MONOTONIC time of the next burst, `NEVER_NS` after the last one.
    sent
        What left, by round.
    """

    def __init__(
        self, ctx: AgentContext, weights: Weights, state: State, epoch: int, recorder: Recorder
    ) -> None:
        self.sent = [Sent() for _ in range(ctx.plan.rounds)]
        self._ctx = ctx
        self._weights = weights
        self._state = state
        self._recorder = recorder
        self._own_bit = 1 << ctx.city
        interface = interface_index(f"{ctx.code}-i") if ctx.plan.multicast else None
        self._sender = BurstSender(datagram_bytes(ctx.layout.elements), interface)
        self._packer = Packer(
            ctx.burst_datagrams,
            ctx.layout.elements,
            kind=PacketType.DATA,
            job_id=ctx.job_id,
            epoch=epoch,
            src=ctx.city,
        )
        self._seq = 0
        self._packed = memoryview(b"")
        self._round = -1
        self._bursts: list[Burst] = []
        self._next = 0
        self._to: list[Endpoint] = []
        self.due_ns = 0
        self._prepare_due()

    @property
    def done(self) -> bool:
        """Whether the last burst of the last round has left."""
        return self.due_ns == NEVER_NS

    def send(self, now_ns: int) -> None:
        """Send the burst that is due."""
        burst = self._bursts[self._next]
        since_start_ns = now_ns - self._ctx.start_ns
        if burst.copy == 0:
            self._pack(burst, since_start_ns)
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

    def _pack(self, burst: Burst, since_start_ns: int) -> None:
        """Build a burst; all copies of it are the same bytes."""
        last_elements = self._ctx.layout.elements_of(burst.block + burst.count - 1)
        payload = self._packer.payload[: burst.count]
        table = self._state.table(self._round)
        self._weights.fill(self._round, self._own_bit, table, burst.block, payload)
        self._packed = self._packer.seal(
            burst.count, burst.block, self._seq, since_start_ns // NS_PER_US, last_elements
        )
        self._seq += burst.count

    def _prepare_due(self) -> None:
        """Find the next burst, in the next round that has one if need be."""
        while self._next == len(self._bursts):
            if self._round + 1 == self._ctx.plan.rounds:
                self.due_ns = NEVER_NS
                return
            self._round += 1
            self._next = 0
            stream = self._ctx.plan.round(self._round).stream_of(self._ctx.code)
            self._bursts = [] if stream is None else self._prepare_round(stream)
        start_ns = self._ctx.expectations[self._round].start_ns
        self.due_ns = start_ns + self._bursts[self._next].due_ns

    def _prepare_round(self, stream: Stream) -> list[Burst]:
        """Destinations, header and schedule of this round's stream."""
        ctx, plan = self._ctx, self._ctx.plan
        receivers = [plan.topology.index(code) for code in stream.receivers]
        if plan.multicast:
            self._to = [ctx.addresses.group(self._round, ctx.city)]
        else:
            address = ctx.addresses.aggregator if plan.aggregation else ctx.addresses.island
            self._to = [address(city) for city in receivers]
        self._packer.address(round_index=self._round, clique=stream.clique, bitmap=self._own_bit)
        return burst_schedule(
            ctx.layout,
            rate_gbps=stream.rate_gbps / plan.scale,
            offset_ns=round(stream.offset_ms * NS_PER_MS),
            burst_datagrams=ctx.burst_datagrams,
            copies=len(self._to),
            jitter_ns=round(ctx.jitter_us * NS_PER_US),
            jitter_key=(ctx.seed, ctx.city, self._round),
        )

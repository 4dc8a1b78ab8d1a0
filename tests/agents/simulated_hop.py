"""Both ends of the last hop in simulated time, with a channel that loses, repeats and reorders.

The ends are the real ones; only the clock and the wires are not.
"""

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
from agent_plans import make_plan

from agents.aggregator.builder import DatagramBuilder
from agents.aggregator.control import ControlPort
from agents.aggregator.output import AggregateStream
from agents.aggregator.ring import ResendRing
from agents.aggregator.table import Emission
from agents.bursts import parse
from agents.context import AgentContext, Endpoint
from agents.records import Recorder
from agents.recovery.control import CONTROL_TYPES, Control, decode
from agents.requester import Requester
from agents.sockets import ControlSocket
from agents.wire import HEADER_BYTES, HEADER_DTYPE, Cause, PacketType, datagram_bytes

US = 1000
ELEMENTS = 8
BLOCKS = 400
_TURN_NS = 20 * US
"""How late either end notices something."""
_TYPE_AT = 3


@dataclass(frozen=True)
class Channel:
    """What happens to a datagram on the way; probabilities, and times in µs."""

    loss: float = 0.0
    duplication: float = 0.0
    garbling: float = 0.0
    delay_us: int = 100
    jitter_us: int = 0


class Wire:
    """One direction of the hop.

    ``doomed`` says how often the sum of a number is still to be lost.
    """

    def __init__(self, hop: "Hop", deliver: Callable[[bytes], None]) -> None:
        self.carried = 0
        self.doomed: Counter[int] = Counter()
        self._hop = hop
        self._deliver = deliver

    def send(self, datagram: bytes, _to: Endpoint = ("", 0)) -> None:
        """Send, perhaps: `ControlSocket.send` of either end."""
        hop, channel, chance = self._hop, self._hop.channel, self._hop.random
        self.carried += 1
        if self.doomed and datagram[_TYPE_AT] == PacketType.AGG:
            seq = int(np.frombuffer(datagram[:HEADER_BYTES], HEADER_DTYPE)[0]["seq"])
            if self.doomed[seq] > 0:
                self.doomed[seq] -= 1
                return
        copies = 1 + (chance.random() < channel.duplication)
        for _ in range(copies):
            if chance.random() < channel.loss:
                continue
            data = datagram
            if chance.random() < channel.garbling:
                at = chance.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            delay_ns = (channel.delay_us + chance.randint(0, channel.jitter_us)) * US
            hop.at(hop.now_ns + delay_ns, lambda data=data: self._deliver(data))


class _Socket:
    """What a `ControlSocket` is, on a wire."""

    def __init__(self, wire: Wire, inbox: deque[bytes]) -> None:
        self.send = wire.send
        self._inbox = inbox

    def receive(self) -> bytes | None:
        return self._inbox.popleft() if self._inbox else None


class Edge:
    """An aggregator's process: its stream, its ring, and its control port."""

    def __init__(self, hop: "Hop", epoch: int, rows: int, first_seq: int) -> None:
        self.inbox: deque[bytes] = deque()
        self.ring = ResendRing(rows, datagram_bytes(ELEMENTS))
        self.ring.next_seq = self.ring.sent_seq = first_seq
        self._wire = hop.to_island
        ctx = hop.ctx
        recorder = Recorder()
        self._builder = DatagramBuilder(
            self.ring,
            self.send,
            4,
            recorder,
            start_ns=0,
            job_id=ctx.job_id,
            epoch=epoch,
            city=0,
        )
        self._builder.open_round(0, 0)
        socket = cast(ControlSocket, _Socket(self._wire, self.inbox))
        output = cast(AggregateStream, self)
        self.control = ControlPort(ctx, epoch, socket, self.ring, output, recorder)

    def send(self) -> None:
        """Send what waits."""
        ring = self.ring
        self.resend(ring.sent_seq, ring.next_seq - ring.sent_seq)
        ring.sent_seq = ring.next_seq

    def resend(self, seq: int, amount: int) -> None:
        """`AggregateStream.resend` over the wire."""
        for number in range(seq, seq + amount):
            self._wire.send(bytes(self.ring.view(number, 1)))

    def emit(self, blocks: list[int], now_ns: int) -> None:
        """Send the sums of some blocks."""
        self._builder.tick(now_ns)
        for block in blocks:
            values = np.full((1, ELEMENTS), block, np.int32)
            self._builder.take(Emission(0, block, values, 0b110, Cause.COMPLETE))
        self._builder.finish()
        self.send()


class Hop:
    """An edge, an island, and time."""

    def __init__(self, channel: Channel, seed: int = 0) -> None:
        plan = make_plan(blocks=BLOCKS, memory_bytes=1e12)
        self.ctx = AgentContext(
            plan=plan, city=0, start_ns=0, out_dir=Path(), resend_ms=1.0, timeout_ms=100.0
        )
        self.channel = channel
        self.random = random.Random(seed)  # noqa: S311
        self.now_ns = 0
        self.delivered: Counter[int] = Counter()
        self.rejects: Counter[str] = Counter()
        self.heard: list[Control] = []
        self.to_island = Wire(self, self._at_island)
        self.to_edge = Wire(self, self._at_edge)
        self.edge: Edge | None = None
        self.requester = Requester(
            self.ctx, cast(ControlSocket, _Socket(self.to_edge, deque())), Recorder()
        )
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, when_ns: int, do: Callable[[], None]) -> None:
        """Let something happen."""
        heapq.heappush(self._events, (when_ns, next(self._numbers), do))

    def start_edge(self, epoch: int, rows: int, first_seq: int = 0) -> Edge:
        """Start the aggregator, or a new one in place of the old one."""
        self.edge = Edge(self, epoch, rows, first_seq)
        return self.edge

    def run(self, for_us: int) -> None:
        """Let time go by, both ends taking their turn when due."""
        end_ns = self.now_ns + for_us * US
        if self.edge is not None:
            self.edge.control.serve(self.now_ns)
        while self.now_ns < end_ns:
            due_ns = min(
                self._events[0][0] if self._events else end_ns,
                self.requester.due_ns,
                end_ns if self.edge is None else self.edge.control.due_ns,
            )
            self.now_ns = min(end_ns, max(due_ns, self.now_ns + _TURN_NS))
            while self._events and self._events[0][0] <= self.now_ns:
                heapq.heappop(self._events)[2]()
            if self.edge is not None:
                self.edge.control.serve(self.now_ns)
            self.requester.poll(self.now_ns)

    @property
    def told(self) -> dict[str, Any]:
        """The island's counters."""
        return self.requester.counters()

    def _at_island(self, data: bytes) -> None:
        buffer = np.frombuffer(bytearray(data), np.uint8)
        if len(data) >= HEADER_BYTES and data[_TYPE_AT] in CONTROL_TYPES:
            message = decode(data, self.ctx.job_id, self.rejects)
            if message is not None:
                self.heard.append(message)
                self.requester.hear(message, self.now_ns)
            return
        job_id, kind = self.ctx.job_id, PacketType.AGG
        batches = parse(
            buffer, len(data), len(data), kind=kind, job_id=job_id, rejects=self.rejects
        )
        for batch in batches:
            for fresh in self.requester.fresh(batch, self.now_ns, overflowed=False):
                for header, values in zip(fresh.headers, fresh.values, strict=True):
                    assert (values == header["weight_id"]).all()
                    self.delivered[int(header["weight_id"])] += 1

    def _at_edge(self, data: bytes) -> None:
        if self.edge is not None:
            self.edge.inbox.append(data)
            self.edge.control.serve(self.now_ns)

"""The island sends blocks of its own stream again to an island that asks for them."""

from collections import Counter, deque
from typing import Any

from agents.context import AgentContext
from agents.ownstream import OwnStream
from agents.records import Kind, Recorder
from agents.recovery.bucket import datagram_bucket
from agents.recovery.control import REPAIR, Control, encode
from agents.recovery.gaps import NEVER_NS
from agents.recovery.resend import merged
from agents.repairer import REPAIR_SHARE
from agents.sockets import BurstSender, ControlSocket
from agents.state import State
from agents.wire import PacketType, datagram_bytes

MAX_WAITING = 1024
"""Ranges that wait to be sent; what is asked for beyond that is left to be asked for again."""


class RepairSource:
    """Answers requests for blocks of the latest two rounds; they are made anew.

    Parameters
    ----------
    ctx, stream, state, epoch
        The run, what makes the bursts, of which rounds, and this process.
    socket, recorder
        What refusals leave by, and what gets an event for every burst.

    Attributes
    ----------
    due_ns
        When `poll` has something to do.
    asked_ns
        When the last request came.
    drops
        Requests that do not belong here, by reason.
    """

    def __init__(
        self,
        ctx: AgentContext,
        stream: OwnStream,
        state: State,
        epoch: int,
        socket: ControlSocket,
        recorder: Recorder,
    ) -> None:
        self.due_ns = NEVER_NS
        self.asked_ns = 0
        self.drops: Counter[str] = Counter()
        self._ctx = ctx
        self._stream = stream
        self._state = state
        self._epoch = epoch
        self._socket = socket
        self._recorder = recorder
        self._bucket = datagram_bucket(ctx.access_gbps, REPAIR_SHARE, ctx.layout.burst_bytes(0, 1))
        size = datagram_bytes(ctx.layout.elements, ctx.layout.element_bytes)
        self._sender = BurstSender(size, interface=None)
        self._waiting: deque[tuple[int, int, int, int]] = deque()
        self._sent = 0
        self._limited = 0
        self._impossible = 0

    def hear(self, message: Control, now_ns: int) -> None:
        """Queue what is asked for, or refuse it."""
        ctx = self._ctx
        if not self._receives(message.src, message.round):
            self.drops["source"] += 1
            return
        self.asked_ns = now_ns
        if message.round > self._state.latest:  # whoever asks is ahead, and will ask again
            self._limited += sum(count for _, count in message.ranges)
            return
        if not self._state.holds(message.round):
            refusal = message._replace(
                kind=PacketType.UNAVAILABLE, src=ctx.city, epoch=self._epoch, flags=REPAIR
            )
            self._socket.send(encode(refusal, ctx.job_id), ctx.addresses.island(message.src))
            return
        blocks = ctx.layout.blocks
        possible = [(b, min(count, blocks - b)) for b, count in message.ranges if b < blocks]
        self._impossible += len(message.ranges) - len(possible)
        ranges = merged(possible)
        if not ranges:  # a request counts once, however many ranges it has
            self.drops["block"] += 1
        for block, count in ranges:
            entry = (message.src, message.round, block, count)
            if len(self._waiting) >= MAX_WAITING:
                self._limited += count
            elif entry not in self._waiting:
                self._waiting.append(entry)
                self.due_ns = min(self.due_ns, now_ns)

    def poll(self, now_ns: int) -> None:
        """Send what waits, as far as the share of the link allows."""
        if now_ns < self.due_ns:
            return
        while self._waiting:
            to, round_index, block, count = self._waiting[0]
            if not self._state.holds(round_index):
                self._waiting.popleft()
                continue
            part = self._bucket.take(min(count, self._ctx.burst_datagrams), now_ns)
            if part == 0:
                self.due_ns = self._bucket.ready_ns(now_ns)
                return
            self._send(to, round_index, block, part, now_ns)
            self._waiting.popleft()
            if part < count:
                self._waiting.appendleft((to, round_index, block + part, count - part))
        self.due_ns = NEVER_NS

    def counters(self) -> dict[str, Any]:
        """What was sent again."""
        return {
            "repair_sent_blocks": self._sent,
            "repair_limited_blocks": self._limited,
            "repair_impossible_ranges": self._impossible,
        }

    def close(self) -> None:
        """Close the socket."""
        self._sender.close()

    def _receives(self, city: int, round_index: int) -> bool:
        """Whether a city is to have the own stream of a round."""
        plan = self._ctx.plan
        if city >= len(plan.topology.codes) or round_index >= plan.rounds:
            return False
        stream = plan.round(round_index).stream_of(self._ctx.code)
        return stream is not None and plan.topology.codes[city] in stream.receivers

    def _send(self, to: int, round_index: int, block: int, count: int, now_ns: int) -> None:
        ctx = self._ctx
        since_start_ns = now_ns - ctx.start_ns
        burst = self._stream.pack(round_index, block, count, since_start_ns)
        self._sender.send(burst, ctx.addresses.island(to))
        self._sent += count
        self._recorder.add(since_start_ns, round_index, Kind.REPAIR, ctx.city, block, count, to)

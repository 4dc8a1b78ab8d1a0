"""The aggregator's side of recovery: hears requests, sends again, tells where its stream stands."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from agents.aggregator.output import AggregateStream
from agents.aggregator.ring import ResendRing
from agents.context import NS_PER_MS, AgentContext
from agents.records import Kind, Recorder
from agents.recovery.bucket import datagram_bucket
from agents.recovery.control import REPAIR, Control, chunks, decode, encode
from agents.recovery.gaps import Range
from agents.recovery.resend import Heartbeat, Resender
from agents.recovery.serial import WRAP
from agents.sockets import ControlSocket
from agents.wire import PacketType

RESEND_SHARE = 0.5
"""Of the island's access link, for what is sent again."""
_FIRST_HEARTBEAT_NS = NS_PER_MS  # an island's shortest time-out: about as long as it would wait
_LONGEST_PAUSE_NS = 40 * NS_PER_MS
_REQUESTS_AT_ONCE = 16
"""Requests per turn, so that the streams are not kept waiting."""


class ControlPort:
    """Answers the own island, and nobody else: answers go to the island's own address.

    Parameters
    ----------
    ctx, epoch
        The run, and this process's stream.
    socket
        Where requests come in and answers leave.
    ring, output
        What has been sent, and what sends it again.
    recorder
        Gets an event for every resend.
    """

    def __init__(
        self,
        ctx: AgentContext,
        epoch: int,
        socket: ControlSocket,
        ring: ResendRing,
        output: AggregateStream,
        recorder: Recorder,
    ) -> None:
        self.socket = socket
        self.drops: Counter[str] = Counter()
        self._ctx = ctx
        self._epoch = epoch
        self._ring = ring
        self._output = output
        self._recorder = recorder
        self._to = ctx.addresses.island(ctx.city)
        size = ctx.layout.burst_bytes(0, 1)
        self._resender = Resender(datagram_bucket(ctx.access_gbps, RESEND_SHARE, size))
        self._heartbeat = Heartbeat(_FIRST_HEARTBEAT_NS, _LONGEST_PAUSE_NS)
        self._ended: set[int] = set()
        self._sent = 0
        self._nacks = 0

    @property
    def due_ns(self) -> int:
        """When `serve` has something to do, whatever comes."""
        return self._heartbeat.due_ns

    def serve(self, now_ns: int, *, asked: bool = True) -> int:
        """Answer what has come, if anything has, and send a heartbeat if one is due.

        Returns how many requests there were.
        """
        heard = 0
        for _ in range(_REQUESTS_AT_ONCE if asked else 0):
            datagram = self.socket.receive()
            if datagram is None:
                break
            message = decode(datagram, self._ctx.job_id, self.drops)
            if message is not None and self._admits(message, now_ns):
                heard += 1
                self._answer(message, now_ns)
        if now_ns >= self._ctx.start_ns and self._heartbeat.watch(self._ring.next_seq, now_ns):
            self._tell(PacketType.HEARTBEAT, self._first_open())
        return heard

    def end_round(self, round_index: int) -> None:
        """Tell the island that no further sum of a round will come; said once a round."""
        if round_index not in self._ended:
            self._ended.add(round_index)
            self._tell(PacketType.END_ROUND, round_index)

    def has_ended(self, round_index: int) -> bool:
        """Whether `end_round` has been called."""
        return round_index in self._ended

    def counters(self) -> dict[str, Any]:
        """What was asked for and sent again."""
        ring, counted = self._ring, asdict(self._resender.counters)
        return {
            "ring_datagrams": ring.rows,
            "ring_bytes": ring.rows * ring.row_bytes,
            "nacks": self._nacks,
            "resend_datagrams": counted.pop("resent"),
            "unavailable_datagrams": counted.pop("gone"),
            **{f"{name}_datagrams": count for name, count in counted.items()},
        }

    def _admits(self, message: Control, now_ns: int) -> bool:
        """Whether this is a request of the own island about this process's stream."""
        if message.kind is not PacketType.NACK or message.flags & REPAIR:
            reason = "type"
        elif message.src != self._ctx.city:
            reason = "source"
        elif message.epoch != self._epoch:
            reason = "epoch"
            self._heartbeat.hurry(now_ns)
        else:
            return True
        self.drops[reason] += 1
        return False

    def _answer(self, message: Control, now_ns: int) -> None:
        self._nacks += 1
        ring = self._ring
        answer = self._resender.answer(message.ranges, ring.oldest_seq, ring.sent_seq, now_ns)
        for seq, count in answer.resend:
            self._output.resend(seq, count)
            self._recorder.add(
                now_ns - self._ctx.start_ns,
                message.round,
                Kind.RESEND,
                self._ctx.city,
                seq % WRAP,
                count,
                0,
            )
        for ranges in chunks([(seq % WRAP, count) for seq, count in answer.gone]):
            self._send(PacketType.UNAVAILABLE, message.round, ranges)
        if answer.gone:
            self._heartbeat.hurry(now_ns)

    def _tell(self, kind: PacketType, round_index: int) -> None:
        ring = self._ring
        standing = (ring.sent_seq % WRAP, ring.oldest_seq % WRAP)
        self._send(kind, round_index, (standing,))

    def _send(self, kind: PacketType, round_index: int, ranges: tuple[Range, ...]) -> None:
        message = Control(kind, self._ctx.city, self._epoch, round_index, self._sent, 0, ranges)
        self._sent += 1
        self.socket.send(encode(message, self._ctx.job_id), self._to)

    def _first_open(self) -> int:
        """The first round that has not ended."""
        return next(k for k in range(len(self._ended) + 1) if k not in self._ended)

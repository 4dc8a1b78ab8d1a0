"""The aggregator's one stream, to its island or on to where sums meet, sent from its ring."""

from collections import Counter

import numpy as np

from agents.aggregator.ring import ResendRing
from agents.bursts import Headers
from agents.context import Endpoint
from agents.sockets import BurstSender
from agents.wire import ETHERNET_BYTES, HEADER_BYTES, HEADER_DTYPE, IP_UDP_BYTES

_FRAME_BYTES = ETHERNET_BYTES + IP_UDP_BYTES


class AggregateStream:
    """Sends what waits in a ring, and again what the island asks for.

    Parameters
    ----------
    ring
        What is sent.
    to
        The island, another aggregator, or a multicast group.
    burst
        Datagrams per call of the kernel.
    interface
        Where multicast leaves, if ``to`` is a group.

    Attributes
    ----------
    to, burst
        As given.
    datagrams, wire_bytes
        Sent for the first time so far, by round.
    """

    def __init__(
        self, ring: ResendRing, to: Endpoint, burst: int, interface: int | None = None
    ) -> None:
        self.datagrams: Counter[int] = Counter()
        self.wire_bytes: Counter[int] = Counter()
        self._ring = ring
        self.to = to
        self.burst = burst
        self._headers: Headers = ring.memory[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        self._sender = BurstSender(ring.row_bytes, interface)

    def send(self) -> None:
        """Send what waits."""
        ring = self._ring
        first, count = ring.sent_seq, ring.next_seq - ring.sent_seq
        if count:
            self._send(first, count)
            self._count(first, count)
            ring.sent_seq = ring.next_seq

    def resend(self, seq: int, count: int) -> None:
        """Send datagrams again that the ring still holds."""
        self._send(seq, count)

    def fileno(self) -> int:
        """The socket's file descriptor."""
        return self._sender.fileno()

    def note(self, round_index: int, datagrams: int, wire_bytes: int) -> None:
        """Count what somebody else has sent for the first time from the ring."""
        self.datagrams[round_index] += datagrams
        self.wire_bytes[round_index] += wire_bytes

    def close(self) -> None:
        """Close the socket."""
        self._sender.close()

    def _send(self, seq: int, count: int) -> None:
        while count:
            part = self._ring.run(seq, min(count, self.burst))
            self._sender.send(self._ring.view(seq, part), self.to)
            seq += part
            count -= part

    def _count(self, seq: int, count: int) -> None:
        rows = np.arange(seq, seq + count) % self._ring.rows
        rounds, sizes = self._headers["round"][rows], self._ring.sizes[rows]
        # Not `np.unique`, which imports a large part of numpy when it is first used.
        for round_index in set(rounds.tolist()):
            own = sizes[rounds == round_index]
            self.note(round_index, len(own), int(own.sum()) + len(own) * _FRAME_BYTES)

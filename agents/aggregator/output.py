"""The aggregator's one stream to its island, sent from the ring that it was built in."""

from agents.aggregator.ring import ResendRing
from agents.context import Endpoint
from agents.sockets import BurstSender


class AggregateStream:
    """Sends what waits in a ring, and again what the island asks for.

    Parameters
    ----------
    ring
        What is sent.
    to
        The island.
    burst
        Datagrams per call of the kernel.
    """

    def __init__(self, ring: ResendRing, to: Endpoint, burst: int) -> None:
        self._ring = ring
        self._to = to
        self._burst = burst
        self._sender = BurstSender(ring.row_bytes, interface=None)

    def send(self) -> None:
        """Send what waits."""
        ring = self._ring
        first, count = ring.sent_seq, ring.next_seq - ring.sent_seq
        if count:
            self._send(first, count)
            ring.sent_seq = ring.next_seq

    def resend(self, seq: int, count: int) -> None:
        """Send datagrams again that the ring still holds."""
        self._send(seq, count)

    def close(self) -> None:
        """Close the socket."""
        self._sender.close()

    def _send(self, seq: int, count: int) -> None:
        while count:
            part = self._ring.run(seq, min(count, self._burst))
            self._sender.send(self._ring.view(seq, part), self._to)
            seq += part
            count -= part

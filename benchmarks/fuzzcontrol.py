"""What is fuzzed: the aggregator's control port, which hears requests and sends again."""

import socket
from collections import Counter
from dataclasses import replace

from agents.aggregator.control import ControlPort
from agents.aggregator.output import AggregateStream
from agents.aggregator.ring import ResendRing
from agents.context import AgentContext
from agents.records import Recorder
from agents.recovery.control import LONGEST_BYTES
from agents.sockets import ControlSocket
from agents.wire import PacketType, datagram_bytes
from benchmarks.fuzztargets import NOBODY_PORT, FuzzError, Loopback, facts_of
from benchmarks.mutation import Fed

_EPOCH = 1
_RING_ROWS = 64
_BURST = 4
_ADVANCE = 7
"""Datagrams that the stream has gone on between two buffers."""


class ControlTarget:
    """The port, with a ring whose stream goes on; datagrams come through its socket."""

    def __init__(self, ctx: AgentContext, _variant: int) -> None:
        self.facts = replace(facts_of(ctx, PacketType.NACK), follows_epochs=False)
        ctx = replace(ctx, addresses=Loopback(NOBODY_PORT))
        self._ring = ResendRing(_RING_ROWS, datagram_bytes(ctx.layout.elements))
        self._ring.sizes[:] = self._ring.row_bytes
        self._output = AggregateStream(self._ring, ("127.0.0.1", NOBODY_PORT), _BURST)
        listener = ControlSocket(("127.0.0.1", 0), LONGEST_BYTES)
        self._port = ControlPort(ctx, _EPOCH, listener, self._ring, self._output, Recorder())
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(listener.address)

    def feed(self, fed: Fed, now_ns: int) -> None:
        """Send the datagrams of a buffer one by one, each answered before the next comes."""
        self._ring.next_seq += _ADVANCE
        self._ring.sent_seq = self._ring.next_seq
        before = self.accounts().total()
        for start in range(0, max(1, fed.length), fed.segment):
            end = min(start + fed.segment, fed.length)
            self._socket.send(fed.buffer[start:end].tobytes())
            self._port.serve(now_ns)
        if self.accounts().total() != before + fed.datagrams:
            raise FuzzError("a request was not counted")

    def change_rounds(self, closing: int | None, opening: int | None, now_ns: int) -> None:
        """Tell the island that a round has ended."""
        if closing is not None:
            self._port.end_round(closing)

    def accounts(self) -> Counter[str]:
        """Every datagram so far under ``accepted`` or the reason why it was refused."""
        return self._port.drops + Counter(accepted=self._port.counters()["nacks"])

    def close(self) -> None:
        """Close the sockets."""
        self._socket.close()
        self._port.socket.close()
        self._output.close()

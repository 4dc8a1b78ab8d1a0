"""How buffers get from the socket to the engine."""

import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from agents.aggregator.engine import Engine
from agents.aggregator.native import NativeEngine
from agents.aggregator.output import AggregateStream
from agents.bursts import Bytes
from agents.context import Endpoint
from agents.native.layout import Served, Sockets
from agents.sockets import BurstReceiver

Came = Sequence[tuple[Bytes, int, int]]
"""Buffers for `Engine.take`, each with its length and that of its segments."""
Intake = Callable[[int], Came]
"""Receives, and may take, expire and send by itself whatever comes before the time given; what
it returns is left to the caller. It returns nothing if nothing has come for a while."""


class Descriptor(Protocol):
    """A socket."""

    def fileno(self) -> int: ...  # noqa: D102


def make_intake(
    engine: Engine, receiver: BurstReceiver, output: AggregateStream, rejects: Counter[str]
) -> Intake:
    """Make what brings buffers to an engine; the native one receives for itself.

    Parameters
    ----------
    engine, receiver, output
        Of one aggregator.
    rejects
        Gets a count of what does not fit the buffer, unless the engine counts that itself.
    """
    if not isinstance(engine, NativeEngine):

        def receive(_until_ns: int) -> Came:
            got = receiver.receive(rejects)
            return [] if got is None else [(receiver.buffer, *got)]

        return receive
    sockets = serving_sockets(receiver, output, output.to, output.burst)

    def serve(until_ns: int) -> Came:
        served = engine.serve(sockets, until_ns)
        receiver.overflow = sockets.overflow
        for sent in engine.take_sent():
            output.note(*sent)
        return sockets.left() if served is Served.DUE else []

    return serve


def serving_sockets(
    incoming: Descriptor, outgoing: Descriptor, to: Endpoint, most_segments: int
) -> Sockets:
    """What the kernel's loop needs to know of the sockets.

    Parameters
    ----------
    incoming
        With UDP_GRO; its time-out (SO_RCVTIMEO) is how long the loop waits.
    outgoing
        With UDP_SEGMENT of the ring's full datagram.
    to
        Where the sums go.
    most_segments
        Datagrams that one call sends at most.
    """
    return Sockets(
        incoming=incoming.fileno(),
        outgoing=outgoing.fileno(),
        ip=int.from_bytes(socket.inet_aton(to[0]), "big"),
        port=to[1],
        most_segments=most_segments,
    )

"""How buffers get from the socket to the engine."""

import socket
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from agents.aggregator.engine import Engine
from agents.aggregator.native import NativeEngine
from agents.aggregator.output import AggregateStream
from agents.bursts import Bytes
from agents.context import Endpoint
from agents.native.layout import LARGEST_BUFFER, Served, Sockets
from agents.sockets import BurstReceiver

Intake = Callable[[int], tuple[int, int] | None]
"""Receives into the receiver's buffer like `BurstReceiver.receive`, and returns as that does;
but may take, expire and send by itself whatever comes before the time given."""


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
        return lambda until_ns: receiver.receive(rejects)
    sockets = serving_sockets(receiver, output, output.to, output.burst, receiver.buffer)

    def serve(until_ns: int) -> tuple[int, int] | None:
        served = engine.serve(sockets, until_ns)
        receiver.overflow = sockets.overflow
        for sent in engine.take_sent():
            output.note(*sent)
        return (sockets.length, sockets.segment) if served is Served.DUE else None

    return serve


def serving_sockets(
    incoming: Descriptor, outgoing: Descriptor, to: Endpoint, most_segments: int, buffer: Bytes
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
    buffer
        64 kB that must live as long as the result is used.
    """
    if len(buffer) < LARGEST_BUFFER:
        raise ValueError(f"a buffer of {LARGEST_BUFFER} bytes is needed, not {len(buffer)}")
    return Sockets(
        incoming=incoming.fileno(),
        outgoing=outgoing.fileno(),
        ip=int.from_bytes(socket.inet_aton(to[0]), "big"),
        port=to[1],
        most_segments=most_segments,
        buffer=buffer.ctypes.data,
    )

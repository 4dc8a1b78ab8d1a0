"""The sockets as the kernel's loop wants them; see `NativeEngine.serve`."""

import socket

from agents.bursts import Bytes
from agents.context import Endpoint
from agents.native.layout import LARGEST_BUFFER, Sockets


def serving_sockets(
    incoming: socket.socket,
    outgoing: socket.socket,
    to: Endpoint,
    most_segments: int,
    buffer: Bytes,
) -> Sockets:
    """What the loop needs to know of the sockets.

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

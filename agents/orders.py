"""What a run and a host tell each other while the host works: JSON lines over a socket pair.

From the run: ``report``, ``narrow``, ``take-over``, ``finish``. From the host: what it is asked
for, and ``done``.
"""

import json
import socket
from typing import Any

Message = dict[str, Any]


class Orders:
    """One end of the pair.

    Parameters
    ----------
    sock
        A stream socket.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pending = b""

    def fileno(self) -> int:
        """Descriptor."""
        return self._sock.fileno()

    def send(self, **message: object) -> None:
        """Send one message."""
        self._sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> list[Message]:
        """Messages that are complete; blocks only if nothing at all has come.

        Raises
        ------
        ConnectionError
            The other side is gone.
        """
        data = self._sock.recv(1 << 20)
        if not data:
            raise ConnectionError("the run's end of the orders is closed")
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close this end."""
        self._sock.close()

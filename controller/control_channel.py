"""JSON lines over a Unix stream socket: the controller's side of the conversation.

The emulation listens, the controller connects. Controller to emulation: events
``ready``, ``switch``, ``link``, ``reroute``, ``round``, ``paths``, ``late`` and ``error``.
Emulation to controller: commands ``start``, ``paths`` and ``stop``.
"""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.errors import InputError, MachineError


class ControlChannel:
    """A connected control channel.

    Parameters
    ----------
    path
        The emulation's socket.

    Raises
    ------
    MachineError
        Nobody listens there.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            raise MachineError(f"no control socket at {path}: {error.strerror}") from error

    def send(self, event: str, **fields: Any) -> None:
        """Report an event; its time (`CLOCK_MONOTONIC`, ns) is added unless given."""
        fields.setdefault("t_ns", time.monotonic_ns())
        line = json.dumps({"event": event, **fields}, separators=(",", ":"))
        self._socket.sendall(line.encode() + b"\n")

    def commands(self) -> Iterator[dict[str, Any]]:
        """Yield each command until the emulation closes the channel.

        Raises
        ------
        InputError
            A line is not a JSON object with a ``command``.
        """
        pending = b""
        while chunk := self._socket.recv(4096):
            *lines, pending = (pending + chunk).split(b"\n")
            yield from (parse_command(line) for line in lines if line.strip())

    def close(self) -> None:
        """Close the channel."""
        self._socket.close()


def parse_command(line: bytes) -> dict[str, Any]:
    """Read one command line.

    Raises
    ------
    InputError
        It is not a JSON object with a known ``command``, or what belongs to it is missing.
    """
    try:
        command = json.loads(line)
    except ValueError:
        command = None
    name = command.get("command") if isinstance(command, dict) else None
    needed = {"stop": (), "start": ("start_ns",), "paths": ("set",)}.get(str(name))
    if needed is not None and all(isinstance(command.get(key), int) for key in needed):
        return dict(command)
    raise InputError(f"the control channel got a line that is no command: {line[:80]!r}")

"""The run's side of the control channel: JSON lines over a Unix socket."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.errors import CliquenetError
from testbed.processes import Supervisor


class ControlServer:
    """Accepts the controller's connection, again if it is lost, and keeps what it reports.

    Attributes
    ----------
    ready
        All switches are connected, and the rules of round 0 are confirmed.
    confirmed_ns, removed_ns
        Round to the monotonic time at which its rules were first confirmed, or removed.
    paths_ns
        Set of paths that were added to the time at which they were confirmed.
    on_link
        Called with the name of a link, and whether it is up, when switches report it.
    reactions
        What it reported of links, of detours, of switches that came and went, and of
        rounds that began before all switches had their rules.
    """

    def __init__(self, path: Path, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(1)
        self._peer: socket.socket | None = None
        self._buffer = b""
        self.ready = False
        self.confirmed_ns: dict[int, int] = {}
        self.removed_ns: dict[int, int] = {}
        self.paths_ns: dict[int, int] = {}
        self.on_link: Callable[[str, bool], None] = lambda link, up: None
        self.reactions: list[dict[str, Any]] = []
        supervisor.watch_file(self._listener.fileno(), self._accept)

    @property
    def connected(self) -> bool:
        """Whether there is a controller to talk to."""
        return self._peer is not None

    def send(self, **message: object) -> None:
        """Send one command to the controller."""
        if self._peer is None:
            raise CliquenetError("the controller is not connected to the run")
        self._peer.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the sockets."""
        self._drop_peer()
        self._supervisor.unwatch_file(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        self._drop_peer()
        self._peer, _ = self._listener.accept()
        self._supervisor.watch_file(self._peer.fileno(), self._receive)

    def _drop_peer(self) -> None:
        if self._peer is not None:
            self._supervisor.unwatch_file(self._peer.fileno())
            self._peer.close()
            self._peer, self._buffer = None, b""

    def _receive(self) -> None:
        if self._peer is None:
            return
        data = self._peer.recv(65536)
        if not data:
            self._drop_peer()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, message: dict[str, Any]) -> None:
        handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "ready": self._on_ready,
            "round": self._on_round,
            "switch": self.reactions.append,
            "link": self._on_link,
            "paths": self._on_paths,
            "reroute": self.reactions.append,
            "late": self.reactions.append,
            "error": self._on_error,
        }
        handler = handlers.get(str(message.get("event")))
        if handler is None:
            raise CliquenetError(f"the controller sent an unknown message: {message}")
        handler(message)

    def _on_ready(self, _: dict[str, Any]) -> None:
        self.ready = True

    def _on_round(self, message: dict[str, Any]) -> None:
        times = {"confirmed": self.confirmed_ns, "removed": self.removed_ns}.get(message["action"])
        if times is None:  # of its detours
            self.reactions.append(message)
        else:
            times.setdefault(int(message["round"]), int(message["t_ns"]))

    def _on_link(self, message: dict[str, Any]) -> None:
        self.reactions.append(message)
        self.on_link(str(message["link"]), message["state"] == "up")

    def _on_paths(self, message: dict[str, Any]) -> None:
        if message["action"] == "confirmed":
            self.paths_ns[int(message["set"])] = int(message["t_ns"])

    def _on_error(self, message: dict[str, Any]) -> None:
        raise CliquenetError(f"controller: {message.get('message', 'unknown error')}")

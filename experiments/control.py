"""The run's side of the control channel: JSON lines over a Unix socket."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.errors import CliquenetError
from testbed.processes import Supervisor


class ControlServer:
    """Accepts the controller's one connection and keeps what it reports.

    Attributes
    ----------
    ready
        All switches are connected, and the rules of round 0 are confirmed.
    confirmed_ns, removed_ns
        Round to the monotonic time at which its rules were confirmed or removed.
    paths_ns
        Set of paths that were added to the time at which they were confirmed.
    port_changed
        Called with switch, port, and whether it is up, when a switch reports it.
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
        self.port_changed: Callable[[int, int, bool], None] | None = None
        self.switch_events: list[dict[str, Any]] = []
        supervisor.watch_file(self._listener.fileno(), self._accept)

    def send(self, **message: object) -> None:
        """Send one command to the controller."""
        if self._peer is None:
            raise CliquenetError("the controller is not connected to the run")
        self._peer.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the sockets."""
        if self._peer is not None:
            self._drop_peer()
        self._listener.close()

    def _accept(self) -> None:
        self._peer, _ = self._listener.accept()
        self._supervisor.unwatch_file(self._listener.fileno())
        self._supervisor.watch_file(self._peer.fileno(), self._receive)

    def _drop_peer(self) -> None:
        if self._peer is not None:
            self._supervisor.unwatch_file(self._peer.fileno())
            self._peer.close()
            self._peer = None

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
            "switch": self.switch_events.append,
            "paths": self._on_paths,
            "port": self._on_port,
            "error": self._on_error,
        }
        handler = handlers.get(str(message.get("event")))
        if handler is None:
            raise CliquenetError(f"the controller sent an unknown message: {message}")
        handler(message)

    def _on_ready(self, _: dict[str, Any]) -> None:
        self.ready = True

    def _on_round(self, message: dict[str, Any]) -> None:
        times = self.confirmed_ns if message["action"] == "confirmed" else self.removed_ns
        times[int(message["round"])] = int(message["t_ns"])

    def _on_paths(self, message: dict[str, Any]) -> None:
        self.paths_ns[int(message["set"])] = int(message["t_ns"])

    def _on_port(self, message: dict[str, Any]) -> None:
        if self.port_changed is not None:
            self.port_changed(int(message["dpid"]), int(message["port"]), bool(message["up"]))

    def _on_error(self, message: dict[str, Any]) -> None:
        raise CliquenetError(f"controller: {message.get('message', 'unknown error')}")

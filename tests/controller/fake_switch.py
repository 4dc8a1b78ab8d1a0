"""A minimal OpenFlow 1.3 switch for tests: shakes hands, answers barriers, keeps messages."""

import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY = 5, 6
FLOW_MOD, GROUP_MOD = 14, 15
MULTIPART_REQUEST, MULTIPART_REPLY = 18, 19
BARRIER_REQUEST, BARRIER_REPLY = 20, 21
PORT_STATUS = 12
FLOWS, GROUP_DESCRIPTIONS, PORT_DESCRIPTIONS = 1, 7, 13
_PORT = struct.Struct("!I4x6s2x16sIIIIIIII")
_MODIFIED, _LINK_DOWN = 2, 1
_HEADER = struct.Struct("!BBHI")


class FakeSwitch:
    """Connects to a controller and serves it in a thread.

    Parameters
    ----------
    port, dpid
        The controller's port, and who it is.
    refuse
        Answer the first message of this type by an error (bad request, bad length).
    tables
        Parts of the answers to who asks for flows and groups; both empty by default.
    """

    def __init__(
        self,
        port: int,
        dpid: int,
        refuse: int | None = None,
        tables: Mapping[int, Sequence[bytes]] = MappingProxyType({}),
    ) -> None:
        self.messages: list[tuple[int, bytes]] = []
        """Type and body of flow mods, group mods and barriers, in order."""
        self._dpid = dpid
        self._refuse = refuse
        self._tables = tables
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def tell_port(self, number: int, *, up: bool) -> None:
        """Report that a port went down or came up."""
        state = 0 if up else _LINK_DOWN
        port = _PORT.pack(number, bytes(6), b"port", 0, state, 0, 0, 0, 0, 0, 0)
        self._send(PORT_STATUS, 0, struct.pack("!B7x", _MODIFIED) + port)

    def close(self) -> None:
        """Disconnect."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._socket.close()

    def _serve(self) -> None:
        self._send(HELLO, 0)
        while header := self._read(_HEADER.size):
            _, kind, length, xid = _HEADER.unpack(header)
            self._handle(kind, xid, self._read(length - _HEADER.size))

    def _handle(self, kind: int, xid: int, body: bytes) -> None:
        if kind in (FLOW_MOD, GROUP_MOD, BARRIER_REQUEST):
            self.messages.append((kind, body))
        if kind == self._refuse:
            self._refuse = None
            self._send(ERROR, xid, struct.pack("!HH", 1, 6) + bytes(8))
        elif kind == ECHO_REQUEST:
            self._send(ECHO_REPLY, xid, body)
        elif kind == FEATURES_REQUEST:
            self._send(FEATURES_REPLY, xid, struct.pack("!QIBBxxII", self._dpid, 0, 254, 0, 0, 0))
        elif kind == MULTIPART_REQUEST:
            (kind,) = struct.unpack_from("!H", body)
            parts = self._tables.get(kind, [b""])
            for left, part in zip(reversed(range(len(parts))), parts, strict=True):
                self._send(MULTIPART_REPLY, xid, struct.pack("!HHxxxx", kind, left > 0) + part)
        elif kind == BARRIER_REQUEST:
            self._send(BARRIER_REPLY, xid)

    def _send(self, kind: int, xid: int, body: bytes = b"") -> None:
        self._socket.sendall(_HEADER.pack(4, kind, _HEADER.size + len(body), xid) + body)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = self._socket.recv(size - len(data))
            except OSError:
                return b""
            if not chunk:
                return b""
            data += chunk
        return data

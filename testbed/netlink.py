"""Route netlink in batches: many requests in one message, every answer read.

The socket is our own: one opened inside each namespace, blocking, with no event
loop and no helper process. `testbed.netrequests` makes the requests.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink import (
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
)

from testbed.errors import MachineError
from testbed.namespaces import Namespace

_HEADER = struct.Struct("=IHHII")
_BATCH_BYTES = 32768
_BATCH_REQUESTS = 64
"""The kernel answers all of a batch before any answer is read: they have to fit its buffer."""
_RECEIVE_BYTES = 262144


@dataclass(frozen=True)
class Request:
    """One change that the kernel is asked for."""

    what: str
    """Ends the sentence "the kernel refused to …"."""
    kind: int
    flags: int
    message: Any
    """A pyroute2 message, or its bytes."""


class RouteSocket:
    """A route netlink socket of one namespace.

    Parameters
    ----------
    namespace
        Whose interfaces it speaks about; ``None`` for the current one.
    """

    def __init__(self, namespace: Namespace | None = None) -> None:
        if namespace is None:
            self._socket = _open()
        else:
            with namespace.entered():
                self._socket = _open()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> "RouteSocket":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def apply(self, requests: Sequence[Request]) -> None:
        """Send requests in few messages and read the answer to each.

        Raises
        ------
        MachineError
            The kernel refused one; the first refusal is named.
        """
        refused: MachineError | None = None
        for batch in _batches(requests):
            self._socket.send(b"".join(data for _, data in batch))
            waiting = {number: requests[number] for number, _ in batch}
            while waiting:
                for kind, number, body in self._answers():
                    if kind != NLMSG_ERROR or number not in waiting:
                        continue
                    request = waiting.pop(number)
                    error = -struct.unpack_from("=i", body)[0]
                    if error and refused is None:
                        reason = os.strerror(error)
                        refused = MachineError(f"the kernel refused to {request.what}: {reason}")
        if refused is not None:
            raise refused

    def dump(self, request: Request) -> list[bytes]:
        """Send a dump request and return the body of each message of the answer."""
        self._socket.send(_encode(request, 0))
        bodies: list[bytes] = []
        while True:
            for kind, _, body in self._answers():
                if kind == NLMSG_DONE:
                    return bodies
                if kind == NLMSG_ERROR:
                    reason = os.strerror(-struct.unpack_from("=i", body)[0])
                    raise MachineError(f"the kernel refused to {request.what}: {reason}")
                bodies.append(body)

    def _answers(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._socket.recv(_RECEIVE_BYTES)
        offset = 0
        while offset < len(data):
            length, kind, _, number, _ = _HEADER.unpack_from(data, offset)
            yield kind, number, data[offset + _HEADER.size : offset + length]
            offset += (length + 3) & ~3


def attributes(data: bytes) -> dict[int, bytes]:
    """Split a run of netlink attributes into type and payload."""
    found = {}
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def attribute(kind: int, payload: bytes) -> bytes:
    """One netlink attribute, padded to four bytes."""
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def _open() -> socket.socket:
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    route.bind((0, 0))
    return route


def _encode(request: Request, number: int) -> bytes:
    flags = request.flags | NLM_F_REQUEST | NLM_F_ACK
    if isinstance(request.message, bytes):
        length = _HEADER.size + len(request.message)
        data = _HEADER.pack(length, request.kind, flags, number, 0) + request.message
    else:
        header = {"type": request.kind, "flags": flags, "sequence_number": number, "pid": 0}
        request.message["header"] = header
        request.message.encode()
        data = bytes(request.message.data)
    return data + b"\0" * (-len(data) % 4)


def _batches(requests: Iterable[Request]) -> Iterator[list[tuple[int, bytes]]]:
    batch: list[tuple[int, bytes]] = []
    size = 0
    for number, request in enumerate(requests):
        data = _encode(request, number)
        full = len(batch) == _BATCH_REQUESTS or size + len(data) > _BATCH_BYTES
        if batch and full:
            yield batch
            batch, size = [], 0
        batch.append((number, data))
        size += len(data)
    if batch:
        yield batch

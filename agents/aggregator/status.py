"""What an aggregator tells about itself, and the Unix socket on which it tells it.

One connection, one JSON document. The daemon calls `StatusServer.poll` as it
goes round its loop: nothing there ever waits, and nothing is worked out unless
somebody asks.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from testbed.errors import MachineError
from testbed.topology import Frozen

SOCKET_SUFFIX: Final = ".sock"
LOG_SUFFIX: Final = ".jsonl"
POLL_NS: Final = 20_000_000
"""How often the socket is looked at."""
PATIENCE_NS: Final = 2_000_000_000
"""How long a client may take to fetch its document."""
CLIENTS_LIMIT: Final = 8


class MemoryStatus(Frozen):
    """The memory M: what is in it, and what it is divided into."""

    total_bytes: int
    """Table and ring together."""
    block_bytes: int
    slots: int
    occupied_slots: int
    high_water_slots: int
    ring_bytes: int = 0
    """Of the resend ring; 0 without recovery."""
    ring_held_s: float = 0.0
    """Age of the oldest datagram that could still be sent again."""


class RoundStatus(Frozen):
    """How far one live round is."""

    round: int
    clique: int
    expected_blocks: int
    complete_blocks: int
    contributions: dict[str, int]
    """By sender, of ``expected_blocks`` each."""
    gaps: dict[str, int]
    """By sender: blocks that have not come although a later one has. What was neither
    refused nor lost at the socket (``drops``, ``socket_overflow``) was lost in the network."""


class OldestBlock(Frozen):
    """The incomplete block that has been held longest, and who keeps it waiting."""

    round: int
    block: int
    age_ms: float
    missing: tuple[str, ...]
    """Senders whose contribution has not come."""


class Status(Frozen):
    """One aggregator at one moment."""

    version: Literal[1] = 1
    city: str
    time_ms: float
    """Since the start of round 0; negative before it."""
    memory: MemoryStatus
    rounds: tuple[RoundStatus, ...]
    """The live ones, ascending."""
    oldest: OldestBlock | None
    emitted_blocks: dict[str, int]
    """By cause."""
    late_blocks: int
    saturated_blocks: int = 0
    """Sums that left the range of their integers."""
    nonfinite_blocks: int = 0
    """Sums with an infinity, or with what is no number."""
    drops: dict[str, int]
    """Datagrams refused, by reason."""
    socket_overflow: int
    """Datagrams that reached this host, but not the aggregator: its socket was full."""
    recovery: dict[str, float] = Field(default_factory=dict)
    """Counters of the resend protocol; empty without it."""


def status_file(folder: Path, city_code: str, suffix: str) -> Path:
    """Where the aggregator of a city has its socket or its log."""
    return folder / f"status-{city_code}{suffix}"


def append_status(path: Path, status: Status) -> None:
    """Add a line to a status log; it is closed each time, so that others can read it at once."""
    with path.open("a") as file:
        file.write(status.model_dump_json() + "\n")


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """An address for a Unix socket that is short enough, however long its path is.

    The kernel allows 107 bytes; a descriptor of the folder stands for the rest.

    Raises
    ------
    OSError
        There is no such folder.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class _Client:
    """A connection, and what it has not been sent yet."""

    def __init__(self, connection: socket.socket, document: bytes, until_ns: int) -> None:
        self.connection = connection
        self.rest = memoryview(document)
        self.until_ns = until_ns

    def send(self) -> bool:
        """Send what goes; whether that was all, or the client is gone."""
        try:
            self.rest = self.rest[self.connection.send(self.rest) :]
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not self.rest


class StatusServer:
    """Answers each connection with one document and closes it.

    Parameters
    ----------
    path
        Of the socket, which only its owner may open. What a dead process left there is replaced.
    snapshot
        Called once per connection.

    Raises
    ------
    MachineError
        Another process listens there, or the path holds something else, or cannot be used.
    """

    def __init__(self, path: Path, snapshot: Callable[[], Status]) -> None:
        self._path = path
        self._snapshot = snapshot
        self._due_ns = 0
        self._clients: list[_Client] = []
        try:
            _remove_stale(path)
            self._listener = _listen(path)
        except OSError as error:
            raise MachineError(f"cannot open the status socket {path}: {error.strerror}") from error

    def poll(self, now_ns: int) -> None:
        """Serve whoever asks, at most once in `POLL_NS`; never waits."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + POLL_NS
        while len(self._clients) < CLIENTS_LIMIT:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # nobody asks, or no longer
                break
            connection.setblocking(False)
            document = self._snapshot().model_dump_json().encode() + b"\n"
            self._clients.append(_Client(connection, document, now_ns + PATIENCE_NS))
        if self._clients:
            self._serve(now_ns)

    def close(self) -> None:
        """Close the connections and remove the socket."""
        for client in self._clients:
            client.connection.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _serve(self, now_ns: int) -> None:
        waiting = []
        for client in self._clients:
            if client.send() or now_ns >= client.until_ns:
                client.connection.close()
            else:
                waiting.append(client)
        self._clients = waiting


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        with short_address(path) as address:
            listener.bind(address)
        path.chmod(0o600)  # before it listens, so nobody gets in between
        listener.listen(CLIENTS_LIMIT)
    except OSError:
        listener.close()
        raise
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that is gone."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise MachineError(f"cannot open the status socket {path}: something else is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, short_address(path) as address:
        probe.setblocking(False)
        if probe.connect_ex(address) != errno.ECONNREFUSED:
            raise MachineError(f"cannot open the status socket {path}: another process has it")
    path.unlink()

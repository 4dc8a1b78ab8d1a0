"""Fetches the status of aggregators: from their sockets, or from their logs."""

import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from agents.aggregator.status import LOG_SUFFIX, SOCKET_SUFFIX, Status, short_address, status_file
from testbed.errors import InputError

WAIT_S = 2.0
"""How long an aggregator may take to answer: it looks at its socket every 20 ms."""
_CHUNK_BYTES = 1 << 16


def read_status(path: Path) -> Status:
    """The status at a path: asked for on a socket, or the last line of a log.

    Raises
    ------
    InputError
        Nothing is there, nobody answers, or what is there is no status.
    """
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
        document = _ask(path) if is_socket else _last_line(path)
    except OSError as error:
        raise InputError(f"no status at {path}: {error.strerror or error}") from error
    try:
        return Status.model_validate_json(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise InputError(f"no status at {path}: {where}: {first['msg']}") from error


def find_sources(paths: Sequence[Path]) -> list[Path]:
    """Sockets and logs to read.

    Parameters
    ----------
    paths
        Each a socket, a log, or a run's folder (or its ``raw``), which stands for
        all its aggregators: by their sockets where they have any, else by their logs.

    Raises
    ------
    InputError
        A path does not exist.
    """
    sources: list[Path] = []
    for path in paths:
        if path.is_dir():
            folder = path / "raw" if (path / "raw").is_dir() else path
            pattern = status_file(folder, "*", "").name
            found = sorted(folder.glob(pattern + SOCKET_SUFFIX))
            sources += found or sorted(folder.glob(pattern + LOG_SUFFIX))
        elif path.exists():
            sources.append(path)
        else:
            raise InputError(f"{path}: no such socket, log or folder of a run")
    return sources


def _ask(path: Path) -> bytes:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
        short_address(path) as address,
    ):
        client.settimeout(WAIT_S)
        client.connect(address)
        parts = []
        while part := client.recv(_CHUNK_BYTES):
            parts.append(part)
    return b"".join(parts)


def _last_line(path: Path) -> bytes:
    """The last whole line of a file; empty if there is none."""
    lines = path.read_bytes().split(b"\n")
    return lines[-2] if len(lines) > 1 else b""

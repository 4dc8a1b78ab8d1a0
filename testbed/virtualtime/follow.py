"""Reads a file as it grows."""

from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 1 << 20


class Follower:
    """Passes on whatever is appended to a file.

    Parameters
    ----------
    path
        An existing file.
    name
        Told to ``on_output`` with each piece.
    on_output
        Takes the name and the new bytes.
    """

    def __init__(self, path: Path, name: str, on_output: Callable[[str, bytes], None]) -> None:
        self._path = path
        self._name = name
        self._on_output = on_output
        self._offset = 0

    def poll(self) -> None:
        """Pass on what was appended since the last call."""
        if self._path.stat().st_size <= self._offset:
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            while piece := file.read(_CHUNK_BYTES):
                self._offset += len(piece)
                self._on_output(self._name, piece)

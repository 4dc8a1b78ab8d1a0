"""One file lock, so that two set-ups at once do not build the same thing."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import MachineError
from testbed.paths import give_to_caller
from testbed.progress import Step


@contextmanager
def file_lock(path: Path, what: str) -> Iterator[None]:
    """Hold a lock while the block runs; wait for whoever holds it now.

    Parameters
    ----------
    path
        The lock's file, made if missing. It stays: removing it would race.
    what
        What the other one does, for the progress line, e.g. ``another build``.

    Raises
    ------
    MachineError
        The file cannot be written.
    """
    try:
        file = path.open("a")
    except OSError as error:
        raise MachineError(
            f"cannot write {path}: {error.strerror}; is it another user's? "
            "CLIQUENET_CACHE can name another folder"
        ) from error
    with file:
        give_to_caller(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with Step(f"waiting for {what}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield

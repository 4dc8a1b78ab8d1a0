"""The guest's private folder on a tmpfs: made, removed, and swept up after a crash."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.virtualtime.memory import memory_folder

_PREFIX = "cliquenet-guest-"
_OWNER = "owner"


@contextmanager
def scratch_folder(memory_mb: int) -> Iterator[Path]:
    """A folder for one guest, removed in the end.

    Parameters
    ----------
    memory_mb
        Memory of the guest, which will lie there too.

    Raises
    ------
    MachineError
        No tmpfs has room for it.
    """
    parent = memory_folder(memory_mb)
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with (folder / _OWNER).open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)  # tells a sweep that somebody is alive
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove folders whose maker was killed before it could do so."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError), (folder / _OWNER).open("r") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)

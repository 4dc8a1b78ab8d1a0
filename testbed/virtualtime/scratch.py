"""The guest's private folder on a tmpfs: made, removed, and swept up after a crash."""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.virtualtime.memory import memory_folder

_PREFIX = "cliquenet-guest-"
_OWNER = "owner"
_UNCLAIMED_S = 60.0
"""A folder that nobody has claimed for so long is one whose maker was killed while making it."""


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
        with (folder / f".{_OWNER}").open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)  # tells a sweep that somebody is alive
            # Only a locked file gets the name that a sweep looks for: another guest may sweep now.
            (folder / f".{_OWNER}").rename(folder / _OWNER)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(folder: Path) -> bool:
    """Remove a guest's folder whose maker is no more; returns whether it has."""
    if not folder.name.startswith(_PREFIX):
        return False
    with suppress(OSError):
        with (folder / _OWNER).open("r") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        return True
    return False


def _sweep(parent: Path) -> None:
    """Remove folders whose maker was killed before it could do so."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if (folder / _OWNER).exists():
                remove_abandoned(folder)
            elif time.time() - folder.stat().st_mtime > _UNCLAIMED_S:
                shutil.rmtree(folder, ignore_errors=True)

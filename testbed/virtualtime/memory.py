"""Chooses the folder in which the guest's memory and channel lie."""

import os
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MachineError

_PREFERRED = Path("/dev/shm")  # noqa: S108 - a tmpfs by convention, made private by mkdtemp
_CHANNEL_BYTES = 64_000_000
_MB = 1_000_000


@dataclass(frozen=True)
class TmpfsMount:
    """A mounted tmpfs.

    Attributes
    ----------
    folder
        Where it is mounted.
    options
        Its mount options.
    """

    folder: Path
    options: frozenset[str]


def tmpfs_mounts(mounts: str) -> list[TmpfsMount]:
    """The tmpfs mounts in the text of ``/proc/mounts``, in its order."""
    found = []
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[2] == "tmpfs":
            folder = fields[1].replace("\\040", " ")
            found.append(TmpfsMount(Path(folder), frozenset(fields[3].split(","))))
    return found


def memory_folder(memory_mb: int) -> Path:
    """A writable tmpfs with room for the guest's memory.

    ``/dev/shm`` first, then any other. The guest maps its memory executable, so a tmpfs
    mounted ``noexec`` does not do.

    Parameters
    ----------
    memory_mb
        Memory of the guest.

    Raises
    ------
    MachineError
        No tmpfs is good enough; says how much room the best one has.
    """
    mounts = tmpfs_mounts(Path("/proc/mounts").read_text())
    usable = [mount.folder for mount in mounts if not {"noexec", "ro"} & mount.options]
    usable = [folder for folder in usable if os.access(folder, os.W_OK | os.X_OK)]
    usable.sort(key=lambda folder: folder != _PREFERRED)
    rooms = {folder: _free_bytes(folder) for folder in usable}
    need = memory_mb * 1024 * 1024 + _CHANNEL_BYTES
    for folder, free in rooms.items():
        if free >= need and " " not in str(folder):
            return folder
    best = max(rooms.values(), default=0)
    raise MachineError(
        f"the virtual machine needs {need / _MB:.0f} MB on a tmpfs that allows programs, at most "
        f"{best / _MB:.0f} MB are free: ask for less memory, or enlarge one with "
        f"`sudo mount -o remount,exec,size={need // _MB + 1}M /dev/shm`"
    )


def _free_bytes(folder: Path) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize

"""Finds the distribution's kernel source package."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MachineError

# The version that this project is tested with is taken before a newer one.
_TESTED_VERSION = (6, 1)
_NAME = re.compile(r"linux-source-(\d+)\.(\d+)(?:\.\d+)?\.tar\.(?:xz|bz2|gz)")
_TAIL_BYTES = 65536


@dataclass(frozen=True)
class KernelSource:
    """An archive of kernel source.

    Attributes
    ----------
    archive
        The tar file.
    version
        Major and minor version, from its name.
    """

    archive: Path
    version: tuple[int, int]

    def digest(self) -> str:
        """SHA-256 over the archive's size and its tail.

        The tail holds the archive's own checksums of its whole content, so this tells two
        sources apart without reading 140 MB at every start.
        """
        with self.archive.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return hashlib.sha256(b"%d:" % size + file.read()).hexdigest()


def find_source(folder: Path = Path("/usr/src")) -> KernelSource:
    """The kernel source that the distribution's package put on this machine.

    Parameters
    ----------
    folder
        Where packages put it: Debian directly, Ubuntu in a folder of the version's name.

    Raises
    ------
    MachineError
        There is none.
    """
    found: dict[tuple[int, int], KernelSource] = {}
    for archive in sorted([*folder.glob("*.tar.*"), *folder.glob("linux-source-*/*.tar.*")]):
        match = _NAME.fullmatch(archive.name)
        if match and archive.is_file():
            version = (int(match[1]), int(match[2]))
            found[version] = KernelSource(archive, version)
    if not found:
        raise MachineError(
            f"no kernel source in {folder}; run `sudo make setup`, or on Debian 12 "
            "`sudo apt-get install linux-source-6.1`"
        )
    return found.get(_TESTED_VERSION) or found[max(found)]

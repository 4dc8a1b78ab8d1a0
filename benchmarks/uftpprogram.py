"""Where uftp's programs are: on this machine, or unpacked from the distribution's package.

Unpacked, not installed: the package would have a daemon start with the machine.
"""

import shutil
from pathlib import Path

from testbed.unpacked import unpacked

PROGRAMS = ("uftp", "uftpd")


def uftp_folder() -> Path:
    """The folder that holds ``uftp`` and ``uftpd``; fetches them if they are nowhere.

    Raises
    ------
    MachineError
        The distribution's package cannot be had.
    """
    found = [shutil.which(program) for program in PROGRAMS]
    if found[0] and found[1]:
        return Path(found[0]).parent
    return unpacked("uftp", ["uftp"]) / "usr" / "bin"

"""Where uftp's programs are: on this machine, or unpacked from the distribution's package.

Unpacked, not installed: the package would have a daemon start with the machine.
"""

import shutil
from pathlib import Path

from testbed.commands import run
from testbed.errors import CommandError, MachineError
from testbed.paths import cache_dir, give_to_caller, make_dir
from testbed.progress import Step

PROGRAMS = ("uftp", "uftpd")
_LIMIT_S = 120.0


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
    folder = cache_dir() / "uftp"
    programs = folder / "usr" / "bin"
    if not all((programs / program).exists() for program in PROGRAMS):
        fetch(make_dir(folder))
    return programs


def fetch(folder: Path) -> None:
    """Unpack the distribution's package into a folder; needs no root.

    Raises
    ------
    MachineError
        There is no such package, or it does not come.
    """
    try:
        with Step("fetching uftp"):
            run(["apt-get", "download", "-q", "uftp"], cwd=folder, timeout_s=_LIMIT_S)
            for package in folder.glob("uftp_*.deb"):
                run(["dpkg", "-x", str(package), str(folder)], timeout_s=_LIMIT_S)
                package.unlink()
    except CommandError as error:
        raise MachineError(
            f"cannot fetch uftp: {error}; try `sudo apt-get update`, then again"
        ) from error
    give_to_caller(folder)

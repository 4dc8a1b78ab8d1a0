"""Programs of the distribution that are unpacked into the cache, not installed; no root is needed.

What such a program is measured against needs it once; nobody wants its services started with
the machine, or his own version of it replaced.
"""

from collections.abc import Sequence
from pathlib import Path

from testbed.commands import run
from testbed.errors import CommandError, MachineError
from testbed.locking import file_lock
from testbed.paths import cache_dir, give_to_caller, make_dir
from testbed.preflight import is_root
from testbed.progress import Step

_LIMIT_S = 300.0
_VERSIONS = "packages"
"""File beside what was unpacked: the packages and their versions, written at the end."""


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """The folder that packages of the distribution are unpacked in, fetched if it is not there.

    Parameters
    ----------
    name
        Of the program, for messages and the folder.
    packages
        Names in the distribution. What they depend on is up to the caller.

    Raises
    ------
    MachineError
        A package does not exist here, or does not come.
    """
    folder = cache_dir() / name
    if (folder / _VERSIONS).exists():
        return folder
    make_dir(folder)
    with file_lock(folder / "lock", f"another download of {name}"):
        if not (folder / _VERSIONS).exists():
            _fetch(name, packages, folder)
    return folder


def versions(folder: Path) -> dict[str, str]:
    """Package to version, of what was unpacked into a folder."""
    pairs = (line.split() for line in (folder / _VERSIONS).read_text().splitlines())
    return dict(pairs)


def download(package: str, folder: Path) -> None:
    """Have the package manager put a package into a folder.

    Where its list of packages is missing or old, root renews it, as set-up would.

    Raises
    ------
    CommandError
        The package does not come.
    """
    argv = ["apt-get", "download", "-q", package]
    try:
        run(argv, cwd=folder, timeout_s=_LIMIT_S)
    except CommandError:
        if not is_root():
            raise
        run(["apt-get", "update", "-q"], timeout_s=_LIMIT_S)
        run(argv, cwd=folder, timeout_s=_LIMIT_S)


def _fetch(name: str, packages: Sequence[str], folder: Path) -> None:
    lines = []
    try:
        with Step(f"fetching {name}"):
            for package in packages:
                download(package, folder)
            for archive in sorted(folder.glob("*.deb")):
                form = "${Package} ${Version}"
                lines.append(run(["dpkg-deb", "--show", f"--showformat={form}", str(archive)]))
                run(["dpkg", "-x", str(archive), str(folder)], timeout_s=_LIMIT_S)
                archive.unlink()
    except CommandError as error:
        raise MachineError(
            f"cannot fetch {name}: {error}; try `sudo apt-get update`, then again"
        ) from error
    (folder / _VERSIONS).write_text("\n".join(lines))
    give_to_caller(folder)

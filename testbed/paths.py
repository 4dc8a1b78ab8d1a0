"""Where the cache lies, and whose the files are that a run under sudo makes."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MachineError


@dataclass(frozen=True)
class Caller:
    """The user who typed the command: under sudo the one before sudo.

    Attributes
    ----------
    uid, gid
        Numeric owner of everything that is made.
    home
        Home folder, below which the cache lies.
    """

    uid: int
    gid: int
    home: Path


def calling_user(environment: Mapping[str, str] = os.environ) -> Caller:
    """Who typed the command.

    Parameters
    ----------
    environment
        ``SUDO_UID`` and ``SUDO_GID`` are read if this process is root's, ``HOME`` otherwise.

    Returns
    -------
    Caller
    """
    uid, gid = os.getuid(), os.getgid()
    sudo_uid, sudo_gid = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    if uid == 0 and sudo_uid.isdigit() and sudo_gid.isdigit() and int(sudo_uid) != 0:
        return Caller(int(sudo_uid), int(sudo_gid), _home_of(int(sudo_uid)))
    home = environment.get("HOME")
    return Caller(uid, gid, Path(home) if home else _home_of(uid))


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Folder for what is costly to make again: kernel and virtual environment.

    ``$CLIQUENET_CACHE``, else ``$XDG_CACHE_HOME/cliquenet``, else ``~/.cache/cliquenet``
    of the calling user. The folder need not exist yet.
    """
    chosen = environment.get("CLIQUENET_CACHE")
    if chosen:
        return Path(chosen).absolute()
    xdg = environment.get("XDG_CACHE_HOME")
    base = Path(xdg) if xdg else calling_user(environment).home / ".cache"
    return base.absolute() / "cliquenet"


def make_dir(path: Path) -> Path:
    """Make a folder and its missing parents, owned by the calling user.

    Raises
    ------
    MachineError
        It cannot be made.
    """
    missing = [path, *path.parents]
    missing = [folder for folder in missing if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make the folder {path}: {error.strerror}") from error
    for folder in missing:
        give_to_caller(folder)
    return path


def give_to_caller(path: Path) -> None:
    """Hand a file, or a folder with all that is below it, to the calling user.

    Does nothing unless root works for somebody else (sudo). Links are not followed.
    """
    caller = calling_user()
    if caller.uid == os.getuid():
        return
    os.chown(path, caller.uid, caller.gid, follow_symlinks=False)
    if path.is_symlink() or not path.is_dir():
        return
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            os.chown(Path(folder, name), caller.uid, caller.gid, follow_symlinks=False)


def _home_of(uid: int) -> Path:
    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError as error:
        raise MachineError(f"user id {uid} has no home folder; set CLIQUENET_CACHE") from error

"""Runs a command that takes minutes: output to a log file, progress, nothing left behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from testbed.errors import CommandError, MachineError

_POLL_S = 0.1


def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 3600.0,
    on_tick: Callable[[], None] | None = None,
) -> None:
    """Run a command to its end, its output appended to a log file.

    The command gets a process group of its own; whatever ends the wait early
    (Ctrl-C, an exception, the timeout) kills the whole group.

    Parameters
    ----------
    argv
        Program and arguments; no shell.
    log
        File that standard output and standard error are appended to.
    cwd, env
        Working directory, and variables added to the environment.
    timeout_s
        Wall time after which the group is killed.
    on_tick
        Called about ten times a second while the command runs.

    Raises
    ------
    MachineError
        The program does not exist here.
    CommandError
        It exited with another status than 0, or ran out of time; its ``output`` is the
        end of what it printed.
    """
    with log.open("ab") as sink:
        begin = sink.tell()
        process = _start(argv, sink.fileno(), cwd, env)
        try:
            returncode = _wait(process, time.monotonic() + timeout_s, on_tick)
        finally:
            kill_group(process)
    if returncode is None:
        raise CommandError(argv, -1, f"still running after {timeout_s:.0f} s")
    if returncode != 0:
        raise CommandError(argv, returncode, tail(log, begin))


def tail(path: Path, begin: int = 0, limit: int = 4000) -> str:
    """The end of a log file: at most ``limit`` bytes, none from before offset ``begin``."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(begin, size - limit))
        return file.read().decode(errors="replace").strip()


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process that leads its own group, with the group, and reap it.

    SIGTERM comes first, so that a package manager can leave a sound state.
    """
    for number, grace_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=grace_s)


def _start(
    argv: Sequence[str], output: int, cwd: Path | None, env: Mapping[str, str] | None
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},  # we read what it says
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise MachineError(f"`{argv[0]}` is not installed here; run `sudo make setup`") from error


def _wait(
    process: "subprocess.Popen[bytes]", deadline: float, on_tick: Callable[[], None] | None
) -> int | None:
    while time.monotonic() < deadline:
        try:
            return process.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if on_tick:
                on_tick()
    return None

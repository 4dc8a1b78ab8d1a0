"""The one place that runs commands."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import CommandError, MachineError


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
) -> str:
    """Run a command to its end and return its standard output.

    Parameters
    ----------
    argv
        Program and arguments; no shell.
    cwd, env
        Working directory, and variables added to the environment.
    timeout_s
        Wall time after which the command is killed.

    Raises
    ------
    MachineError
        The program does not exist here.
    CommandError
        It exited with another status than 0, or ran out of time.
    """
    try:
        done = subprocess.run(
            list(argv),
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise MachineError(f"`{argv[0]}` is not installed here; run `sudo make setup`") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(argv, -1, f"still running after {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise CommandError(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout

"""Runs the project's commands as a user does."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def start(
    folder: Path, words: Sequence[str], *, errors: int, session: bool = False
) -> "subprocess.Popen[bytes]":
    """Start a command of a clone.

    Parameters
    ----------
    folder
        The clone.
    words
        Name of the command, and its options.
    errors
        Where its standard error goes, as of `subprocess`.
    session
        Whether it leads a process group, which can be interrupted as a whole.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=session,
    )


@contextmanager
def experiment(folder: Path, options: Sequence[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """``experiment`` of a clone, its errors in a pipe; it ends with the block, cleaned up."""
    process = start(folder, ["experiment", *options], errors=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            process.communicate()

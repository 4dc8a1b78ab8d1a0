"""Runs experiments as a user does, by the command."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def experiment(folder: Path, options: Sequence[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """``experiment`` of a clone, its errors in a pipe; it ends with the block, cleaned up."""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "experiment", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            process.communicate()

"""The command line, as a user would call it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 600


def cliquenet(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever comes of it."""
    return subprocess.run(
        [sys.executable, "-m", "experiments.cli", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

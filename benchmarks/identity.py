"""Runs one experiment many times, idle and under load, from two folders, and compares traces.

Run with ``python -m benchmarks.identity``. The second folder is a copy of the committed files, at
a path of another length. Every other run shares the machine with as many busy loops as it has
processors. The last line is one JSON object; the status is 1 unless all traces are the same.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.experimentcommand import experiment
from experiments.results import read_json
from testbed.commandline import run_command_line
from testbed.commands import run
from testbed.errors import CliquenetError

_ROOT = Path(__file__).parent.parent
_SMALL = ("--schedule", "triangles", "--payload", "60MB", "--rounds", "2")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Row:
    """One run."""

    copied: bool
    """Whether it ran from the second folder."""
    loaded: bool
    wall_s: float
    trace_sha256: str


def measure(folder: Path, *, copied: bool, loaded: bool) -> Row:
    """Run the experiment from a folder, and take its trace."""
    with tempfile.TemporaryDirectory(prefix="cliquenet-identity-") as name, _load(loaded):
        began = time.monotonic()
        with experiment(folder, [*_SMALL, "--results", name]) as process:
            _, errors = process.communicate()
        summary = Path(name, "latest", "summary.json")
        if not summary.exists():
            raise CliquenetError(f"the run failed: {errors.decode().strip()[-200:]}")
        wall_s = round(time.monotonic() - began, 3)
        return Row(copied, loaded, wall_s, str(read_json(summary)["trace_sha256"]))


@app.command()
def identity(
    times: Annotated[int, typer.Option(help="How many runs.", min=2)] = 20,
) -> int:
    """Run the same again and again; print whether the traces are the same."""
    rows = []
    with _copy() as copy:
        for number in range(times):
            copied, loaded = number % 2 == 1, number % 4 >= 2
            rows.append(measure(copy if copied else _ROOT, copied=copied, loaded=loaded))
            print(rows[-1])
    most = max((sum(r.trace_sha256 == row.trace_sha256 for r in rows) for row in rows), default=0)
    print(json.dumps({"runs": times, "identical": most, "rows": [asdict(row) for row in rows]}))
    return 0 if most == times else 1


@contextmanager
def _copy() -> Iterator[Path]:
    """A folder with the committed files of this one."""
    with tempfile.TemporaryDirectory(prefix="cliquenet-identity-copy-of-the-files-") as name:
        archive = Path(name, "files.tar")
        run(["git", "-C", str(_ROOT), "archive", "--output", str(archive), "HEAD"])
        run(["tar", "--extract", "--file", str(archive), "--directory", name])
        archive.unlink()
        yield Path(name)


@contextmanager
def _load(wanted: bool) -> Iterator[None]:
    """As many busy loops as there are processors, if wanted."""
    loop = [sys.executable, "-c", "while True: pass"]
    count = len(os.sched_getaffinity(0)) if wanted else 0
    busy = [subprocess.Popen(loop) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(run_command_line(app))

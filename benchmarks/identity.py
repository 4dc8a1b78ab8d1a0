"""Runs two experiments many times, idle and under load, from two folders, and compares traces.

Run with ``python -m benchmarks.identity``. One of the experiments loses datagrams, at random, and
recovers them. The second folder is a copy of the committed files; it and its results have longer
paths. Every other run shares the machine with as many busy loops as it has processors. The last
line is one JSON object; the status is 1 unless each experiment has one trace.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
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
_LOSSES = (0.0, 1.0)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Row:
    """One run."""

    loss_percent: float
    """On the last hop."""
    copied: bool
    """Whether it ran from the second folder."""
    loaded: bool
    wall_s: float
    trace_sha256: str


def measure(folder: Path, loss_percent: float, *, copied: bool, loaded: bool) -> Row:
    """Run an experiment from a folder, and take its trace."""
    prefix = "cliquenet-identity-of-the-copy-" if copied else "cliquenet-identity-"
    lossy = [f"--set=loss_percent={loss_percent}", "--set=resend_ms=20"] if loss_percent else []
    with tempfile.TemporaryDirectory(prefix=prefix) as name, _load(loaded):
        began = time.monotonic()
        with experiment(folder, [*_SMALL, *lossy, "--results", name]) as process:
            _, errors = process.communicate()
        summary = Path(name, "latest", "summary.json")
        if not summary.exists():
            raise CliquenetError(f"the run failed: {errors.decode().strip()[-200:]}")
        wall_s = round(time.monotonic() - began, 3)
        trace = str(read_json(summary)["trace_sha256"])
        return Row(loss_percent, copied, loaded, wall_s, trace)


@app.command()
def identity(
    times: Annotated[int, typer.Option(help="Runs of each experiment.", min=2)] = 20,
) -> int:
    """Run the same again and again; print whether the traces are the same."""
    rows = []
    with _copy() as copy:
        for number in range(times):
            copied, loaded = number % 2 == 1, number % 4 >= 2
            folder = copy if copied else _ROOT
            for loss_percent in _LOSSES:
                rows.append(measure(folder, loss_percent, copied=copied, loaded=loaded))
                print(rows[-1])
    identical = {
        str(loss): _largest(row.trace_sha256 for row in rows if row.loss_percent == loss)
        for loss in _LOSSES
    }
    report = {"runs_each": times, "identical": identical, "rows": [asdict(row) for row in rows]}
    print(json.dumps(report))
    return 0 if set(identical.values()) == {times} else 1


def _largest(traces: Iterable[str]) -> int:
    """How many of them are the same, at most."""
    return max(Counter(traces).values())


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

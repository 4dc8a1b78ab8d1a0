"""Runs inside the virtual machine: emulates run folders one after another, and looks behind them.

``python -m benchmarks.faultguest REPORT RUN…`` writes, for each run, how its emulation
ended and which interfaces, processes and folders it left.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SECONDS = 120
"""Of the guest's clock; a run that takes longer hangs."""


def main(argv: Sequence[str]) -> int:
    """Emulate the runs; returns 0 whatever came of them."""
    report, *runs = map(Path, argv)
    told = {run.parent.name: emulate(run) for run in runs}
    report.write_text(json.dumps(told))
    return 0


def emulate(run_dir: Path) -> dict[str, Any]:
    """Emulate one run, and compare the machine after it with the one before it."""
    before, begun_s = _machine(), time.monotonic()
    command = [sys.executable, "-m", "experiments.emulate", str(run_dir)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
        status, said = done.returncode, done.stderr.decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        status, said = None, "it did not end"
    after = _machine()
    return {
        "status": status,
        "hung": status is None,
        "error": said.splitlines()[-1] if said and status != 0 else "",
        "seconds": round(time.monotonic() - begun_s, 3),
        "left": {what: sorted(after[what] - before[what]) for what in before},
    }


def _machine() -> dict[str, set[str]]:
    processes = set()
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = status.read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if words[0]:  # threads of the kernel have no command line
            processes.add(f"{status.parent.name} {b' '.join(words).decode(errors='replace')}")
    return {
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "processes": processes,
        "folders": {path.name for path in Path(tempfile.gettempdir()).glob("cliquenet-*")},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

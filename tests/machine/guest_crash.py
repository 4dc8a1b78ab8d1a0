"""Runs inside the virtual-time machine: kills one process of a run, passes the run's status on.

``python tests/machine/guest_crash.py RUN_DIR controller|agent`` starts the emulation
and kills its controller, or the agent that was forked last, in the middle of a round; it says
which capabilities that process had.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def children_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        fields = status.read_text().rpartition(")")[2].split()
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return sorted(found)


def is_controller(pid: int) -> bool:
    return b"-m\0controller" in Path(f"/proc/{pid}/cmdline").read_bytes()


def main(run_dir: str, victim: str) -> int:
    emulation = subprocess.Popen([sys.executable, "-m", "experiments.emulate", run_dir])
    # 2 daemons of Open vSwitch, the controller, 9 aggregators and 9 islands.
    while len(children_of(emulation.pid)) < 21 and emulation.poll() is None:
        time.sleep(0.1)
    time.sleep(2.2)
    children = children_of(emulation.pid)
    chosen = (
        next(p for p in children if is_controller(p)) if victim == "controller" else max(children)
    )
    lines = Path(f"/proc/{chosen}/status").read_text().splitlines()
    able = next(line.split()[1] for line in lines if line.startswith("CapBnd"))
    sys.stderr.write(f"capabilities {able}\n")
    os.kill(chosen, signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    status = emulation.wait()
    sys.stderr.write(f"ended after {(time.monotonic_ns() - killed_ns) / 1e9:.3f} s\n")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Sets right what a run left behind whose own process was killed.

A run's network lives in namespaces of its own, so the kernel removes bridges,
links and shapers with the last process that is in there. What can stay is that
process, and a run folder that claims to be running. A process counts as ours
only if its command line names both our program and this very run folder.
"""

import os
import select
import signal
from pathlib import Path

from experiments.results import owner_runs, read_state, set_state
from testbed.errors import CliquenetError

PROGRAM = "experiments.emulate"
_GRACE_S = 5.0


def clean_all(results_dir: Path) -> list[str]:
    """Clean up after every run below ``results_dir`` that has lost its process.

    Returns
    -------
    list of str
        What was done, one line each; empty if there was nothing to do.
    """
    done: list[str] = []
    for run_dir in sorted(results_dir.iterdir()) if results_dir.is_dir() else []:
        if run_dir.is_dir() and not run_dir.is_symlink():
            done += clean_run(run_dir)
    return done


def clean_run(run_dir: Path) -> list[str]:
    """Clean up after one run, unless it still runs; its results stay.

    Raises
    ------
    CliquenetError
        A process that is ours does not end.
    """
    state = read_state(run_dir)
    running = state.get("state") == "running"
    if running and owner_runs(state):
        return [f"{run_dir.name}: still running, left alone"]
    done = [f"{run_dir.name}: stopped process {pid}" for pid in _stop_processes(run_dir)]
    if running:
        set_state(run_dir, "incomplete", "the run was killed")
        done.append(f"{run_dir.name}: marked incomplete")
    return done


def _stop_processes(run_dir: Path) -> list[int]:
    """End the emulation of a run, wherever it still runs."""
    stopped = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_ours(int(entry.name), run_dir):
            _stop(int(entry.name), run_dir)
            stopped.append(int(entry.name))
    return sorted(stopped)


def _is_ours(pid: int, run_dir: Path) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return PROGRAM.encode() in arguments and os.fsencode(run_dir.resolve()) in arguments


def _stop(pid: int, run_dir: Path) -> None:
    """Ask a process to clean up and end; kill it if it does not."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            # Checked after opening: the descriptor stands for this process, not its number.
            if not _is_ours(pid, run_dir):
                return
            signal.pidfd_send_signal(pidfd, sig)
            if select.select([pidfd], [], [], _GRACE_S)[0]:
                return
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise CliquenetError(f"process {pid} is another user's: run this with sudo") from error
    finally:
        os.close(pidfd)
    raise CliquenetError(f"process {pid} of {run_dir.name} does not end")

"""Sets right what a run left behind whose own process was killed.

A run's network lives in namespaces of its own, so the kernel removes bridges,
links and shapers with the last process that is in there. What can stay is that
process, the guest's folder, and a run folder that claims to be running. A process
counts as ours only if the run's state file lists it, with its start time, or if its
command line names both our program and this very run folder.
"""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.results import VERIFIED, is_running, owner_runs, read_state, set_state
from testbed.errors import CliquenetError
from testbed.virtualtime.scratch import remove_abandoned

PROGRAM = "experiments.emulate"
_GRACE_S = 5.0


def clean_all(results_dir: Path) -> list[str]:
    """Clean up after every run and verification that has lost its process.

    Returns
    -------
    list of str
        What was done, one line each; empty if there was nothing to do.
    """
    done: list[str] = []
    for parent in (results_dir, results_dir / VERIFIED):
        for run_dir in sorted(parent.iterdir()) if parent.is_dir() else []:
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
    done += [f"{run_dir.name}: removed {folder}" for folder in _remove_folders(state)]
    if running:
        set_state(run_dir, "incomplete", "the run was killed")
        done.append(f"{run_dir.name}: marked incomplete")
    return done


def _remove_folders(state: dict[str, Any]) -> list[str]:
    """Remove the listed folders that nobody holds any more."""
    folders = [made["folder"] for made in state.get("made", ()) if made["folder"]]
    return [folder for folder in folders if remove_abandoned(Path(folder))]


def _stop_processes(run_dir: Path) -> list[int]:
    """End what a run has started, wherever it still runs."""
    listed = {p["pid"]: p for p in (m["process"] for m in read_state(run_dir).get("made", ()))}

    def ours(pid: int) -> bool:
        return is_running(listed.get(pid)) or _emulates(pid, run_dir)

    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    stopped = sorted(pid for pid in running if ours(pid))
    for pid in stopped:
        _stop(pid, ours, run_dir.name)
    return stopped


def _emulates(pid: int, run_dir: Path) -> bool:
    """Whether a process says on its command line that it emulates this run."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return PROGRAM.encode() in arguments and os.fsencode(run_dir.resolve()) in arguments


def _stop(pid: int, ours: Callable[[int], bool], run_id: str) -> None:
    """Ask a process to clean up and end; kill it if it does not."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            # Checked after opening: the descriptor stands for this process, not its number.
            if not ours(pid):
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
    raise CliquenetError(f"process {pid} of {run_id} does not end")

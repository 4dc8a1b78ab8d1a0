"""Kills and interrupts a small run at random moments, and looks for what is left behind.

Run with ``python -m benchmarks.kills``. After each end it calls ``clean``, as a user would, and
then looks for processes and folders of the run, for changes of the machine's own interfaces, and
whether a stranger with a similar command line is alive. The last line is one JSON object; the
status is 1 if anything was found.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.experimentcommand import start
from experiments.cleanup import PROGRAM
from experiments.results import read_state
from testbed.commandline import run_command_line
from testbed.errors import CliquenetError

_ROOT = Path(__file__).parent.parent
_SMALL = ("--schedule", "triangles", "--payload", "60MB", "--rounds", "2")
_GRACE_S = 15.0
_SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Trial:
    """One run that was ended early."""

    how: str
    at_s: float
    state: str
    """Of the run's folder after the cleaning; empty if there was none yet."""
    left: tuple[str, ...]
    """What was still there; empty if all is well."""


def trial(how: str, at_s: float) -> Trial:
    """Start a run, end it after a while, clean up, and look around.

    Parameters
    ----------
    how
        ``kill``: SIGKILL to the command alone. ``interrupt``: SIGINT to its whole process group,
        as Ctrl-C does.
    at_s
        Wall time from its start to its end.
    """
    interfaces = _interfaces()
    with tempfile.TemporaryDirectory(prefix="cliquenet-kills-") as name:
        results = Path(name)
        stranger = _stranger(results)
        try:
            process = _command("experiment", *_SMALL, "--results", name)
            time.sleep(at_s)
            family = _family(process.pid)
            left = [] if _end(process, how) else ["the command went on"]
            _clean(results)
            left += _wait_for_end(family)
            left += [f"folder {folder}" for folder in _folders(family) if folder.exists()]
            if stranger.poll() is not None:
                left.append("the stranger was stopped")
        finally:
            stranger.kill()
            stranger.wait()
        if _interfaces() != interfaces:
            left.append("the machine's interfaces changed")
        run_dir = results / "latest"
        state = str(read_state(run_dir).get("state", "")) if run_dir.exists() else ""
        if state == "running":
            left.append("the run still counts as running")
    return Trial(how, round(at_s, 3), state, tuple(left))


@app.command()
def kills(
    times: Annotated[int, typer.Option(help="Trials of each kind.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 1,
) -> int:
    """Kill and interrupt runs; print what is left behind."""
    # In the background of a script it is ignored, which children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cliquenet-kills-") as name:
        if _command("experiment", *_SMALL, "--results", name).wait() != 0:
            raise CliquenetError("the run fails even if nobody ends it")
    whole_s = time.monotonic() - began
    moments = random.Random(seed)  # noqa: S311 - no secret
    trials = []
    for number in range(2 * times):
        trials.append(trial(list(_SIGNALS)[number % 2], moments.uniform(0.1, whole_s)))
        done = trials[-1]
        print(f"{done.how} at {done.at_s:.1f} s: {done.state or 'no folder yet'}", *done.left)
    found = [t for t in trials if t.left]
    report = {
        "trials": len(trials),
        "left_behind": len(found),
        "whole_run_s": round(whole_s, 3),
        "states": {s: sum(t.state == s for t in trials) for s in sorted({t.state for t in trials})},
        "rows": [asdict(t) for t in trials],
    }
    print(json.dumps(report))
    return 1 if found else 0


def _command(*words: str) -> "subprocess.Popen[bytes]":
    return start(_ROOT, words, errors=subprocess.DEVNULL, session=True)


def _stranger(results: Path) -> "subprocess.Popen[bytes]":
    """A process that looks like a run of ours, but is none of this folder."""
    code = "import time; time.sleep(3600)"
    return subprocess.Popen([sys.executable, "-c", code, PROGRAM, f"{results}-of-another"])


def _end(process: "subprocess.Popen[bytes]", how: str) -> bool:
    """End a command; returns whether it did."""
    if process.poll() is None:
        target = os.kill if how == "kill" else os.killpg
        target(process.pid, _SIGNALS[how])
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def _clean(results: Path) -> None:
    if _command("clean", "--results", str(results)).wait() != 0:
        raise CliquenetError("clean failed")


def _family(pid: int) -> dict[int, tuple[str, Path | None]]:
    """A process and all below it, but for zombies: start time and working folder by number."""
    facts = {int(p.name): _facts(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found = {pid}
    while new := {p for p, (parent, *_) in facts.items() if parent in found} - found:
        found |= new
    return {p: facts[p][1:] for p in found if p in facts and facts[p][1]}


def _facts(process: Path) -> tuple[int, str, Path | None]:
    """Parent, start time and working folder of a process (proc(5), fields 4 and 22)."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, "", None
    if fields[0] == "Z":
        return 0, "", None
    try:
        return int(fields[1]), fields[19], (process / "cwd").readlink()
    except OSError:
        return int(fields[1]), fields[19], None


def _wait_for_end(family: dict[int, tuple[str, Path | None]]) -> list[str]:
    """Wait for processes to be gone; returns those that are not."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        alive = [p for p, (start, _) in family.items() if _facts(Path(f"/proc/{p}"))[1] == start]
        if not alive or time.monotonic() > deadline:
            return [f"process {pid}" for pid in alive]
        time.sleep(0.05)


def _folders(family: dict[int, tuple[str, Path | None]]) -> set[Path]:
    """The private folders in which a family worked."""
    folders = {folder for _, folder in family.values() if folder is not None}
    return {folder for folder in folders if folder.name.startswith("cliquenet-guest-")}


def _interfaces() -> list[str]:
    return sorted(entry.name for entry in Path("/sys/class/net").iterdir())


if __name__ == "__main__":
    sys.exit(run_command_line(app))

"""Boots the guest, follows its output, and turns every way it can end into one result."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import InputError, MachineError
from testbed.privileges import Capability, has
from testbed.virtualtime.boot import Boot, is_guest
from testbed.virtualtime.diagnosis import death, last_lines, out_of_memory, warnings
from testbed.virtualtime.edits import SEED_VARIABLE
from testbed.virtualtime.follow import Follower
from testbed.virtualtime.scratch import scratch_folder

_POLL_S = 0.02
_GUEST = Path(__file__).with_name("guest.py")
_PYTHON = Path("/usr/bin/python3")

OnOutput = Callable[[str, bytes], None]
OnBoot = Callable[[int, Path], None]


@dataclass(frozen=True)
class Outcome:
    """How the command ended.

    Attributes
    ----------
    status
        Exit status; 128 + n if signal n ended it.
    wall_s, virtual_s
        Wall time from boot to power-off, and the command's time on the guest's clock.
    console
        What the kernel warned of; empty if all was well.
    """

    status: int
    wall_s: float
    virtual_s: float
    console: str


def run_in_virtual_time(
    command: Sequence[str],
    *,
    kernel: Path,
    on_output: OnOutput,
    seed: int = 1,
    memory_mb: int = 2048,
    writable: Path | Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    wall_limit_s: float = 600.0,
    on_boot: OnBoot | None = None,
) -> Outcome:
    """Run one command in a guest whose clock skips idle time; see `run_in_guest`.

    Same seed, same files, same run. ``kernel`` is the program that
    :func:`testbed.virtualtime.kernel.ensure_kernel` returns.
    """
    return run_in_guest(
        command,
        boot=Boot.virtual_time(kernel),
        on_output=on_output,
        seed=seed,
        memory_mb=memory_mb,
        writable=writable,
        env=env,
        cwd=cwd,
        wall_limit_s=wall_limit_s,
        on_boot=on_boot,
    )


def run_in_guest(
    command: Sequence[str],
    *,
    boot: Boot,
    on_output: OnOutput,
    seed: int = 1,
    memory_mb: int = 2048,
    writable: Path | Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    wall_limit_s: float = 600.0,
    on_boot: OnBoot | None = None,
) -> Outcome:
    """Run one command in a guest with the host's files and a clock of its own.

    The guest sees the host's root; what it writes stays in its memory and is gone in the
    end, except in the ``writable`` folders.

    Parameters
    ----------
    command
        Program and arguments.
    boot
        Which kernel, and which clock.
    on_output
        Called with ``stdout`` or ``stderr`` and the bytes, as they arrive.
    seed
        Seeds all randomness of the guest in virtual time; 0 to 2**64 - 1.
    memory_mb
        Memory of the guest.
    writable
        Existing folders of the host, mounted read-write at the same path.
    env
        Added to the guest's own short environment; nothing of the host's is passed on.
    cwd
        Working directory; that of this process by default.
    wall_limit_s
        Wall time after which the guest is killed.
    on_boot
        Called with the guest's process id and its private folder, once it has started.

    Returns
    -------
    Outcome

    Raises
    ------
    InputError
        An argument cannot be used.
    MachineError
        The guest could not start, panicked, hung, or ended without an exit status.
    """
    folders = [writable] if isinstance(writable, Path) else list(writable)
    job = {
        "command": list(command),
        "cwd": str((cwd or Path.cwd()).absolute()),
        "env": {**_base_environment(seed), **(env or {})},
        "writable": sorted(str(folder.resolve()) for folder in folders),
        "modules": [str(path) for path in boot.modules],
        "settle_uptime_s": boot.settle_uptime_s,
    }
    _check(command, seed, folders)
    with scratch_folder(memory_mb) as scratch:
        for name in ("stdout", "stderr"):
            (scratch / name).touch()
        (scratch / "job.json").write_text(json.dumps(job))
        shutil.copyfile(_GUEST, scratch / _GUEST.name)
        begin = time.monotonic()
        with _guest(boot, scratch, seed, memory_mb) as process:
            if on_boot is not None:
                on_boot(process.pid, scratch)
            ended = _follow(process, scratch, on_output, begin + wall_limit_s)
        return _outcome(scratch, ended, wall_limit_s, time.monotonic() - begin)


def _check(command: Sequence[str], seed: int, folders: Sequence[Path]) -> None:
    if not command:
        raise InputError("no command given to run in the virtual machine")
    if is_guest():
        raise MachineError("this is User Mode Linux itself, which cannot run another one")
    if not 0 <= seed < 2**64:
        raise InputError(f"seed {seed} is not between 0 and 2**64 - 1")
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder, so it cannot be made writable in the guest")


def _base_environment(seed: int) -> dict[str, str]:
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": str(seed % 2**32),
    }


@contextmanager
def _guest(
    boot: Boot, scratch: Path, seed: int, memory_mb: int
) -> "Iterator[subprocess.Popen[bytes]]":
    """A booted guest, which is dead when the block is left, or when this process dies."""
    interpreter = _PYTHON if _PYTHON.exists() else Path(sys.executable).resolve()
    # An inode that the guest knows holds a file open; a guest that panics dumps no core.
    argv = ["prlimit", "--core=0:0", f"--nofile={_open_files()}"]
    argv += ["taskset", "--cpu-list", _one_processor()]
    argv += ["setpriv", "--pdeathsig", "KILL", "--no-new-privs", "--inh-caps=-all"]
    if has(Capability.SETPCAP):  # files, and folders on the way to them, may be of another user
        argv += ["--bounding-set=-all,+dac_override,+dac_read_search"]
    argv += ["--", str(boot.program)]
    # The kernel stirs its command line into its random pool: nothing in it may vary from
    # run to run, so folders are named by way of the process's own working directory.
    argv += [f"mem={memory_mb}M", "uml_dir=./", "umid=guest", "rootfstype=hostfs", "rootflags=/"]
    argv += ["ro", "con=null", "con0=null,fd:1", "ssl=null", "quiet"]
    argv += boot.words
    argv += [f"init={interpreter}", "--", "-I", "-S", f"/proc/self/cwd/{_GUEST.name}"]
    with (scratch / "console").open("wb") as console:
        process = subprocess.Popen(
            argv,
            env={"TMPDIR": str(scratch), "PATH": os.defpath, SEED_VARIABLE: str(seed)},
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _one_processor() -> str:
    """A processor for the whole guest.

    Each of its system calls and page faults switches between processes of the host, which
    costs two to four times as much across processors.
    """
    allowed = sorted(os.sched_getaffinity(0))
    return str(allowed[os.getpid() % len(allowed)])


def _open_files() -> str:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    return f"{most}:{most}"


def _follow(
    process: "subprocess.Popen[bytes]", scratch: Path, on_output: OnOutput, deadline: float
) -> bool:
    """Pass output on until the guest ends; false if it was still running at the deadline."""
    followers = [Follower(scratch / name, name, on_output) for name in ("stdout", "stderr")]
    ended = False
    while not ended and time.monotonic() < deadline:
        try:
            process.wait(timeout=_POLL_S)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        for follower in followers:
            follower.poll()
    return ended


def _outcome(scratch: Path, ended: bool, wall_limit_s: float, wall_s: float) -> Outcome:
    if not ended:
        raise MachineError(
            f"the virtual machine was still running after {wall_limit_s:.0f} s of wall time, its "
            f"limit; the last that it said: {last_lines(scratch)}"
        )
    try:
        report = json.loads((scratch / "status.json").read_text())
    except (OSError, ValueError) as error:
        raise MachineError(death(scratch)) from error
    if "error" in report:
        raise MachineError(f"the virtual machine did not get ready: {report['error']}")
    if report["status"] != 0 and out_of_memory(scratch):
        raise MachineError(death(scratch))
    return Outcome(report["status"], wall_s, report["virtual_s"], warnings(scratch))

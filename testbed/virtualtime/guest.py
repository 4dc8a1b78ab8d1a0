"""Process 1 of the guest: builds its file system, runs one command, reports, powers off.

Started by the kernel as a script of a bare interpreter (``-I -S``), so it uses nothing but
the standard library and imports nothing of this project. It lies in the channel folder on
the host, beside ``job.json``, ``stdout`` and ``stderr``, and leaves ``status.json`` there.
"""

# ruff: noqa: S108 - the guest's own folders, where nobody else is

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

_MS_SYNCHRONOUS = 16
_MS_MOVE = 8192
_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF, linux/reboot.h
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_FINIT_MODULE = 313  # asm/unistd_64.h, x86-64

_STOP_GRACE_S = 5.0

_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: str, options: str = "", flags: int = 0) -> None:
    """Mount a file system of a kind on a folder, which is made if missing."""
    Path(target).mkdir(parents=True, exist_ok=True)
    source = kind.encode()
    if _LIBC.mount(source, target.encode(), source, flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mounting {kind} on {target}: {os.strerror(number)}")


def unmount(target: str) -> None:
    """Unmount a folder, which writes everything below it to the host."""
    if _LIBC.umount2(target.encode(), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unmounting {target}: {os.strerror(number)}")


def load_module(path: str) -> None:
    """Load a module of the kernel from a file; needs no ``modprobe``, which reads other folders."""
    with Path(path).open("rb") as file:
        if _LIBC.syscall(_FINIT_MODULE, file.fileno(), b"", 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"loading {path}: {os.strerror(number)}")


def enter_root() -> None:
    """Change into the host's root, read-only below a layer in the guest's memory."""
    mount("tmpfs", "/tmp")
    for name in ("upper", "work"):
        Path("/tmp", name).mkdir(mode=0o755)
    mount("overlay", "/tmp/root", "lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work")
    os.chdir("/tmp/root")
    # Moved, not only changed into: whoever enters this mount namespace anew (mnexec does)
    # lands in the namespace's root.
    if _LIBC.mount(b".", b"/", None, _MS_MOVE, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"moving the root: {os.strerror(number)}")
    os.chroot(".")
    os.chdir("/")
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    mount("cgroup2", "/sys/fs/cgroup")
    mount("devtmpfs", "/dev", "mode=755")
    mount("devpts", "/dev/pts", "ptmxmode=666,mode=620,gid=5")
    mount("tmpfs", "/dev/shm", "mode=1777")
    mount("tmpfs", "/run", "mode=755")
    for name in ("netns", "lock"):
        Path("/run", name).mkdir()
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        Path("/dev", name).symlink_to(f"/proc/self/fd{target}")


def mount_host(folder: str, flags: int = 0) -> None:
    """Mount a folder of the host, read-write, at the same path."""
    mount("hostfs", folder, folder, flags)


def bring_up_loopback() -> None:
    """Bring up ``lo``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def start(job: dict[str, Any], channel: str) -> int:
    """Start the command in a session of its own, its streams in the channel folder.

    Returns
    -------
    int
        Process id.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(f"{channel}/{name}", os.O_WRONLY | os.O_APPEND), number)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        what = job["cwd"]
        os.chdir(what)
        what = job["command"][0]
        os.execvpe(what, job["command"], job["env"])  # noqa: S606 - no shell is wanted
    except OSError as error:
        # The shell's own convention: 127 for "not found", 126 for "cannot be run".
        os.write(2, f"{what}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    finally:
        os._exit(125)


def wait_for(pid: int) -> int:
    """Reap whatever ends until the command does; a signal counts as 128 + its number."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def stop_others() -> None:
    """End every process that the command left behind, gently first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + _STOP_GRACE_S
        while time.monotonic() < deadline:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if ended == 0:
                time.sleep(0.01)


def run(channel: str) -> dict[str, Any]:
    """Do the job that the channel folder holds.

    Returns
    -------
    dict
        ``status`` of the command, and ``virtual_s`` that it took on the guest's clock.
    """
    mount_host(channel, _MS_SYNCHRONOUS)  # first, so that any failure can be reported
    job = json.loads(Path(channel, "job.json").read_text())
    for module in job["modules"]:
        load_module(module)
    enter_root()
    mount_host(channel, _MS_SYNCHRONOUS)
    for folder in job["writable"]:
        mount_host(folder)
    socket.sethostname("virtual")
    bring_up_loopback()
    time.sleep(max(0.0, job["settle_uptime_s"] - time.monotonic()))
    begin = time.monotonic()
    status = wait_for(start(job, channel))
    virtual_s = time.monotonic() - begin
    stop_others()
    for folder in reversed(job["writable"]):
        unmount(folder)
    return {"status": status, "virtual_s": virtual_s}


def main() -> None:
    """Run the job, write ``status.json`` in any case, and power off."""
    while os.open("/dev/null", os.O_RDWR) < 2:  # process 1 starts without any stream
        pass
    channel = str(Path(sys.argv[0]).resolve().parent)
    try:
        report = run(channel)
    except Exception as error:  # whatever it is, only the report can tell the host
        report = {"error": f"{type(error).__name__}: {error}"}
    try:
        Path(channel, "status.json").write_text(json.dumps(report))
        os.sync()
    finally:
        _LIBC.reboot(_POWER_OFF)


if __name__ == "__main__":
    main()

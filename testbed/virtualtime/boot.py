"""What a guest boots: a kernel that is a program, and its clock."""

from dataclasses import dataclass
from pathlib import Path

START_UNIX_S = 1767225600  # 2026-01-01 00:00 UTC, the guest's wall clock at boot


@dataclass(frozen=True)
class Boot:
    """What is booted, and with which clock.

    Attributes
    ----------
    program
        The kernel, which is a program of this machine.
    words
        Words of its command line beside those that every guest has, such as its clock.
    modules
        Files that it loads first, each after those that it needs.
    settle_uptime_s
        The command starts no earlier after the boot.
    """

    program: Path
    words: tuple[str, ...] = ()
    modules: tuple[Path, ...] = ()
    settle_uptime_s: float = 0.0

    @classmethod
    def virtual_time(cls, program: Path) -> "Boot":
        """Of the kernel that `testbed.virtualtime.kernel` builds: idle time is skipped.

        Open vSwitch counts no processor in the first 10 s after boot; waiting costs nothing.
        """
        start_ns = START_UNIX_S * 1_000_000_000
        words = ("time-travel=inf-cpu", f"time-travel-start={start_ns}")
        return cls(program, words, settle_uptime_s=30.0)


def is_guest(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this machine is itself User Mode Linux, which cannot run another one."""
    return "User Mode Linux" in cpuinfo.read_text()

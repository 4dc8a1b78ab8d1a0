"""Says in one line why a guest died, from what it left behind."""

import re
from pathlib import Path

from testbed.longrun import tail

_LINES = 4
_CONSOLE_BYTES = 100_000
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_OUT_OF_MEMORY = re.compile(r"(Out of memory: Killed process .*?\))|System is deadlocked on memory")
# Dumps of registers, stack and memory state, which tell a reader of one line nothing.
_NOISE = re.compile(
    r"\s*\[<|\s*[0-9a-f]{8,} [0-9a-f]|Stack:|Call Trace:|CPU: |Mem-Info|Node |Normal|\s|\[\s*\d+\]"
)


def last_lines(scratch: Path) -> str:
    """The last telling lines of the console and of what the command printed, on one line."""
    lines: list[str] = []
    for name in ("console", "stdout", "stderr"):
        text = tail(scratch / name).splitlines()
        telling = [line.strip() for line in text if line.strip() and not _NOISE.match(line)]
        lines += telling[-_LINES:]
    return " | ".join(lines) or "it printed nothing"


def warnings(scratch: Path) -> str:
    """What the guest's kernel printed before it was switched off."""
    lines = tail(scratch / "console", limit=_CONSOLE_BYTES).splitlines()
    return "\n".join(line for line in lines if not line.startswith("reboot: "))


def death(scratch: Path) -> str:
    """Why a guest ended without reporting the command's status."""
    console = tail(scratch / "console", limit=_CONSOLE_BYTES)
    if out_of_memory(scratch):
        return "the virtual machine ran out of memory; give it more"
    panic = _PANIC.search(console)
    if panic:
        return f"the virtual machine panicked ({panic[1]}): {last_lines(scratch)}"
    return f"the virtual machine ended without a result: {last_lines(scratch)}"


def out_of_memory(scratch: Path) -> bool:
    """Whether the guest's kernel killed a process for want of memory."""
    return bool(_OUT_OF_MEMORY.search(tail(scratch / "console", limit=_CONSOLE_BYTES)))

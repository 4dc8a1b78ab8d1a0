"""How the machine itself fared while it emulated: processors used, taken away, waited for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.findings import Finding
from testbed.limits import Limits
from testbed.topology import Frozen

HEALTH_FILE = "health.json"
_STAT, _PRESSURE = Path("/proc/stat"), Path("/proc/pressure/cpu")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
_TIMES = 8
"""Of the fields that follow: guest time is part of user time."""


class Health(Frozen):
    """The whole machine, from the boot of the emulation to its end, in wall time."""

    wall_s: float
    cpu_percent: float
    """Busy time of all processors, by whomever."""
    steal_percent: float
    """Time of all processors that went to other virtual machines."""
    pressure_percent: float | None
    """Time in which somebody waited for a processor; none where the kernel does not tell."""


@dataclass(frozen=True)
class _Reading:
    at_s: float
    ticks: tuple[int, ...]
    waited_us: int | None


@contextmanager
def watch_host(path: Path) -> Iterator[None]:
    """Write down, for the length of a block and however it ends, how the machine fared."""
    first = _read()
    try:
        yield
    finally:
        path.write_text(_between(first, _read()).model_dump_json(indent=1))


def check_health(health: Health, limits: Limits) -> list[Finding]:
    """Hold the machine's health against limits."""
    rows = (
        ("cpu_percent", health.cpu_percent, "busy"),
        ("steal_percent", health.steal_percent, "taken by other machines"),
    )
    return [
        Finding(level, f"processors were {share:.1f} % {what}, allowed {getattr(limits, name):g} %")
        for name, share, what in rows
        if (level := limits.level(name, share))
    ]


def parse_ticks(stat: str) -> tuple[int, ...]:
    """Ticks of all processors since boot, by kind, from the text of ``/proc/stat`` (proc(5))."""
    return tuple(int(field) for field in stat.splitlines()[0].split()[1 : 1 + _TIMES])


def parse_pressure(text: str) -> int:
    """Microseconds in which somebody waited, from ``/proc/pressure/cpu``."""
    line = next(line for line in text.splitlines() if line.startswith("some"))
    return int(line.rpartition("total=")[2])


def _read() -> _Reading:
    try:
        waited_us = parse_pressure(_PRESSURE.read_text())
    except (OSError, StopIteration, ValueError):
        waited_us = None
    return _Reading(time.monotonic(), parse_ticks(_STAT.read_text()), waited_us)


def _between(first: _Reading, last: _Reading) -> Health:
    ticks = [b - a for a, b in zip(first.ticks, last.ticks, strict=True)]
    total = max(1, sum(ticks))
    wall_s = last.at_s - first.at_s
    idle = ticks[_IDLE] + ticks[_IOWAIT]
    pressure = None
    if first.waited_us is not None and last.waited_us is not None and wall_s > 0:
        pressure = (last.waited_us - first.waited_us) / wall_s / 1e4
    return Health(
        wall_s=round(wall_s, 3),
        cpu_percent=100.0 * (total - idle - ticks[_STEAL]) / total,
        steal_percent=100.0 * ticks[_STEAL] / total,
        pressure_percent=pressure,
    )

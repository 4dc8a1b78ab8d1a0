"""The checks of `testbed.doctor`, part by part. Standard library only."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from testbed.commands import run
from testbed.distribution import Distribution, installed_packages, this_distribution
from testbed.environment import (
    NEEDED_BYTES,
    SYSTEM_PYTHON,
    environment_exists,
    environment_python,
)
from testbed.errors import InputError, MachineError
from testbed.paths import cache_dir
from testbed.preflight import Clock, Feature, real_clock_features
from testbed.virtualtime.boot import is_guest
from testbed.virtualtime.kernel import BUILD_BYTES, cached_kernel
from testbed.virtualtime.machine import run_in_virtual_time
from testbed.virtualtime.memory import memory_folder
from testbed.virtualtime.packaged import PACKAGE, packaged_kernel
from testbed.virtualtime.source import find_source

SYSTEM, PACKAGES, SET_UP, KERNEL = "system", "packages", "set-up", "kernel features"
BOTH: tuple[Clock, ...] = ("virtual", "real")
VIRTUAL: tuple[Clock, ...] = ("virtual",)
REAL: tuple[Clock, ...] = ("real",)
SETUP_COMMAND = "sudo make setup"
GUEST_MEMORY_MB = 4096
"""Default of ``guest_memory_mb``, which a bare interpreter cannot look up."""
OLDEST_PYTHON = (3, 10)
_RUN_BYTES = 500_000_000
"""Room for the results of a few runs."""
_MEMORY_BYTES = 1_100_000_000
"""What a run of nine cities takes."""
_BOOT_MB, _BOOT_LIMIT_S = 64, 60.0


@dataclass(frozen=True)
class Check:
    """One line of the diagnosis.

    Attributes
    ----------
    part, name
        Where it stands.
    found
        What is there, in words.
    ok
        None if it is neither good nor bad.
    mend
        The command that mends a lack; empty if none does.
    clocks
        The clocks that need it.
    """

    part: str
    name: str
    found: str
    ok: bool | None
    mend: str = ""
    clocks: tuple[Clock, ...] = BOTH


def system() -> list[Check]:
    """Distribution, interpreter, processors, memory, disk."""
    return [
        distribution_check(this_distribution()),
        interpreter_check(_python_version()),
        Check(SYSTEM, "kernel", f"{platform.release()} {platform.machine()}", None),
        Check(SYSTEM, "processors", str(len(os.sched_getaffinity(0))), None),
        memory_check(Path("/proc/meminfo").read_text()),
        _tmpfs(),
        disk_check(_free_bytes(cache_dir()), _needed_bytes()),
    ]


def distribution_check(found: Distribution) -> Check:
    """Whether set-up knows the packages of this distribution."""
    name = f"{found.name} {found.version}"
    try:
        found.packages()
    except MachineError as error:
        mend = "install what `testbed/distribution.py` lists by other means"
        return Check(SYSTEM, "distribution", str(error), None, mend)
    return Check(SYSTEM, "distribution", name, True)


def interpreter_check(version: tuple[int, ...] | None) -> Check:
    """Whether the distribution's Python, to which its Mininet belongs, is new enough."""
    if version is None:
        mend = "sudo apt-get install python3"
        return Check(SYSTEM, "interpreter", f"no {SYSTEM_PYTHON}", False, mend)
    text = f"{SYSTEM_PYTHON} {'.'.join(map(str, version))}"
    if version[:2] >= OLDEST_PYTHON:
        return Check(SYSTEM, "interpreter", text, True)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    mend = "upgrade to Debian 12 or Ubuntu 22.04, whose python3 is new enough"
    return Check(SYSTEM, "interpreter", f"{text}, {oldest} is the oldest that does", False, mend)


def memory_check(meminfo: str) -> Check:
    """Whether a run fits the memory that is available, from the text of ``/proc/meminfo``."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    total = int(fields["MemTotal"].split()[0]) * 1024
    text = f"{_gb(available)} of {_gb(total)} available"
    mend = "end other programs, or raise SCALE" if available < _MEMORY_BYTES else ""
    return Check(SYSTEM, "memory", text, not mend, mend)


def disk_check(free_bytes: int, needed_bytes: int) -> Check:
    """Whether there is room for what set-up still makes, and for results."""
    text = f"{_gb(free_bytes)} free in {cache_dir()}"
    if free_bytes >= needed_bytes:
        return Check(SYSTEM, "disk", text, True)
    mend = "make room, or set CLIQUENET_CACHE to another disk"
    return Check(SYSTEM, "disk", f"{text}, {_gb(needed_bytes)} needed", False, mend)


def packages() -> list[Check]:
    """Every package that set-up takes from the distribution, with its version."""
    installed = installed_packages()
    return [package_check(name, installed.get(name)) for name in this_distribution().packages()]


def package_check(name: str, version: str | None) -> Check:
    """Whether one package is installed."""
    if version is None:
        return Check(PACKAGES, name, "not installed", False, f"sudo apt-get install {name}")
    return Check(PACKAGES, name, version, True)


def set_up() -> list[Check]:
    """What set-up keeps in the cache: environment, kernels."""
    packaged = packaged_kernel()
    return [
        _cached("environment", environment_python(), environment_exists(), BOTH),
        *_virtual_machine(),
        Check(
            SET_UP,
            f"packaged {PACKAGE}",
            "not fetched, only `make prove-real` needs it"
            if packaged is None
            else f"{packaged.package_version}, kernel {packaged.release}",
            None if packaged is None else True,
            clocks=(),
        ),
    ]


def kernel_features() -> list[Check]:
    """What the real clock needs of the kernel and of the user."""
    return [_feature(feature) for feature in real_clock_features()]


PARTS = (system, packages, set_up, kernel_features)


def _feature(feature: Feature) -> Check:
    if feature.program and shutil.which(feature.program) is None:
        text = f"cannot tell, `{feature.program}` is not installed"
        return Check(KERNEL, feature.name, text, False, SETUP_COMMAND, REAL)
    there = feature.check()
    mend = "" if there else feature.mend()
    return Check(KERNEL, feature.name, "yes" if there else "no", there, mend, REAL)


def _cached(name: str, path: Path, there: bool, clocks: tuple[Clock, ...]) -> Check:
    found = str(path) if there else "not made yet"
    return Check(SET_UP, name, found, there, "" if there else SETUP_COMMAND, clocks)


def _virtual_machine() -> list[Check]:
    """Whether the virtual-time kernel is built; if so, whether it boots."""
    name = "virtual-time kernel"
    try:
        program = cached_kernel(find_source())
    except MachineError as error:
        return [Check(SET_UP, name, str(error), False, SETUP_COMMAND, VIRTUAL)]
    built = _cached(name, program, program.exists(), VIRTUAL)
    if not built.ok:
        return [built]
    try:
        outcome = run_in_virtual_time(
            ["true"],
            kernel=program,
            on_output=lambda *_: None,
            memory_mb=_BOOT_MB,
            wall_limit_s=_BOOT_LIMIT_S,
        )
    except (MachineError, InputError) as error:
        mend = "" if is_guest() else "make distclean && sudo make setup"
        return [built, Check(SET_UP, "virtual machine", str(error), False, mend, VIRTUAL)]
    text = f"boots in {outcome.wall_s:.1f} s"
    return [built, Check(SET_UP, "virtual machine", text, outcome.status == 0, "", VIRTUAL)]


def _tmpfs() -> Check:
    """Whether the virtual machine's memory has a place."""
    try:
        folder = memory_folder(GUEST_MEMORY_MB)
    except MachineError as error:
        text, _, mend = str(error).rpartition("with `")
        mend = mend.rstrip("`")
        return Check(SYSTEM, "tmpfs", text.split(":")[0], False, mend, VIRTUAL)
    return Check(SYSTEM, "tmpfs", f"{_gb(_free_bytes(folder))} free in {folder}", True, "", VIRTUAL)


def _python_version() -> tuple[int, ...] | None:
    if not SYSTEM_PYTHON.exists():
        return None
    code = "import sys; print(*sys.version_info[:3])"
    return tuple(int(part) for part in run([str(SYSTEM_PYTHON), "-c", code]).split())


def _needed_bytes() -> int:
    """Room for what is not in the cache yet."""
    needed = _RUN_BYTES
    needed += 0 if environment_exists() else NEEDED_BYTES
    try:
        needed += 0 if cached_kernel(find_source()).exists() else BUILD_BYTES
    except MachineError:
        needed += BUILD_BYTES
    return needed


def _free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"

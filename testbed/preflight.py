"""What this machine's kernel can do: which clock an experiment can run on here, and why."""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from testbed import commands
from testbed.errors import CommandError, InputError, MachineError

Clock = Literal["virtual", "real"]
ASKED = "asked for"
"""The reason for a clock that was not chosen here."""
_INSTEAD = "CLOCK=virtual needs none of these, `make prove-real` brings a kernel that has them"
_LIMIT_S = 20.0


@dataclass(frozen=True)
class Feature:
    """Something that the real clock needs of this machine.

    Attributes
    ----------
    name
        In words.
    check
        Whether it is there; tries it.
    mend
        Gives the command that mends it.
    program
        What the check needs to be installed.
    """

    name: str
    check: Callable[[], bool]
    mend: Callable[[], str]
    program: str = ""


def require_root() -> None:
    """Refuse a command that needs root.

    Raises
    ------
    MachineError
        The effective user is not root.
    """
    if not is_root():
        raise MachineError("this needs root (network namespaces, bridges): run it with sudo")


def is_root() -> bool:
    """Whether this process may do everything."""
    return os.geteuid() == 0


def has_namespaces() -> bool:
    """Whether a network namespace can be made here; without root, in a user namespace."""
    return _succeeds(*_in_namespace(), "true")


def has_veth() -> bool:
    """Whether the kernel makes pairs of virtual interfaces."""
    ends = ("name", "end-a", "type", "veth", "peer", "name", "end-b")
    return _succeeds(*_in_namespace(), "ip", "link", "add", *ends)


def has_netem() -> bool:
    """Whether the kernel can shape: tries netem in a throw-away network namespace."""
    return _succeeds(*_in_namespace(), "tc", "qdisc", "add", "dev", "lo", "root", "netem")


def has_openvswitch() -> bool:
    """Whether the kernel has the Open vSwitch datapath, loading its module if there is one."""
    if shutil.which("modprobe"):
        _succeeds("modprobe", "--quiet", "openvswitch")
    return _succeeds("ovs-dpctl", "dump-dps")


def has_switch_programs() -> bool:
    """Whether the Open vSwitch programs are installed."""
    return shutil.which("ovs-vswitchd") is not None


def real_clock_features() -> tuple[Feature, ...]:
    """What the real clock needs, in the order in which lacks are best mended."""
    return (
        Feature("root", is_root, lambda: "the same command with sudo"),
        Feature(
            "the Open vSwitch programs",
            has_switch_programs,
            lambda: "sudo apt-get install openvswitch-switch",
        ),
        Feature(
            "network namespaces",
            has_namespaces,
            lambda: "sudo -s, outside any container",
            "unshare",
        ),
        Feature("the kernel's veth (links)", has_veth, lambda: module_mend("veth"), "ip"),
        Feature(
            "the kernel's sch_netem (link shaping)",
            has_netem,
            lambda: module_mend("sch_netem"),
            "tc",
        ),
        Feature(
            "the kernel's openvswitch datapath",
            has_openvswitch,
            lambda: module_mend("openvswitch"),
            "ovs-dpctl",
        ),
    )


def real_clock_lacks() -> tuple[str, ...]:
    """What this machine lacks for the real clock, in words; empty if it is fit."""
    return tuple(feature.name for feature in real_clock_features() if not feature.check())


def choose_clock(wanted: str) -> tuple[Clock, str]:
    """Resolve ``virtual``, ``real`` or ``auto`` to a clock that works here.

    Parameters
    ----------
    wanted
        The config's ``clock``.

    Returns
    -------
    clock, reason
        The clock, and the reason in one phrase.

    Raises
    ------
    InputError
        ``real`` was asked for and this machine cannot do it.
    """
    if wanted == "virtual":
        return "virtual", ASKED
    lacks = real_clock_lacks()
    if wanted == "auto":
        return auto_clock(lacks)
    if lacks:
        raise InputError(
            f"CLOCK=real cannot run here, missing: {', '.join(lacks)}; {_INSTEAD} "
            "(`make doctor` says what would mend each)"
        )
    return "real", ASKED


def auto_clock(lacks: tuple[str, ...]) -> tuple[Clock, str]:
    """What ``auto`` takes on a machine with these lacks, and why."""
    if lacks:
        return "virtual", f"chosen by auto: this machine lacks {', '.join(lacks)}"
    return "real", "chosen by auto: this kernel has netem and openvswitch"


def module_mend(module: str, modules: Path = Path("/lib/modules")) -> str:
    """The command that brings a module of the kernel.

    Parameters
    ----------
    module
        Its name.
    modules
        Folder of all kernels' modules.
    """
    release = platform.release()
    file = f"{module}.ko*"
    if next((modules / release).rglob(file), None):
        return f"sudo modprobe {module}"
    if shutil.which("apt-get") is None:
        return "boot a kernel that has it"
    if "ubuntu" in platform.version().lower():
        return f"sudo apt-get install linux-modules-extra-{release}"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"sudo apt-get install linux-image-{machine} && sudo reboot"


def _in_namespace() -> tuple[str, ...]:
    user = () if is_root() else ("--user", "--map-root-user")
    return ("unshare", *user, "--net")


def _succeeds(*argv: str) -> bool:
    try:
        commands.run(argv, timeout_s=_LIMIT_S)
    except (CommandError, MachineError):
        return False
    return True

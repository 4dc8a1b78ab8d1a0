"""What this machine can do: which clock an experiment can run on here, and why."""

import os
import shutil
from collections.abc import Callable
from typing import Literal

from testbed import commands
from testbed.errors import CommandError, InputError, MachineError

Clock = Literal["virtual", "real"]
ASKED = "asked for"
"""The reason for a clock that was not chosen here."""


def require_root() -> None:
    """Refuse a command that needs root.

    Raises
    ------
    MachineError
        The effective user is not root.
    """
    if os.geteuid() != 0:
        raise MachineError("this needs root (network namespaces, bridges): run it with sudo")


def has_netem() -> bool:
    """Whether the kernel can shape: tries netem in a throw-away network namespace."""
    return _succeeds("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem")


def has_openvswitch() -> bool:
    """Whether the kernel has the Open vSwitch datapath, loading its module if there is one."""
    if shutil.which("modprobe"):
        _succeeds("modprobe", "--quiet", "openvswitch")
    return _succeeds("ovs-dpctl", "dump-dps")


def real_clock_lacks() -> tuple[str, ...]:
    """What this machine lacks for the real clock, in words; empty if it is fit."""
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("root", lambda: os.geteuid() == 0),
        ("the kernel's sch_netem (link shaping)", has_netem),
        ("the kernel's openvswitch datapath", has_openvswitch),
        ("the Open vSwitch programs", lambda: shutil.which("ovs-vswitchd") is not None),
    )
    return tuple(name for name, check in checks if not check())


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
    if wanted == "real":
        if lacks:
            raise InputError(
                f"CLOCK=real cannot run here, missing: {', '.join(lacks)}; "
                "CLOCK=virtual needs none of these and works"
            )
        return "real", ASKED
    if lacks:
        return "virtual", f"chosen by auto: this machine lacks {', '.join(lacks)}"
    return "real", "chosen by auto: this kernel has netem and openvswitch"


def _succeeds(*argv: str) -> bool:
    try:
        commands.run(argv, timeout_s=20.0)
    except (CommandError, MachineError):
        return False
    return True

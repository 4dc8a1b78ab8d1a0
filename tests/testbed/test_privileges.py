"""A process that keeps a few capabilities has no others, and gains none by what it starts."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.privileges import Capability, has, keep_only

KEPT = (Capability.DAC_OVERRIDE, Capability.NET_ADMIN)
NOBODY = 65534


def in_child(function: Callable[[], object]) -> str:
    """What a function returns in a child, as text; its error otherwise."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            told = str(function())
        except BaseException as error:
            told = repr(error)
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


def confined() -> str:
    keep_only(KEPT)
    status = Path("/proc/self/status").read_text()
    started = subprocess.run(["cat", "/proc/self/status"], stdout=subprocess.PIPE, check=True)
    return status + started.stdout.decode()


def test_a_confined_process_and_its_programs_have_what_they_keep_and_no_more() -> None:
    wanted = sum(1 << capability for capability in KEPT)
    status = in_child(confined)
    sets = {name: int(bits, 16) for name, bits in re.findall(r"Cap(\w+):\t(\w+)", status)}
    assert status.count("NoNewPrivs:\t1") == 2
    assert sets["Inh"] == sets["Amb"] == 0
    before = int(re.findall(r"CapPrm:\t(\w+)", Path("/proc/self/status").read_text())[0], 16)
    assert sets["Prm"] | sets["Eff"] == before & wanted
    assert not before or sets["Bnd"] & ~wanted == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="without root's power there is none to give up")
def test_what_was_given_up_is_refused() -> None:
    def lose_and_use() -> object:
        keep_only(KEPT)
        os.setuid(NOBODY)
        return "became another user"

    assert has(Capability.SETPCAP)
    assert "PermissionError" in in_child(lose_and_use)
    assert has(Capability.SETPCAP)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user has no power to give up")
def test_who_has_no_power_loses_nothing() -> None:
    def as_nobody() -> object:
        os.setuid(NOBODY)
        keep_only(KEPT)
        return has(Capability.NET_ADMIN)

    assert in_child(as_nobody) == "False"

"""Which clock this machine can run, and why."""

import pytest

from testbed import preflight
from testbed.errors import InputError, MachineError


def lacking(monkeypatch: pytest.MonkeyPatch, **have: bool) -> None:
    for name, answer in have.items():
        monkeypatch.setattr(preflight, name, lambda answer=answer: answer)
    monkeypatch.setattr(preflight.os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight.shutil, "which", lambda name: f"/usr/sbin/{name}")


def test_virtual_time_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, has_netem=False, has_openvswitch=False)
    assert preflight.choose_clock("virtual") == ("virtual", "asked for")


def test_the_real_clock_is_refused_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, has_netem=False, has_openvswitch=True)
    with pytest.raises(InputError, match=r"missing: the kernel's sch_netem.*CLOCK=virtual"):
        preflight.choose_clock("real")


def test_auto_says_why_it_takes_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, has_netem=True, has_openvswitch=False)
    clock, reason = preflight.choose_clock("auto")
    assert clock == "virtual"
    assert "openvswitch datapath" in reason


def test_auto_takes_the_real_clock_where_the_kernel_is_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, has_netem=True, has_openvswitch=True)
    assert preflight.choose_clock("auto")[0] == "real"


def test_root_is_asked_for_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="run it with sudo"):
        preflight.require_root()

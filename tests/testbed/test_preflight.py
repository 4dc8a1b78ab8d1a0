"""Which clock this machine can run, and why."""

import platform
from pathlib import Path

import pytest

from testbed import preflight
from testbed.errors import InputError, MachineError

CHECKS = ("has_namespaces", "has_veth", "has_netem", "has_openvswitch", "has_switch_programs")


def lacking(monkeypatch: pytest.MonkeyPatch, *lacks: str) -> None:
    for name in CHECKS:
        monkeypatch.setattr(preflight, name, lambda name=name: name not in lacks)
    monkeypatch.setattr(preflight.os, "geteuid", lambda: 0)


def test_virtual_time_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, *CHECKS)
    assert preflight.choose_clock("virtual") == ("virtual", "asked for")


def test_the_real_clock_is_refused_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "has_netem")
    told = r"missing: the kernel's sch_netem.*CLOCK=virtual.*make prove-real.*make doctor"
    with pytest.raises(InputError, match=told):
        preflight.choose_clock("real")


def test_auto_says_why_it_takes_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "has_openvswitch")
    clock, reason = preflight.choose_clock("auto")
    assert clock == "virtual"
    assert reason == "chosen by auto: this machine lacks the kernel's openvswitch datapath"


def test_auto_takes_the_real_clock_where_the_kernel_is_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    clock, reason = preflight.choose_clock("auto")
    assert clock == "real"
    assert "netem and openvswitch" in reason
    assert preflight.choose_clock("real") == ("real", "asked for")


@pytest.mark.parametrize("lack", CHECKS)
def test_each_feature_counts_by_itself(monkeypatch: pytest.MonkeyPatch, lack: str) -> None:
    lacking(monkeypatch, lack)
    assert len(preflight.real_clock_lacks()) == 1
    assert preflight.choose_clock("auto")[0] == "virtual"


def test_root_is_asked_for_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="run it with sudo"):
        preflight.require_root()
    assert "root" in preflight.real_clock_lacks()


def test_a_module_that_the_kernel_has_is_to_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / platform.release() / "kernel" / "net" / "sched"
    folder.mkdir(parents=True)
    (folder / "sch_netem.ko.xz").touch()
    assert preflight.module_mend("sch_netem", tmp_path) == "sudo modprobe sch_netem"


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("#1 SMP Debian 6.1.192-3", "sudo apt-get install linux-image-amd64 && sudo reboot"),
        ("#1-Ubuntu SMP", "sudo apt-get install linux-modules-extra-6.8.0-1-generic"),
    ],
)
def test_a_kernel_without_the_module_has_to_be_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, told: str
) -> None:
    monkeypatch.setattr(platform, "version", lambda: version)
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-1-generic")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(preflight.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert preflight.module_mend("openvswitch", tmp_path) == told
    monkeypatch.setattr(preflight.shutil, "which", lambda _: None)
    assert preflight.module_mend("openvswitch", tmp_path) == "boot a kernel that has it"


def test_what_is_tried_can_fail() -> None:
    assert preflight._succeeds("true")
    assert not preflight._succeeds("false")
    assert not preflight._succeeds("no-such-program")

"""The distribution's packaged kernel, without booting it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import MachineError
from testbed.virtualtime import packaged
from testbed.virtualtime.boot import Boot, is_guest
from testbed.virtualtime.packaged import MODULES, PackagedKernel, load_order

LISTING = """\
kernel/net/openvswitch/openvswitch.ko: kernel/net/nsh.ko kernel/net/nf_nat.ko kernel/net/nf.ko
kernel/net/nsh.ko:
kernel/net/nf_nat.ko: kernel/net/nf.ko
kernel/net/nf.ko:
kernel/fs/overlay.ko:
kernel/drivers/veth.ko:
kernel/net/sch-netem.ko.xz:
"""


def test_modules_come_after_what_they_need() -> None:
    order = load_order(LISTING, ("openvswitch", "veth"))
    assert [Path(file).stem for file in order] == ["nf", "nf_nat", "nsh", "openvswitch", "veth"]
    assert load_order(LISTING, ("sch_netem",)) == ["kernel/net/sch-netem.ko.xz"]


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(MachineError, match="user-mode-linux lacks the module bridge"):
        load_order(LISTING, ("veth", "bridge"))


@given(st.lists(st.sets(st.integers(0, 9), max_size=4), min_size=1, max_size=10), st.randoms())
def test_every_module_is_loaded_once_and_after_its_needs(needs: list[set[int]], dice) -> None:
    # Modules need such of smaller numbers; depmod lists what is needed later first.
    def all_needs(number: int) -> set[int]:
        direct = {n for n in needs[number] if n < number}
        return direct.union(*(all_needs(n) for n in direct))

    lines = [
        f"m{number}.ko: {' '.join(f'm{n}.ko' for n in sorted(all_needs(number), reverse=True))}"
        for number in range(len(needs))
    ]
    wanted = [f"m{number}" for number in range(len(needs))]
    dice.shuffle(lines)
    dice.shuffle(wanted)
    order = load_order("\n".join(lines), tuple(wanted))
    assert sorted(order) == sorted(f"m{number}.ko" for number in range(len(needs)))
    for number in range(len(needs)):
        for need in all_needs(number):
            assert order.index(f"m{need}.ko") < order.index(f"m{number}.ko")


def unpacked(folder: Path, *, complete: bool = True) -> PackagedKernel:
    modules = folder / "usr" / "lib" / "uml" / "modules" / "6.1.176"
    modules.mkdir(parents=True)
    files = [f"kernel/{name}.ko" for name in MODULES]
    (modules / "modules.dep").write_text("".join(f"{file}:\n" for file in files))
    if complete:
        (folder / "complete").touch()
    return PackagedKernel(folder, folder.name)


def test_an_unpacked_package_is_found_and_booted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(packaged, "cache_dir", lambda: tmp_path)
    assert packaged.packaged_kernel() is None
    unpacked(tmp_path / "packaged" / "6.1um4", complete=False)  # of a set-up that was killed
    assert packaged.packaged_kernel() is None
    kernel = unpacked(tmp_path / "packaged" / "6.1um5")
    assert packaged.packaged_kernel() == kernel == packaged.ensure_packaged_kernel()
    assert (kernel.release, kernel.package_version) == ("6.1.176", "6.1um5")
    boot = kernel.boot()
    assert boot.program == kernel.folder / "usr" / "bin" / "linux.uml"
    assert [path.stem for path in boot.modules] == list(MODULES)
    assert not any("time-travel" in word for word in boot.words)


def test_a_package_without_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"user-mode-linux 1\.0 holds no modules"):
        PackagedKernel(tmp_path, "1.0").boot()


APT = """#!/bin/sh
echo "$1" >> {folder}/asked
case "$1" in
update) echo > {folder}/list;;
download)
  [ -e {folder}/list ] || {{ echo E: cannot reach it >&2; exit 100; }}
  echo > user-mode-linux_6.1um9+b1_amd64.deb;;
esac
"""
DPKG = """#!/bin/sh
/bin/mkdir -p "$3/usr/lib/uml/modules/6.1.9"
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package manager without a list of packages, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (("apt-get", APT), ("dpkg", DPKG)):
        (folder / name).write_text(script.format(folder=folder) if name == "apt-get" else script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(packaged, "cache_dir", lambda: tmp_path / "cache")
    return folder


def test_root_renews_the_list_of_packages_and_fetches_once(packages: Path, monkeypatch) -> None:
    monkeypatch.setattr("testbed.unpacked.is_root", lambda: True)
    kernel = packaged.ensure_packaged_kernel()
    assert (kernel.package_version, kernel.release) == ("6.1um9+b1", "6.1.9")
    assert packaged.ensure_packaged_kernel() == kernel
    assert (packages / "asked").read_text().split() == ["download", "update", "download"]
    assert list(kernel.folder.parent.glob("*.deb")) == []


def test_without_a_list_of_packages_others_are_told_what_to_do(packages: Path, monkeypatch) -> None:
    monkeypatch.setattr("testbed.unpacked.is_root", lambda: False)
    with pytest.raises(MachineError, match=r"cannot fetch user-mode-linux: .*apt-get update"):
        packaged.ensure_packaged_kernel()
    assert packaged.packaged_kernel() is None
    (packages / "list").touch()
    assert packaged.ensure_packaged_kernel().release == "6.1.9"


def test_only_our_own_kernel_travels_in_time(tmp_path: Path) -> None:
    assert "time-travel=inf-cpu" in Boot.virtual_time(tmp_path / "linux").words


def test_user_mode_linux_is_told_from_a_processor(tmp_path: Path) -> None:
    (tmp_path / "uml").write_text("processor\t: 0\nvendor_id\t: User Mode Linux\n")
    (tmp_path / "cpu").write_text("processor\t: 0\nvendor_id\t: GenuineIntel\n")
    assert is_guest(tmp_path / "uml")
    assert not is_guest(tmp_path / "cpu")

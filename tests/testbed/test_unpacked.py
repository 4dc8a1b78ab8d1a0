"""Packages that are unpacked into the cache: once, whole, with their versions; no network."""

import stat
from pathlib import Path

import pytest

from testbed.errors import MachineError
from testbed.unpacked import unpacked, versions

APT = 'echo "$3" >> {log}; : > "$3"_4_amd64.deb'
SHOW = 'name=$(/usr/bin/basename "$3"); printf "%s 4.1" "${name%%_*}"'
UNPACK = '/bin/mkdir -p "$3/usr"; : > "$3/usr/$(/usr/bin/basename "$2")"'


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder of programs that this machine has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder / "apt-get", APT.format(log=tmp_path / "fetched"))
    program(folder / "dpkg-deb", SHOW)
    program(folder / "dpkg", UNPACK)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.mark.usefixtures("path")
def test_packages_are_unpacked_once_and_their_versions_kept(tmp_path: Path) -> None:
    folder = unpacked("tool", ["one", "two"])
    assert folder == tmp_path / "cache" / "tool" == unpacked("tool", ["one", "two"])
    assert (tmp_path / "fetched").read_text() == "one\ntwo\n"
    assert versions(folder) == {"one": "4.1", "two": "4.1"}
    assert {file.name for file in (folder / "usr").iterdir()} == {
        "one_4_amd64.deb",
        "two_4_amd64.deb",
    }
    assert not list(folder.glob("*.deb"))


def test_what_was_interrupted_is_fetched_again(path: Path, tmp_path: Path) -> None:
    program(path / "dpkg", "echo 'no space' >&2; exit 1")
    with pytest.raises(MachineError, match=r"cannot fetch tool: .*no space"):
        unpacked("tool", ["one"])
    program(path / "dpkg", UNPACK)
    assert versions(unpacked("tool", ["one"])) == {"one": "4.1"}
    assert (tmp_path / "fetched").read_text() == "one\none\n"


def test_a_package_that_does_not_come_is_one_line_with_what_to_do(path: Path) -> None:
    program(path / "apt-get", "echo 'E: No packages found' >&2; exit 100")
    with pytest.raises(MachineError, match=r"No packages found.*sudo apt-get update") as caught:
        unpacked("tool", ["one"])
    assert "\n" not in str(caught.value)

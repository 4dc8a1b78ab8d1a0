"""Where uftp comes from, without a network."""

import stat
from pathlib import Path

import pytest

from benchmarks.uftpprogram import PROGRAMS, uftp_folder
from testbed.errors import MachineError


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder of programs that this machine has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    return folder


def test_installed_programs_are_taken(path: Path) -> None:
    for name in PROGRAMS:
        program(path / name, "exit 0")
    assert uftp_folder() == path


def test_they_are_unpacked_into_the_cache_once(path: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "cache" / "uftp" / "usr" / "bin"
    program(path / "apt-get", f"echo $@ >> {tmp_path}/fetched; : > uftp_4_amd64.deb")
    program(
        path / "dpkg",
        f"/bin/mkdir -p $3/usr/bin; for p in {' '.join(PROGRAMS)}; do : > $3/usr/bin/$p; done",
    )
    assert uftp_folder() == uftp_folder() == unpacked
    assert (tmp_path / "fetched").read_text() == "download -q uftp\n"
    assert not list((tmp_path / "cache" / "uftp").glob("*.deb"))


def test_a_package_that_does_not_come_is_one_line_with_what_to_do(path: Path) -> None:
    program(path / "apt-get", "echo 'E: No packages found' >&2; exit 100")
    with pytest.raises(MachineError, match=r"No packages found.*sudo apt-get update"):
        uftp_folder()

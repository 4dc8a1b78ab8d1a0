"""Where uftp comes from, without a network."""

from pathlib import Path

import pytest

from benchmarks import uftpprogram
from benchmarks.uftpprogram import PROGRAMS, uftp_folder


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder of programs that this machine has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_installed_programs_are_taken(path: Path) -> None:
    for name in PROGRAMS:
        (path / name).touch(mode=0o755)
    assert uftp_folder() == path


@pytest.mark.usefixtures("path")
def test_else_they_are_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(uftpprogram, "unpacked", lambda name, _: tmp_path / "cache" / name)
    assert uftp_folder() == tmp_path / "cache" / "uftp" / "usr" / "bin"

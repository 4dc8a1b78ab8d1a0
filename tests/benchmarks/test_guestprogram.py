"""A benchmark's program in the virtual machine keeps to itself."""

import tempfile
from pathlib import Path

import pytest

from benchmarks.guestprogram import run_guest_program

pytestmark = pytest.mark.machine


def test_temporary_folders_of_others_are_not_seen(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="cliquenet-of-others-"):
        look = (
            "import os, pathlib, tempfile; "
            f"pathlib.Path({str(tmp_path / 'seen')!r}).write_text("
            "' '.join(os.listdir(tempfile.gettempdir())))"
        )
        words = ["-n1", "-r1", look]
        run_guest_program("timeit", *map(Path, words), writable=tmp_path, memory_mb=512)
    assert "cliquenet-of-others" not in (tmp_path / "seen").read_text()

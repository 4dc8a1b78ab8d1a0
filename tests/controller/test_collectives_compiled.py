"""Kernels are compiled when they are called, into the user's cache, and not before."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORT = "import controller.collectives.choose"
CALL = """
import numpy as np
from controller.collectives.kernels.lanes import arrange
from controller.collectives.kernels.packing import pack_trees
lanes = arrange(np.array([0, 1]), np.array([1, 0]), 2)
rows = [np.zeros((1, 2), dtype=np.int64) for _ in range(2)]
pack_trees(lanes, np.ones(2), 0.1, 2, 1, np.zeros(1, dtype=np.int64), *rows)
"""


def run(code: str, cache: Path) -> None:
    environment = {**os.environ, "CLIQUENET_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_nothing_is_compiled_at_import(tmp_path: Path) -> None:
    run(IMPORT, tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_was_compiled_is_kept(tmp_path: Path) -> None:
    run(CALL, tmp_path)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert made
    assert all(path.is_relative_to(tmp_path / "numba") for path in made)
    run(CALL, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == made

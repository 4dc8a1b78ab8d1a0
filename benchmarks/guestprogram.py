"""Runs one of this folder's programs inside the virtual machine."""

import sys
import tempfile
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from testbed.errors import CliquenetError
from testbed.jsonmodel import read_model
from testbed.virtualtime.kernel import ensure_kernel
from testbed.virtualtime.machine import run_in_virtual_time

_ROOT = Path(__file__).parent.parent
_TEMPORARY = "/run"
"""In the guest's own memory; others may make folders in the host's while it looks."""
Report = TypeVar("Report", bound=BaseModel)


def run_guest_job(module: str, job: BaseModel, report: type[Report], *, memory_mb: int) -> Report:
    """Let a module that takes the files of a job and of its report do the job.

    Raises
    ------
    CliquenetError
        See `run_guest_program`.
    """
    with tempfile.TemporaryDirectory(prefix="cliquenet-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(job.model_dump_json())
        files = folder / "job.json", folder / "report.json"
        run_guest_program(module, *files, writable=folder, memory_mb=memory_mb)
        return read_model(report, files[1])


def run_guest_program(
    module: str, *arguments: Path, writable: Path, memory_mb: int, wall_limit_s: float = 600.0
) -> None:
    """Run a module to its end.

    Parameters
    ----------
    module
        Of this package.
    arguments
        Its command line.
    writable
        The folder that it may write to.
    memory_mb
        Of the machine.
    wall_limit_s
        After which it is stopped.

    Raises
    ------
    CliquenetError
        It failed; its last line.
    """
    output = bytearray()
    outcome = run_in_virtual_time(
        [sys.executable, "-m", module, *map(str, arguments)],
        kernel=ensure_kernel(),
        on_output=lambda _, data: output.extend(data),
        memory_mb=memory_mb,
        writable=writable,
        env={"TMPDIR": _TEMPORARY},
        cwd=_ROOT,
        wall_limit_s=wall_limit_s,
    )
    if outcome.status != 0:
        last = (output.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
        raise CliquenetError(f"the measurement failed: {last}")

"""Works a run out, whatever it ran."""

from pathlib import Path
from typing import Any

from controller.plan import read_plan
from experiments.analysis import analyse_run
from experiments.hostanalysis import analyse_host_run


def analyse(run_dir: Path) -> dict[str, Any]:
    """Write tables and ``summary.json`` of a run; returns the summary."""
    return analyse_host_run(run_dir) if between_hosts(run_dir) else analyse_run(run_dir)


def between_hosts(run_dir: Path) -> bool:
    """Whether a run was a collective between hosts, and not rounds of streams."""
    return read_plan(run_dir / "plan.json").collective is not None

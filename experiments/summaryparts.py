"""Entries of ``summary.json`` that every kind of run has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.plan import Plan
from experiments.network_record import NetworkRecord
from experiments.results import read_state
from experiments.runtime import Runtime
from experiments.trust import Trust
from testbed.findings import Finding, judge, reasons


def heading(
    run_dir: Path,
    plan: Plan,
    runtime: Runtime,
    manifest: Mapping[str, Any],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """What ran, on which clock, and whether to believe it."""
    return {
        "run_id": run_dir.name,
        "schedule": plan.schedule,
        "clock": runtime.clock,
        "clock_reason": manifest.get("clock_reason"),
        "seed": runtime.seed,
        "verdict": judge(findings),
        "reasons": reasons(findings),
    }


def network_entries(
    run_dir: Path, links: Sequence[Mapping[str, Any]], trust: Trust, network: NetworkRecord
) -> dict[str, Any]:
    """What links carried, how true they were, and what all of it took."""
    return {
        "links": links,
        "busiest_link": max(links, key=lambda link: float(link["utilisation"]), default=None),
        **trust.entries(),
        "network_up_wall_s": round(network.network_up_wall_s(), 3),
        "wall_s": read_state(run_dir).get("wall_s"),
    }

"""The files of a run of a collective between hosts."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.collective import ROLE
from agents.records import read_events
from controller.hostplan import HostPlan, HostStep
from controller.plan import Plan, read_plan
from controller.training import unroll
from experiments.incarnations import FaultRecord, read_faults
from experiments.network_record import NetworkRecord, read_network
from experiments.results import read_json
from experiments.runtime import Runtime, read_runtime
from experiments.sumanalysis import Aggregators, read_aggregators
from experiments.takeovers import TakeoverRecord, read_takeovers
from experiments.trust import Trust, read_trust
from testbed.errors import InputError

NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class HostRun:
    """The files of one run."""

    run_dir: Path
    plan: Plan
    hosts: HostPlan
    runtime: Runtime
    network: NetworkRecord
    trust: Trust
    events: tuple[npt.NDArray[np.void], ...]
    """By city index."""
    counters: tuple[dict[str, Any], ...]
    """By city index."""
    aggregators: Aggregators
    """Empty where hosts alone add."""
    faults: tuple[FaultRecord, ...] = ()
    takeovers: tuple[TakeoverRecord, ...] = ()

    @property
    def plans(self) -> list[tuple[float, HostPlan]]:
        """What hosts ran, one after the other, and from when on in ms."""
        later = [(t.zero_ns or 0, t.taken) for t in self.takeovers]
        return [
            (0.0, self.hosts),
            *((zero_ns / NS_PER_MS, plan) for zero_ns, plan in later if plan is not None),
        ]

    @cached_property
    def steps(self) -> tuple[tuple[HostStep, ...], ...]:
        """What each host did, all all-reduces; by city index."""
        cities = range(len(self.plan.topology.codes))
        return tuple(unroll(self.hosts, self.plan.training, city) for city in cities)

    @property
    def all_steps(self) -> list[tuple[float, HostPlan, tuple[tuple[HostStep, ...], ...]]]:
        """From when on, by which plan, and what each host did then."""
        return [
            (zero_ms, plan, plan.steps if zero_ms else self.steps) for zero_ms, plan in self.plans
        ]


def load_host_run(run_dir: Path) -> HostRun:
    """Read a run's folder.

    Raises
    ------
    InputError
        A file is missing or damaged: the run did not finish.
    """
    plan = read_plan(run_dir / "plan.json")
    if plan.collective is None:
        raise InputError(f"{run_dir.name} ran no collective")
    raw = run_dir / "raw"
    try:
        events = tuple(read_events(raw / f"{ROLE}-{code}.bin") for code in plan.topology.codes)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the records of {run_dir.name}: {error}") from error
    return HostRun(
        run_dir,
        plan,
        plan.collective,
        read_runtime(run_dir / "runtime.json"),
        read_network(raw / "network.json"),
        read_trust(run_dir),
        events,
        tuple(read_json(raw / f"{ROLE}-{code}.json") for code in plan.topology.codes),
        read_aggregators(raw, plan),
        read_faults(raw),
        read_takeovers(raw),
    )

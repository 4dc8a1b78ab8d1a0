"""What hosts did between synchronisations: time of a step, and the share of it that they idled.

Idle is whatever is not computing (ours): waiting for sums, and for the start of a round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.records import Kind
from controller.training import Training
from testbed.findings import Finding, Level

NS_PER_MS = 1_000_000
_COMPUTE_TOLERANCE = 1e-3
UNCOUNTED: Mapping[str, int] = MappingProxyType({"synchronous": 1, "delayed": 3, "local": 0})
"""So many synchronisations give no time of a step: the steps that they belong to begin before
anything could hold them up, all hosts at once, or nobody sees the next step begin."""
_WARM_UP: Mapping[str, int] = MappingProxyType({"synchronous": 1, "delayed": 2, "local": 0})
"""The first steps that do not count."""


@dataclass(frozen=True)
class HostTraining:
    """One host's training.

    Attributes
    ----------
    steps
        How many it has computed in all.
    step_ms
        Mean time from the begin of a step to that of the next.
    idle_share
        Part of that time in which it did not compute.
    slowest_ms
        The longest time that computing one took.
    """

    steps: int
    step_ms: float
    idle_share: float
    slowest_ms: float


def measure_host(
    events: npt.NDArray[np.void], training: Training, summed_ns: int | None, period: int = 1
) -> HostTraining | None:
    """Work out one host's training from its records.

    Parameters
    ----------
    events
        Of the host, dtype `agents.records.EVENT_DTYPE` or one with the same names.
    summed_ns
        When it had its last sum, since the start of the run; None if it never had.
    period
        Synchronisations repeat after so many; a step is the mean over whole periods.

    Returns
    -------
    HostTraining or None
        None if it computed too little to have a time per step.
    """
    done = events[events["kind"] == Kind.COMPUTED]
    took_ns = done["value"].astype(np.int64)
    begins_ns = (done["t_ns"] - took_ns).tolist()
    if training.loop == "synchronous" and summed_ns is not None:
        begins_ns.append(summed_ns)  # one more step would begin then
    elif training.loop == "local" and len(done):
        begins_ns.append(int(done["t_ns"][-1]))
    first = _WARM_UP[training.loop]
    counted = len(begins_ns) - 1 - first
    if training.loop != "local":
        counted -= counted % period
    if counted < 1:
        return None
    window_ns = begins_ns[first + counted] - begins_ns[first]
    computed_ns = int(took_ns[first : first + counted].sum())
    return HostTraining(
        steps=len(done),
        step_ms=window_ns / counted / NS_PER_MS,
        idle_share=max(0.0, 1.0 - computed_ns / window_ns),  # timers end some ns late
        slowest_ms=float(took_ns.max()) / NS_PER_MS,
    )


def measure_hosts(
    training: Training | None,
    codes: Sequence[str],
    events: Sequence[npt.NDArray[np.void]],
    summed_ns: Sequence[int | None],
    period: int = 1,
) -> dict[str, HostTraining | None]:
    """Every host's training by its code, see `measure_host`; empty without training."""
    if training is None:
        return {}
    each = zip(codes, events, summed_ns, strict=True)
    return {code: measure_host(own, training, end_ns, period) for code, own, end_ns in each}


def slowest(hosts: Mapping[str, HostTraining | None]) -> HostTraining | None:
    """The host that sets the pace: after some steps all go as fast as it does.

    None unless every host has figures.
    """
    known = [host for host in hosts.values() if host is not None]
    if len(known) < len(hosts):
        return None
    return max(known, key=lambda host: host.step_ms, default=None)


def pace_ms(
    training: Training | None, hosts: Mapping[str, HostTraining | None], planned_ms: float
) -> float:
    """Time between the starts of two synchronisations, ``planned_ms`` by the plan.

    Hosts that compute, and then send at once, set it themselves: it is their time of a step.
    """
    pace = slowest(hosts)
    if training is None or pace is None or training.release == "planned":
        return planned_ms
    return pace.step_ms if training.loop == "synchronous" else planned_ms


def training_entries(
    training: Training | None, hosts: Mapping[str, HostTraining | None], planned_step_ms: float
) -> dict[str, Any]:
    """Entry ``training`` of a summary; nothing without training.

    ``step_ms`` and ``idle_share`` are those of the `slowest` host.
    """
    if training is None:
        return {}
    pace = slowest(hosts)
    return {
        "training": {
            "compute_ms": training.compute_ms,
            "loop": training.loop,
            "release": training.release,
            "syncs": training.syncs,
            "step_planned_ms": planned_step_ms,
            "step_ms": None if pace is None else pace.step_ms,
            "idle_share": None if pace is None else pace.idle_share,
            "steps": sum(host.steps for host in hosts.values() if host is not None),
            "hosts": {code: None if host is None else asdict(host) for code, host in hosts.items()},
        }
    }


def check_training(
    training: Training | None,
    hosts: Mapping[str, HostTraining | None],
    planned_step_ms: float,
    tolerance_percent: float,
) -> list[Finding]:
    """What speaks against the figures of a training.

    Where sends leave as soon as they can, the plan promises no time of a step.
    """
    if training is None:
        return []
    findings = []
    for code, host in hosts.items():
        if host is None:
            findings.append(Finding("FAIL", f"{code}: too few steps were computed"))
        elif host.slowest_ms > training.compute_ms * (1 + _COMPUTE_TOLERANCE):
            text = f"took {host.slowest_ms:.3f} ms to compute, not {training.compute_ms:g} ms"
            findings.append(Finding("FAIL", f"{code}: a step {text}"))
    pace = slowest(hosts)
    if pace is not None:
        error = 100.0 * (pace.step_ms / planned_step_ms - 1)
        if abs(error) > tolerance_percent:
            price: Level = "FAIL" if training.release == "planned" else "DEGRADED"
            text = (
                f"{pace.step_ms:.2f} ms a step, planned {planned_step_ms:.2f} ms "
                f"({error:+.2f} %, allowed ±{tolerance_percent:g} %)"
            )
            findings.append(Finding(price, text))
    return findings


def last_sums_ns(events: Sequence[npt.NDArray[np.void]]) -> list[int | None]:
    """When each host got its last datagram that brought something, since the start of the run."""
    brings = (Kind.AGGREGATE_IN, Kind.DATA_IN)
    came = [one["t_ns"][np.isin(one["kind"], brings)] for one in events]
    return [int(times.max()) if len(times) else None for times in came]

"""A run of a collective between hosts: from its files to ``summary.json`` and tables."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from agents.collective import ROLE
from agents.operands import chunk_layout
from agents.records import Kind, read_events
from controller.hostplan import HostPlan, HostStep
from controller.plan import Plan, read_plan
from controller.training import unroll
from experiments.conservation import Conservation
from experiments.network_record import NetworkRecord, measured_loads, read_network
from experiments.results import (
    amend_manifest,
    configured,
    read_json,
    read_manifest,
    read_state,
    write_json,
)
from experiments.runtime import Runtime, read_runtime
from experiments.sumanalysis import (
    Aggregators,
    aggregator_drops,
    aggregator_entries,
    check_aggregators,
    count_datagrams,
    read_aggregators,
    sum_copies,
    sum_streams,
)
from experiments.trainingfigures import check_training, measure_hosts, pace_ms, training_entries
from experiments.trainingplan import spacing_planned_ms, step_planned_ms
from experiments.trust import Trust, read_trust
from experiments.verdict import (
    Promise,
    RoundTime,
    check_links,
    check_shapers,
    check_times,
)
from testbed.errors import InputError
from testbed.findings import Finding, judge, reasons
from testbed.paths import give_to_caller

NS_PER_MS = 1_000_000
DEFAULT_TOLERANCE_PERCENT = 1.0
"""How far the measured time may lie from the schedule's."""


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

    @cached_property
    def steps(self) -> tuple[tuple[HostStep, ...], ...]:
        """What each host did, all all-reduces; by city index."""
        cities = range(len(self.plan.topology.codes))
        return tuple(unroll(self.hosts, self.plan.training, city) for city in cities)

    @property
    def syncs(self) -> int:
        """How many all-reduces there were."""
        return 1 if self.plan.training is None else self.plan.training.syncs


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
    )


def analyse_host_run(run_dir: Path) -> dict[str, Any]:
    """Work out a run: write ``events/transfers.parquet`` and ``summary.json``.

    Returns
    -------
    dict
        What ``summary.json`` holds; byte counts are those of the network that is emulated.

    Raises
    ------
    InputError
        A file of the run is missing or damaged.
    """
    run = load_host_run(run_dir)
    transfers = transfer_table(run)
    (run_dir / "events").mkdir(exist_ok=True)
    transfers.to_parquet(run_dir / "events" / "transfers.parquet", index=False)
    summary = summarise_hosts(run, transfers)
    write_json(run_dir / "summary.json", summary)
    amend_manifest(run_dir, verdict=summary["verdict"])
    give_to_caller(run_dir)
    return summary


def transfer_table(run: HostRun) -> pd.DataFrame:
    """One row per transfer: planned and measured begin and end, in ms.

    The measured end is that of its last datagram's arrival; missing if nothing came.
    """
    codes = run.plan.topology.codes
    if run.hosts.hub is not None:
        return sum_streams(run.hosts, codes, run.events, run.aggregators)
    rows = [
        {
            "transfer": step.transfer,
            "sender": codes[city],
            "receiver": codes[run.hosts.paths[step.path].dst],
            "chunk": step.chunk,
            "planned_start_ms": step.start_ms,
            "planned_end_ms": step.end_ms,
        }
        for city, steps in enumerate(run.steps)
        for step in steps
        if step.kind == "send"
    ]
    adds = {s.transfer for steps in run.steps for s in steps if s.kind == "reduce"}
    table = pd.DataFrame(rows).set_index("transfer").sort_index()
    table["adds"] = table.index.isin(adds)
    all_events = np.concatenate(run.events)
    for kind, name, pick in ((Kind.EMIT, "start_ms", "min"), (Kind.DATA_IN, "end_ms", "max")):
        found = all_events[all_events["kind"] == kind]
        at_ms = pd.Series(found["t_ns"] / NS_PER_MS)
        table[name] = at_ms.groupby(found["round"].astype(np.int64)).agg(pick)
    return table.reset_index()


def summarise_hosts(run: HostRun, transfers: pd.DataFrame) -> dict[str, Any]:
    """Put the measured beside the planned, and judge; see `analyse_host_run`."""
    plan, hosts, codes = run.plan, run.hosts, run.plan.topology.codes
    done_ns = [counted["done_ns"] for counted in run.counters]
    complete = all(counted["complete"] for counted in run.counters)
    trained = measure_hosts(plan.training, codes, run.events, done_ns)
    last_start_ms = (run.syncs - 1) * pace_ms(plan.training, trained, spacing_planned_ms(plan))
    measured_ms = max(done_ns) / NS_PER_MS - last_start_ms if complete else None
    time = RoundTime(0, hosts.time_ms, measured_ms)
    exact = sum(counted["chunks_exact"] for counted in run.counters)
    expected = hosts.chunks * len(codes) * run.syncs
    sent = sum(counted["datagrams_out"] for counted in run.counters)
    kind = Kind.DATA_IN if hosts.hub is None else Kind.AGGREGATE_IN
    came = sum(int(e["count"][e["kind"] == kind].sum()) for e in run.events)
    sent, came = count_datagrams(hosts, sent, came, run.aggregators)
    drops = _drops(run)
    lost = max(0, sent - came - sum(drops.values()))
    conservation = Conservation(sent, came, drops, lost)
    limits = run.runtime.limits.at(run.runtime.clock)
    links = link_loads(run)
    # Without the schedule's times links are shared, and the schedule promises nothing.
    promise = Promise(feasible=hosts.release == "planned")
    manifest = read_manifest(run.run_dir)
    tolerance_percent = configured(manifest, "tolerance_percent", DEFAULT_TOLERANCE_PERCENT)
    trains = plan.training, trained, step_planned_ms(plan)
    findings = [
        *_check_hosts(run, exact, expected),
        *check_aggregators(run.aggregators, codes),
        *check_training(*trains, tolerance_percent),
        *(check_times([time], promise, tolerance_percent) if complete else ()),
        *_check_losses(sent - came, drops),
        *conservation.findings(limits),
        *check_shapers(run.network, plan, run.runtime.mtu_bytes),
        *run.trust.findings(limits),
        *check_links(links, plan, promise),
    ]
    return {
        "run_id": run.run_dir.name,
        "schedule": plan.schedule,
        "algorithm": hosts.algorithm,
        "model": hosts.model,
        "release": hosts.release,
        "clock": run.runtime.clock,
        "clock_reason": manifest.get("clock_reason"),
        "seed": run.runtime.seed,
        "verdict": judge(findings),
        "reasons": reasons(findings),
        "payload_bytes": hosts.payload_bytes,
        "chunks": hosts.chunks,
        "transfers": len(transfers),
        "t_planned_ms": hosts.time_ms,
        "t_measured_ms": measured_ms,
        "t_error_percent": time.error_percent,
        "bound_ms": hosts.bound_ms,
        "bound": hosts.bound,
        "over_bound": None if measured_ms is None else measured_ms / hosts.bound_ms,
        **training_entries(*trains),
        "hosts": {
            code: {
                "done_ms": None if counted["done_ns"] is None else counted["done_ns"] / NS_PER_MS,
                "chunks_exact": counted["chunks_exact"],
                "egress_bytes": counted["egress_bytes"] * plan.scale,
            }
            for code, counted in zip(codes, run.counters, strict=True)
        },
        "sums_exact": exact == expected,
        "chunks_expected": expected,
        "chunks_exact": exact,
        **aggregator_entries(hosts, codes, run.aggregators),
        "packets_sent": sent,
        "packets_lost": sent - came,
        "drops": drops,
        **conservation.entries(),
        "links": links,
        "busiest_link": max(links, key=lambda link: float(link["utilisation"]), default=None),
        **run.trust.entries(),
        "network_up_wall_s": round(run.network.network_up_wall_s(), 3),
        "wall_s": read_state(run.run_dir).get("wall_s"),
        "trace_sha256": _trace_sha256(run),
    }


def link_loads(run: HostRun) -> list[dict[str, Any]]:
    """Planned and measured bytes of every directed link, and its use in the planned time."""
    plan, hosts = run.plan, run.hosts
    planned = np.zeros(len(plan.topology.edges))
    sends = (step for steps in run.steps for step in steps if step.kind == "send")
    copies = [edge for step in sends for edge in hosts.paths[step.path].edges]
    # A chunk is cut to whole elements, which shows where chunks are small.
    layout = chunk_layout(hosts.chunk_bytes / plan.scale, run.runtime.mtu_bytes)
    for edge in copies if hosts.hub is None else sum_copies(hosts):
        planned[edge] += layout.wire_bytes * plan.scale
    return measured_loads(run.network, plan, planned, run.syncs * hosts.time_ms)


def _check_hosts(run: HostRun, exact: int, expected: int) -> list[Finding]:
    findings = [
        Finding("FAIL", f"{code}: {counted['steps_left']} steps were never done")
        for code, counted in zip(run.plan.topology.codes, run.counters, strict=True)
        if not counted["complete"]
    ]
    if exact != expected:
        findings.append(Finding("FAIL", f"{expected - exact} of {expected} chunk sums are wrong"))
    return findings


def _check_losses(lost: int, drops: dict[str, int]) -> list[Finding]:
    where = ", ".join(f"{place} {count}" for place, count in drops.items())
    if lost:
        return [Finding("FAIL", f"{lost} datagrams lost ({where or 'place unknown'})")]
    return [Finding("DEGRADED", f"drops outside the transfers: {where}")] if where else []


def _drops(run: HostRun) -> dict[str, int]:
    """Datagrams that were dropped, by place and reason."""
    places = {f"shaper {q.interface}": q.drops - q.drops_before for q in run.network.qdiscs}
    places |= {f"switch {name}": count for name, count in run.network.switch_drops.items()}
    for code, counted in zip(run.plan.topology.codes, run.counters, strict=True):
        full = max(counted["socket_overflow"], counted["udp"].get("RcvbufErrors", 0))
        places[f"host {code}: socket full"] = full
        places[f"host {code}: no such port"] = counted["udp"].get("NoPorts", 0)
        places |= {f"host {code}: {why}": count for why, count in counted["drops"].items()}
    places |= aggregator_drops(run.aggregators, run.plan.topology.codes)
    return {place: count for place, count in sorted(places.items()) if count}


def _trace_sha256(run: HostRun) -> str:
    """Hash of all events with their times, host by host, then aggregator by aggregator."""
    parts = (*run.events, *(record.events for record in run.aggregators.values()))
    return hashlib.sha256(b"".join(events.tobytes() for events in parts)).hexdigest()

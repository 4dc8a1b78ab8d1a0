"""A run of a collective between hosts: from its files to ``summary.json`` and tables."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from agents.operands import chunk_layout
from agents.records import Kind
from experiments.conservation import Conservation
from experiments.counters import dropped_by_place
from experiments.hostresumption import check_takeovers, known_before, resumptions
from experiments.hostrun import NS_PER_MS, HostRun, load_host_run
from experiments.network_record import measured_loads
from experiments.replanner import replan_again
from experiments.results import (
    amend_manifest,
    configured,
    read_manifest,
    write_json,
)
from experiments.sumanalysis import (
    aggregator_entries,
    check_aggregators,
    count_datagrams,
    sum_copies,
    sum_streams,
)
from experiments.summaryparts import heading, network_entries
from experiments.trainingfigures import check_training, measure_hosts, pace_ms, training_entries
from experiments.trainingplan import spacing_planned_ms, step_planned_ms
from experiments.verdict import (
    Promise,
    RoundTime,
    check_links,
    check_shapers,
    check_times,
)
from testbed.findings import Finding
from testbed.paths import give_to_caller

DEFAULT_TOLERANCE_PERCENT = 1.0
"""How far the measured time may lie from the schedule's."""


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

    The measured end is that of its last datagram's arrival; missing if nothing came. Of those
    that were given up for another schedule only what had begun is there.
    """
    codes = run.plan.topology.codes
    if run.hosts.hub is not None:
        return sum_streams(run.hosts, codes, run.events, run.aggregators)
    given_up = {number for t in run.takeovers if t.taken for number in t.dropped}
    rows = [
        {
            "transfer": step.transfer,
            "sender": codes[city],
            "receiver": codes[plan.paths[step.path].dst],
            "chunk": step.chunk,
            "path": step.path,
            "planned_start_ms": zero_ms + step.start_ms,
            "planned_end_ms": zero_ms + step.end_ms,
        }
        for zero_ms, plan, listed in run.all_steps
        for city, steps in enumerate(listed)
        for step in steps
        if step.kind == "send"
    ]
    adds = {
        s.transfer
        for _, _, listed in run.all_steps
        for steps in listed
        for s in steps
        if s.kind == "reduce"
    }
    table = pd.DataFrame(rows).set_index("transfer").sort_index()
    table["adds"] = table.index.isin(adds)
    all_events = np.concatenate(run.events)
    for kind, name, pick in ((Kind.EMIT, "start_ms", "min"), (Kind.DATA_IN, "end_ms", "max")):
        found = all_events[all_events["kind"] == kind]
        at_ms = pd.Series(found["t_ns"] / NS_PER_MS)
        table[name] = at_ms.groupby(found["round"].astype(np.int64)).agg(pick)
    table["given_up"] = table.index.isin(given_up)
    return table[~table["given_up"] | table["start_ms"].notna()].reset_index()


def summarise_hosts(run: HostRun, transfers: pd.DataFrame) -> dict[str, Any]:
    """Put the measured beside the planned, and judge; see `analyse_host_run`."""
    plan, hosts, codes = run.plan, run.hosts, run.plan.topology.codes
    done_ns = [counted["done_ns"] for counted in run.counters]
    complete = all(counted["complete"] for counted in run.counters)
    trained = measure_hosts(plan.training, codes, run.events, done_ns)
    last_start_ms = (plan.syncs - 1) * pace_ms(plan.training, trained, spacing_planned_ms(plan))
    measured_ms = max(done_ns) / NS_PER_MS - last_start_ms if complete else None
    again = replan_again(plan, run.runtime, run.takeovers) if run.takeovers else []
    zero_ms, last = run.plans[-1]
    time = RoundTime(0, zero_ms + last.time_ms, measured_ms)
    exact = sum(counted["chunks_exact"] for counted in run.counters)
    expected = hosts.chunks * len(codes) * plan.syncs
    sent = sum(counted["datagrams_out"] for counted in run.counters)
    kind = Kind.DATA_IN if hosts.hub is None else Kind.AGGREGATE_IN
    came = sum(int(e["count"][e["kind"] == kind].sum()) for e in run.events)
    sent, came = count_datagrams(hosts, sent, came, run.aggregators)
    drops = _drops(run)
    asked = _asked_drops(run)
    unasked = {p: n - asked.get(p, 0) for p, n in drops.items() if n > asked.get(p, 0)}
    lost = max(0, sent - came - sum(drops.values()))
    conservation = Conservation(sent, came, drops, lost)
    limits = run.runtime.limits.at(run.runtime.clock)
    links = link_loads(run, transfers)
    # Without the schedule's times links are shared, and the schedule promises nothing.
    promise = Promise(feasible=hosts.release == "planned", wan=bool(run.faults))
    manifest = read_manifest(run.run_dir)
    tolerance_percent = configured(manifest, "tolerance_percent", DEFAULT_TOLERANCE_PERCENT)
    trains = plan.training, trained, step_planned_ms(plan)
    findings = [
        *_check_hosts(run, exact, expected),
        *check_aggregators(run.aggregators, codes),
        *check_training(*trains, tolerance_percent),
        *(check_times([time], promise, tolerance_percent) if complete else ()),
        *_check_losses(sent - came - sum(asked.values()), unasked),
        *check_takeovers(run.takeovers, run.faults, again),
        *conservation.findings(limits),
        *check_shapers(run.network, plan, run.runtime.mtu_bytes),
        *run.trust.findings(limits),
        *check_links(links, plan, promise),
    ]
    return {
        **heading(run.run_dir, plan, run.runtime, manifest, findings),
        "algorithm": hosts.algorithm,
        "model": hosts.model,
        "release": hosts.release,
        "payload_bytes": hosts.payload_bytes,
        "chunks": hosts.chunks,
        "transfers": len(transfers),
        "t_planned_ms": time.planned_ms,
        "t_measured_ms": measured_ms,
        "t_error_percent": time.error_percent,
        "bound_ms": hosts.bound_ms,
        "bound": hosts.bound,
        "over_bound": None if measured_ms is None else measured_ms / hosts.bound_ms,
        **training_entries(*trains),
        "hosts": _host_entries(run),
        "sums_exact": exact == expected,
        "chunks_expected": expected,
        "chunks_exact": exact,
        **aggregator_entries(hosts, codes, run.aggregators),
        "packets_sent": sent,
        "packets_lost": sent - came,
        "packets_lost_as_asked": sum(asked.values()),
        "undisturbed_ms": hosts.time_ms,
        "takeovers": resumptions(run.takeovers, run.faults, transfers, again),
        "known_before_ms": known_before(plan, hosts, run.runtime, run.faults),
        "drops": drops,
        **conservation.entries(),
        **network_entries(run.run_dir, links, run.trust, run.network),
        "trace_sha256": _trace_sha256(run),
    }


def _host_entries(run: HostRun) -> dict[str, Any]:
    """When each host was done, what it had then, and what it had sent; by city code."""
    return {
        code: {
            "done_ms": None if counted["done_ns"] is None else counted["done_ns"] / NS_PER_MS,
            "chunks_exact": counted["chunks_exact"],
            "egress_bytes": counted["egress_bytes"] * run.plan.scale,
        }
        for code, counted in zip(run.plan.topology.codes, run.counters, strict=True)
    }


def link_loads(run: HostRun, transfers: pd.DataFrame) -> list[dict[str, Any]]:
    """Planned and measured bytes of every directed link, and its use in the planned time."""
    plan, hosts = run.plan, run.hosts
    planned = np.zeros(len(plan.topology.edges))
    sends = (step for steps in run.steps for step in steps if step.kind == "send")
    copies = [edge for step in sends for edge in hosts.paths[step.path].edges]
    # A chunk is cut to whole elements, which shows where chunks are small.
    layout = chunk_layout(hosts.chunk_bytes / plan.scale, run.runtime.mtu_bytes)
    if hosts.hub is not None:
        copies = list(sum_copies(hosts))
    elif run.takeovers:
        paths = run.plans[-1][1].paths
        used = transfers["path"][~transfers["given_up"]].tolist()
        copies = [edge for path in used for edge in paths[path].edges]
    for edge in copies:
        planned[edge] += layout.wire_bytes * plan.scale
    zero_ms, last = run.plans[-1]
    return measured_loads(run.network, plan, planned, zero_ms + plan.syncs * last.time_ms)


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
    codes = run.plan.topology.codes
    hosts = [(f"host {code}", own) for code, own in zip(codes, run.counters, strict=True)]
    adding = [(f"aggregator {codes[i]}", r.counters) for i, r in run.aggregators.items()]
    return dropped_by_place(run.network, [*hosts, *adding])


def _asked_drops(run: HostRun) -> dict[str, int]:
    """Those of them at links that were down, and of transfers that another schedule gave up."""
    places = {f"shaper {q.interface}": q.fault_drops for q in run.network.qdiscs}
    places |= {
        f"host {code}: abandoned": counted["drops"].get("abandoned", 0)
        for code, counted in zip(run.plan.topology.codes, run.counters, strict=True)
    }
    return {place: count for place, count in places.items() if count}


def _trace_sha256(run: HostRun) -> str:
    """Hash of all events with their times, host by host, then aggregator by aggregator."""
    parts = (*run.events, *(record.events for record in run.aggregators.values()))
    return hashlib.sha256(b"".join(events.tobytes() for events in parts)).hexdigest()

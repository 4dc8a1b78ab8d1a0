"""What it took to go on after links failed or changed in the middle of a collective."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from controller.collectives.choose import choose
from controller.collectives.gathering import SYNTHESISED
from controller.collectives.generators import first_edge_link
from controller.collectives.hosts import schedule_of
from controller.collectives.interruption import Break, Interruption
from controller.collectives.network import without_links
from controller.collectives.resynthesis import changed, resynthesise
from controller.collectives.synthesis import Effort
from controller.hostplan import HostPlan
from controller.plan import Plan
from experiments.hostnetwork import datagram_network
from experiments.incarnations import FaultRecord
from experiments.runtime import Runtime
from experiments.takeovers import TakeoverRecord
from testbed.findings import Finding

NS_PER_MS = 1_000_000
PS_PER_NS = 1000


def resumptions(
    takeovers: Sequence[TakeoverRecord],
    faults: Sequence[FaultRecord],
    transfers: pd.DataFrame,
    again: Sequence[tuple[float, bool] | None],
) -> list[dict[str, Any]]:
    """One entry for each event that was answered, all times in ms since the start.

    Parameters
    ----------
    takeovers, faults
        What the run wrote down.
    transfers
        See `experiments.hostanalysis.transfer_table`.
    again
        See `experiments.replanner.replan_again`.
    """
    return [
        _resumption(takeover, faults, transfers, repeated)
        for takeover, repeated in zip(takeovers, again, strict=True)
    ]


def _resumption(
    takeover: TakeoverRecord,
    faults: Sequence[FaultRecord],
    transfers: pd.DataFrame,
    again: tuple[float, bool] | None,
) -> dict[str, Any]:
    noticed_ms = takeover.noticed_ns / NS_PER_MS
    before = [f for f in faults if f.happened_ns is not None and f.directions]
    caused = [f for f in before if (f.happened_ns or 0) <= takeover.noticed_ns + NS_PER_MS]
    event = max(caused, key=lambda f: f.happened_ns or 0, default=None)
    event_ms = noticed_ms if event is None else (event.happened_ns or 0) / NS_PER_MS
    ended = transfers["end_ms"][(transfers["end_ms"] <= event_ms) & ~transfers["given_up"]]
    found: dict[str, Any] = {
        "event": None if event is None else f"{event.event} {event.target}",
        "event_ms": event_ms,
        "noticed_ms": noticed_ms,
        "outcome": takeover.outcome,
        "last_chunk_before_ms": None if ended.empty else float(ended.max()),
        "planning_charged_ms": takeover.charged_ms,
        "planning_cpu_ms": None if again is None else again[0],
        "schedules_tried": takeover.attempts,
    }
    plan = takeover.taken
    if plan is None or takeover.zero_ns is None or takeover.confirmed_ns is None:
        return found
    new = transfers[transfers["transfer"] >= takeover.first_transfer]
    resumed_ms = float(new["start_ms"].min()) if len(new) else takeover.zero_ns / NS_PER_MS
    cut_off = transfers["given_up"] & transfers["transfer"].isin(takeover.dropped)
    return found | {
        "algorithm": plan.algorithm,
        "transfers": len(new),
        "transfers_cut_off": int(cut_off.sum()),
        "transfers_in_flight": takeover.flights,
        "chunks_final": takeover.chunks_final,
        "paths_added": takeover.paths_added,
        "paths_confirmed_ms": takeover.confirmed_ns / NS_PER_MS,
        "taken_over_ms": takeover.zero_ns / NS_PER_MS,
        "resumed_ms": resumed_ms,
        "time_to_resume_ms": resumed_ms - event_ms,
        "finish_planned_ms": takeover.zero_ns / NS_PER_MS + plan.time_ms,
    }


def check_takeovers(
    takeovers: Sequence[TakeoverRecord],
    faults: Sequence[FaultRecord],
    again: Sequence[tuple[float, bool] | None],
) -> list[Finding]:
    """Whether planning took no longer than it was given, and every event came in time."""
    findings = []
    for takeover, repeated in zip(takeovers, again, strict=True):
        if repeated is None:
            continue
        cpu_ms, same = repeated
        if cpu_ms > takeover.charged_ms:
            text = (
                f"planning anew took {cpu_ms:.0f} ms of a processor, and was given "
                f"{takeover.charged_ms:g} ms: raise REPLAN_MS"
            )
            findings.append(Finding("DEGRADED", text))
        if not same:
            text = "planned once more, the schedule that took over came out differently"
            findings.append(Finding("DEGRADED", text))
    late = (f for f in faults if f.happened_ns is None)
    return findings + [
        Finding("DEGRADED", f"{f.event} {f.target} at {f.at_ns / 1e6:g} ms: the run was over")
        for f in late
    ]


def known_before(
    plan: Plan, hosts: HostPlan, runtime: Runtime, faults: Sequence[FaultRecord]
) -> dict[str, float] | None:
    """When schedules would have ended that had known of the one link that went down.

    Returns
    -------
    dict or None
        In ms: ``from_start``, one that never used the link; ``from_event``, one that was ready
        at that moment, in no time. ``None`` unless exactly one link went down.
    """
    cuts = [f for f in faults if f.happened_ns is not None]
    if len(cuts) != 1 or cuts[0].event != "link-down" or cuts[0].happened_ns is None:
        return None
    network = datagram_network(plan.topology, runtime.mtu_bytes, plan.scale)
    edges = [e.index for e in plan.topology.edges if f"{e.src}→{e.dst}" in cuts[0].directions]
    links = frozenset(first_edge_link(plan.topology) + edge for edge in edges)
    schedule = schedule_of(hosts, plan.topology, network)
    at_ps = cuts[0].happened_ns * PS_PER_NS
    ready = resynthesise(
        schedule,
        changed(network, dict.fromkeys(links, 0.0)),
        Interruption((Break(links, at_ps),), at_ps, at_ps),
        Effort(runtime.seed, attempts=64),
    )
    never = choose(
        without_links(network, links),
        schedule.task,
        hosts.model,
        algorithm=SYNTHESISED,
        effort=Effort(runtime.seed),
    )
    return {
        "from_start": never.best.schedule.time_us / 1e3,
        "from_event": (at_ps + ready.schedule.time_ps) / 1e9,
    }

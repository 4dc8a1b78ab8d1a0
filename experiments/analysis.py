"""From the files of a run to ``summary.json``: what was measured, against what was planned."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from agents.wire import Cause
from controller.plan import Plan
from experiments.accounting import Delivery, count_legs, deliver, evictions, partial_sums
from experiments.conservation import conserve
from experiments.counters import (
    SumChecks,
    drop_places,
    memory_capacity,
    memory_high_water,
    stale_rows,
    sum_checks,
)
from experiments.decay import Decay, measure_decay, start_lifetime
from experiments.eventpart import event_part
from experiments.events import ROLES, stream_table, write_tables
from experiments.lateness import check_lateness, send_lateness
from experiments.lossy import lossy_part, promise_of
from experiments.network_record import NetworkRecord, measured_loads
from experiments.outcomes import RoundOutcome, entry
from experiments.results import amend_manifest, configured, read_manifest, write_json
from experiments.rundata import RunData, load_run
from experiments.summaryparts import heading, network_entries
from experiments.trainingfigures import (
    HostTraining,
    check_training,
    last_sums_ns,
    measure_hosts,
    pace_ms,
    training_entries,
)
from experiments.trainingplan import step_planned_ms
from experiments.verdict import (
    RoundTime,
    check_decay,
    check_links,
    check_losses,
    check_plan,
    check_shapers,
    check_sums,
    check_times,
)
from testbed.paths import give_to_caller

DEFAULT_TOLERANCE_PERCENT = 1.0
DEFAULT_LATE_MS = 1.0
NS_PER_MS = 1_000_000


def analyse_run(run_dir: Path) -> dict[str, Any]:
    """Work out a run: write ``events/*.parquet`` and ``summary.json``.

    Parameters
    ----------
    run_dir
        A finished run; only its files are read.

    Returns
    -------
    dict
        What ``summary.json`` holds. Byte counts are those of the network that
        is emulated, unless their name says otherwise.

    Raises
    ------
    InputError
        A file of the run is missing or damaged.
    """
    run = load_run(run_dir)
    streams = stream_table(run.trace, run.plan, run.block_bytes())
    decay = measure_decay(run.states, run.plan)
    write_tables(run_dir / "events", run.trace, streams, run.network, run.plan)
    decay.table().to_parquet(run_dir / "events" / "survival.parquet", index=False)
    summary = summarise(run, streams, decay)
    write_json(run_dir / "summary.json", summary)
    amend_manifest(run_dir, verdict=summary["verdict"])
    give_to_caller(run_dir)
    return summary


def summarise(run: RunData, streams: pd.DataFrame, decay: Decay) -> dict[str, Any]:
    """Put the measured beside the planned, and judge; see `analyse_run`."""
    plan, network = run.plan, run.network
    blocks = run.layout.blocks
    trained = train_islands(run)
    times = round_times(streams, plan, pace_ms(plan.training, trained, plan.round_interval_ms))
    delivery = deliver(run.trace, plan, blocks)
    legs = count_legs(run.trace, plan)
    sums = sum_checks(run)
    causes = {int(c): c.name.lower() for c in Cause if c}
    partial = partial_sums(run.trace, plan, causes)
    stale = stale_rows(run)
    drops = drop_places(run)
    links = link_loads(network, plan)
    promise = promise_of(run)
    limits = run.runtime.limits.at(run.runtime.clock)
    lossy = lossy_part(run, drops, legs)
    lateness = send_lateness(run)
    manifest = read_manifest(run.run_dir)
    tolerance_percent = configured(manifest, "tolerance_percent", DEFAULT_TOLERANCE_PERCENT)
    late_ms = configured(manifest, "late_ms", DEFAULT_LATE_MS)
    events = event_part(run, times, delivery, promise, tolerance_percent)
    conservation = conserve(run, legs, drops)
    trains = plan.training, trained, step_planned_ms(plan)
    findings = [
        *check_plan(plan),
        *check_times(times, promise, tolerance_percent),
        *check_lateness(lateness, promise, run.runtime.clock, late_ms),
        *check_sums(sums, delivery, partial, stale, promise),
        *check_decay(decay, promise, excused=bool(stale or run.crashed)),
        *events.findings,
        *check_training(*trains, tolerance_percent),
        *(lossy.findings if promise.asked else check_losses(legs.lost, drops, plan)),
        *([] if promise.asked else conservation.findings(limits)),
        *check_shapers(network, plan, run.runtime.mtu_bytes),
        *run.trust.findings(limits),
        *check_links(links, plan, promise),
    ]
    measured = [t.measured_ms for t in times if t.measured_ms is not None]
    t_measured_ms = max(measured, default=None)
    t_planned_ms = max(t.planned_ms for t in times)
    return {
        **heading(run.run_dir, plan, run.runtime, manifest, findings),
        "feasible": plan.feasible,
        "reason": plan.reason,
        "t_planned_ms": t_planned_ms,
        "t_measured_ms": t_measured_ms,
        "t_error_percent": _percent(t_measured_ms, t_planned_ms),
        "rounds": _round_entries(times, events.outcomes, network, plan),
        "a_rms": plan.prediction.a_rms,
        "a_rms_start": start_lifetime(plan),
        **_decay_entries(decay, stale),
        "objective_ms": _objective(t_measured_ms, plan.prediction.a_rms),
        "objective_planned_ms": plan.prediction.objective_ms,
        **_sum_entries(sums, delivery),
        "packets_sent": legs.network_sent + legs.access_sent,
        "packets_lost": lossy.lost if promise.asked else legs.lost,
        "drops": drops,
        **conservation.entries(),
        "partial_blocks": sum(partial.values()),
        "partial_causes": partial,
        **lossy.entries,
        "faults": events.timeline,
        "crashed": list(run.crashed),
        **training_entries(*trains),
        "evictions": evictions(run.trace, causes),
        "send_lateness": None if lateness is None else asdict(lateness),
        **_memory_entries(run),
        "islands": island_traffic(streams, plan),
        **network_entries(run.run_dir, links, run.trust, network),
        "trace_sha256": run.trace.sha256(),
    }


def _round_entries(
    times: Sequence[RoundTime],
    outcomes: Sequence[RoundOutcome],
    network: NetworkRecord,
    plan: Plan,
) -> list[dict[str, Any]]:
    """What was planned for each round, and what became of it."""
    interval_ns = plan.round_interval_ms * NS_PER_MS
    in_time = {r.round for r in network.rounds if r.confirmed_ns <= r.round * interval_ns}
    return [
        {
            "round": time.round,
            "planned_ms": time.planned_ms,
            "measured_ms": time.measured_ms,
            "error_percent": time.error_percent,
            **entry(outcome),
            "rules_in_time": time.round in in_time,
        }
        for time, outcome in zip(times, outcomes, strict=True)
    ]


def _sum_entries(sums: SumChecks, delivery: Delivery) -> dict[str, Any]:
    """How many sums and contributions came, and how right they were."""
    return {
        "sums_exact": sums.all_exact and delivery.missing == 0,
        "blocks_expected": sums.expected,
        "blocks_exact": sums.exact,
        "blocks_wrong": sums.wrong,
        "blocks_stale": sums.stale,
        "blocks_missing": sums.incomplete,
        "contributions_expected": delivery.expected,
        "contributions_missing": delivery.missing,
    }


def _memory_entries(run: RunData) -> dict[str, Any]:
    """What the aggregators had of memory, and used of it."""
    used = memory_high_water(run)
    return {
        "memory_bytes": run.plan.memory_bytes,
        "memory_with_fifo_bytes": memory_capacity(run),
        "memory_high_water_bytes": max(used.values(), default=0.0),
        "memory_high_water_by_city": used,
    }


def round_times(
    streams: pd.DataFrame, plan: Plan, spacing_ms: float | None = None
) -> list[RoundTime]:
    """Time from a round's start to the last byte that its slowest island could use, per round.

    Rounds start every ``spacing_ms``; by default as the plan says.
    """
    late_ms = 0.0 if spacing_ms is None else spacing_ms - plan.round_interval_ms
    legs = ("access", "repair") if plan.aggregation else ("network",)
    arrivals = streams[streams["leg"].isin(legs)]
    last_ms = arrivals.groupby("round")["last_ms"].max()
    return [
        RoundTime(
            k,
            plan.round(k).t_ms,
            float(last_ms[k]) - k * late_ms if k in last_ms.index else None,
        )
        for k in range(plan.rounds)
    ]


def train_islands(run: RunData) -> dict[str, HostTraining | None]:
    """Each island's training, by city code; empty without."""
    plan, codes = run.plan, run.plan.topology.codes
    events = run.trace.events[run.trace.events["role"] == ROLES.index("island")]
    each = [events[events["city"] == city] for city in range(len(codes))]
    return measure_hosts(plan.training, codes, each, last_sums_ns(each), len(plan.period))


def island_traffic(streams: pd.DataFrame, plan: Plan) -> dict[str, dict[str, float]]:
    """Bytes of streams that crossed each island's access link, both ways, all rounds."""
    arriving = ("access", "repair", "surplus") if plan.aggregation else ("network", "surplus")
    sent = streams[streams["leg"] == "emit"].groupby("sender")["bytes"].sum()
    received = streams[streams["leg"].isin(arriving)].groupby("receiver")["bytes"].sum()
    return {
        code: {
            "egress_bytes": float(sent.get(code, 0.0)),
            "ingress_bytes": float(received.get(code, 0.0)),
        }
        for code in plan.topology.codes
    }


def link_loads(network: NetworkRecord, plan: Plan) -> list[dict[str, Any]]:
    """Planned and measured bytes of every directed link, all rounds, and its utilisation.

    Utilisation is the measured load over what the link could carry in the
    planned time of the rounds.
    """
    copies = np.zeros(len(plan.topology.edges))
    for k in range(plan.rounds):
        for index, count in plan.round(k).edge_streams.items():
            copies[index] += count
    time_ms = sum(plan.round(k).t_ms for k in range(plan.rounds))
    loads = measured_loads(network, plan, copies * plan.payload_bytes, time_ms)
    return [{**load, "streams_planned": int(copies[load["edge"]])} for load in loads]


def _decay_entries(decay: Decay, stale: dict[str, int]) -> dict[str, Any]:
    """What the summary says of the disagreement; the rest is in ``events/survival.parquet``."""
    return {
        "a_rms_measured": decay.lifetime,
        "a_rms_seen": decay.seen,
        "a_rms_tail": decay.tail,
        "survival_planned": decay.planned.tolist(),
        "survival_measured": decay.measured.tolist(),
        "survival_error_max": decay.error,
        "state_error_max": float(decay.deviation.max()),
        "state_error_bound": float(decay.bound.max()),
        "stale_rows": sum(stale.values()),
    }


def _percent(measured: float | None, planned: float) -> float | None:
    return None if measured is None else 100.0 * (measured - planned) / planned


def _objective(t_ms: float | None, a: float | None) -> float | None:
    """T (A + ½), the paper's objective."""
    return None if t_ms is None or a is None else t_ms * (a + 0.5)

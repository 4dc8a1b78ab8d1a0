"""The part of a summary that a run with asked faults has: losses, recovery."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.accounting import Legs, explained_losses
from experiments.losses import LinkLoss, link_losses, loss_faults, total_lost, unread
from experiments.recovery import measure_recovery
from experiments.rundata import RunData
from experiments.verdict import MENDED, Promise, check_faults
from testbed.findings import Finding

NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class LossyPart:
    """What follows from the faults that a run asked for.

    Attributes
    ----------
    lost
        Packets that were dropped, on impaired links and elsewhere.
    findings
        What speaks against the run.
    entries
        Entries of ``summary.json``.
    """

    lost: int
    findings: list[Finding]
    entries: dict[str, Any]


def promise_of(run: RunData) -> Promise:
    """What a run has to keep."""
    runtime = run.runtime
    beyond = any(
        queue.asked is not None and not queue.link.endswith("→island")
        for queue in run.network.qdiscs
    )
    return Promise(
        feasible=run.plan.feasible,
        asked=bool(runtime.impairments or runtime.events),
        wan=beyond or runtime.repair or bool(runtime.events),
        strict=runtime.on_fault == "fail" and bool(runtime.events),
    )


def lossy_part(run: RunData, drops: Mapping[str, int], legs: Legs) -> LossyPart:
    """Work out losses and recovery of a run; of a sound one everything is empty or zero.

    Parameters
    ----------
    run
        The run.
    drops
        Datagrams dropped, by place and reason.
    legs
        Datagrams sent and received.
    """
    network = run.network
    counted = run.plan.aggregation and not run.runtime.repair
    losses = link_losses(network, counted=counted)
    asked = {f"shaper {q.interface}" for q in network.qdiscs if q.asked is not None}
    faulty = {f"shaper {q.interface}": q.fault_drops for q in network.qdiscs if q.fault_drops}
    elsewhere = {
        place: count - faulty.get(place, 0)
        for place, count in drops.items()
        if place not in asked and count > faulty.get(place, 0)
    }
    recovery = measure_recovery(run.trace, run.counters.get("aggregator", {}), run.plan.scale)
    faults = loss_faults(network, counted=counted) + _unexplained(run, losses, legs)
    return LossyPart(
        lost=total_lost(losses)
        + sum(count for place, count in faulty.items() if place not in asked)
        + sum(n for place, n in elsewhere.items() if place.rpartition(": ")[2] not in MENDED),
        findings=check_faults(elsewhere, faults, run.faults, run.unrecorded),
        entries={
            "link_losses": [{**asdict(loss), "lost_percent": loss.lost_percent} for loss in losses],
            "recovery": asdict(recovery),
            "unread_datagrams": unread(network) if asked else 0,
            "unrecorded": list(run.unrecorded),
            "counted_until_ms": {
                stem: until_ns / NS_PER_MS for stem, until_ns in run.counted_until_ns.items()
            },
        },
    )


def _unexplained(run: RunData, losses: Sequence[LinkLoss], legs: Legs) -> list[str]:
    """Datagrams that miss where the trees end, and for which no loss on the way accounts."""
    missing = legs.network_sent - legs.network_received
    lost = {loss.link: loss.lost for loss in losses if not loss.link.endswith("→island")}
    if not run.plan.aggregation:
        lost = {loss.link: loss.lost for loss in losses}
    most = explained_losses(run.plan, lost)
    # Who was killed has not told what it got; trees and rules that changed know other links.
    if missing <= most or any(f.event != "loss-burst" for f in run.faults):
        return []
    return [f"{missing} datagrams miss at the ends of the trees, losses explain at most {most}"]

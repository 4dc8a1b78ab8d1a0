"""Whether the numbers of a run should be believed: named findings, one verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.plan import Plan
from experiments.accounting import Delivery
from experiments.counters import SumChecks
from experiments.decay import Decay
from experiments.incarnations import FaultRecord
from experiments.network_record import NetworkRecord, QdiscRecord
from experiments.units import format_bytes
from testbed.findings import Finding, Level
from testbed.shaping import Shape, shape_difference, shape_for

LINK_TOLERANCE = 1e-4
MENDED = ("duplicate", "overlap", "round", "epoch", "no such port")
"""Reasons for dropping a datagram that follow from losses, copies and restarts asked for."""
STRAY_BYTES = 1_000
"""Scaled bytes per link beside the streams: a last block is cut to whole elements."""


@dataclass(frozen=True)
class RoundTime:
    """Planned and measured time of one round of the run."""

    round: int
    planned_ms: float
    measured_ms: float | None
    """None if no island received anything."""

    @property
    def error_percent(self) -> float | None:
        """Measured against planned, signed."""
        if self.measured_ms is None:
            return None
        return 100.0 * (self.measured_ms - self.planned_ms) / self.planned_ms


@dataclass(frozen=True)
class Promise:
    """What a run has to keep: that of its plan, or, with faults that it asked for, less."""

    feasible: bool
    """The planner promises T and the memory."""
    asked: bool = False
    """Links were impaired, or events happened, because the config says so."""
    wan: bool = False
    """Faults reach the links between the cities, so that their loads differ."""
    strict: bool = False
    """The config wants no round spoilt, whatever happens."""

    @property
    def price(self) -> Level:
        """What it costs if something did not come."""
        return "FAIL" if self.strict or (self.feasible and not self.asked) else "DEGRADED"


def check_plan(plan: Plan) -> list[Finding]:
    """Recall that a run was forced against the planner's advice."""
    if plan.feasible:
        return []
    return [Finding("DEGRADED", f"the planner calls this infeasible: {plan.reason}")]


def check_times(
    times: Sequence[RoundTime], promise: Promise, tolerance_percent: float
) -> list[Finding]:
    """Compare each round's measured T with its plan.

    Recovery from asked faults may take longer; and what never came because of them
    leaves T shorter, as it may where a plan was refused and promises no T.
    """
    findings = []
    for time in times:
        error = time.error_percent
        if error is None:
            text = f"round {time.round}: nothing arrived at any island"
            findings.append(Finding(promise.price, text))
        elif abs(error) > tolerance_percent and not (promise.asked and error > 0):
            text = (
                f"round {time.round}: T measured {time.measured_ms:.2f} ms, planned "
                f"{time.planned_ms:.2f} ms ({error:+.2f} %, allowed ±{tolerance_percent:g} %)"
            )
            findings.append(Finding(promise.price, text))
    return findings


def check_sums(
    sums: SumChecks,
    delivery: Delivery,
    partial: dict[str, int],
    stale: dict[str, int],
    promise: Promise,
) -> list[Finding]:
    """Check that every island holds the true sum of every block."""
    # What never came, or came too late, is the expected price of a forced run, or of an
    # asked fault; a wrong sum is not.
    price = promise.price
    behind = f"parameter rows kept an older state, their sums were late ({', '.join(stale)})"
    causes = ", ".join(f"{name} {count}" for name, count in sorted(partial.items()))
    # Where faults were asked for, what comes twice is dropped, and partial sums meet again.
    mended = promise.asked and not sums.incomplete
    faults: tuple[tuple[int, Level, str], ...] = (
        (sum(stale.values()), price, behind),
        (sums.wrong, "FAIL", "block sums are wrong"),
        (sums.stale, price, "block sums have an older state in them"),
        (sums.incomplete, price, "block sums were never complete"),
        (delivery.missing, price, "contributions never reached their island"),
        (delivery.foreign, "FAIL", "contributions came from outside the clique"),
        (0 if promise.asked else delivery.twice, "DEGRADED", "contributions came twice"),
        (
            0 if mended else sum(partial.values()),
            "DEGRADED",
            f"blocks left an aggregator as partial sums ({causes})",
        ),
    )
    return [Finding(level, f"{count} {what}") for count, level, what in faults if count]


def check_decay(decay: Decay, promise: Promise, *, excused: bool) -> list[Finding]:
    """Compare the islands' parameter vectors with exact averaging of their start vectors.

    ``excused``: some island was late, or died, so that they may differ.
    """
    over = decay.deviation > decay.bound
    if not over.any():
        return []
    k = int(np.argmax(over))
    text = (
        f"after {k} rounds the parameter vectors are {decay.deviation[k]:.3g} of their start "
        f"away from exact averages, rounding explains {decay.bound[k]:.3g}"
    )
    return [Finding(promise.price if excused else "FAIL", text)]


def check_losses(lost: int, drops: dict[str, int], plan: Plan) -> list[Finding]:
    """Name the place where every lost datagram was dropped."""
    where = ", ".join(f"{place} {count}" for place, count in sorted(drops.items()))
    findings = []
    if lost > 0 and (plan.feasible or not drops):
        findings.append(Finding("FAIL", f"{lost} datagrams lost ({where or 'place unknown'})"))
    elif lost > 0:
        findings.append(Finding("DEGRADED", f"{lost} datagrams lost ({where})"))
    elif drops:
        findings.append(Finding("DEGRADED", f"drops outside the streams: {where}"))
    return findings


def check_faults(
    drops: dict[str, int],
    link_faults: Sequence[str],
    faults: Sequence[FaultRecord],
    unrecorded: Sequence[str],
) -> list[Finding]:
    """Check that a run with asked faults had those, and lost nothing else.

    Parameters
    ----------
    drops
        Datagrams dropped by place, without those that links were asked to lose.
    link_faults
        What impaired links did beside that.
    faults
        Faults at given times, and what came of them.
    unrecorded
        Agents that were killed before they could write anything down.
    """
    findings = [Finding("FAIL", text) for text in link_faults]
    where = {p: n for p, n in drops.items() if p.rpartition(": ")[2] not in MENDED}
    if where:
        text = ", ".join(f"{place} {count}" for place, count in sorted(where.items()))
        level: Level = "DEGRADED" if faults else "FAIL"
        findings.append(Finding(level, f"datagrams were dropped that were not asked for: {text}"))
    for fault in (f for f in faults if f.happened_ns is None):
        text = f"{fault.event} {fault.target} at {fault.at_ns / 1e6:g} ms: the run was over by then"
        findings.append(Finding("DEGRADED", text))
    if unrecorded:
        names = ", ".join(unrecorded)
        text = f"killed before it wrote anything down: {names}"
        findings.append(Finding("DEGRADED", text))
    return findings


def check_shapers(network: NetworkRecord, plan: Plan, mtu_bytes: int) -> list[Finding]:
    """Compare every shaper, as it was after the rounds, with what was asked for."""
    findings = [
        Finding("FAIL", f"shaper of {q.interface}: {problem}")
        for q in network.qdiscs
        if (problem := _mismatch(q, plan, mtu_bytes))
    ]
    shaped = {q.edge for q in network.qdiscs}
    missing = [e for e in plan.topology.edges if e.index not in shaped]
    findings += [Finding("FAIL", f"link {e.src}-{e.dst} was not read back") for e in missing]
    return findings


def check_links(loads: Sequence[dict[str, Any]], plan: Plan, promise: Promise) -> list[Finding]:
    """Compare the bytes on every link with the plan: a wrong tree shows here first."""
    findings: list[Finding] = []
    if promise.wan:
        return findings
    for load in loads:
        planned, measured = load["bytes_planned"], load["bytes_measured"]
        if abs(measured - planned) > LINK_TOLERANCE * planned + STRAY_BYTES * plan.scale:
            text = (
                f"link {load['link']} carried {format_bytes(measured, 4)}, "
                f"planned {format_bytes(planned, 4)}"
            )
            findings.append(Finding("FAIL", text))
    return findings


def _mismatch(qdisc: QdiscRecord, plan: Plan, mtu_bytes: int) -> str:
    """How a shaper differs from the plan; empty if it does not."""
    if qdisc.kind != "netem":
        return f"it is {qdisc.kind}, not netem"
    if qdisc.backlog:
        return f"{qdisc.backlog} bytes are still queued"
    if qdisc.edge is None:
        code = qdisc.node.rsplit("-", 1)[-1]
        city = plan.topology.cities[plan.topology.index(code)]
        asked = shape_for(0.0, city.access_rate_gbps, plan.scale, mtu_bytes)
    else:
        edge = plan.topology.edges[qdisc.edge]
        asked = shape_for(edge.delay_ms, edge.rate_gbps, plan.scale, mtu_bytes)
    return shape_difference(asked, Shape(qdisc.delay_ns, qdisc.rate_bps // 8, qdisc.limit))

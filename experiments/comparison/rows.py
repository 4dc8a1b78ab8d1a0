"""One row of the comparison: what was planned, and what packets measured."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from controller.plan import Plan
from experiments.comparison.cases import Case, Group
from experiments.decay import start_lifetime
from experiments.planjson import busiest_link, memory_needed_bytes

Source = Literal["ran", "reused", "refused", "failed"]
"""Where the measured figures come from; ``refused``: by the planner, ``failed``: the run did."""

NOT_RUN = "not run"
ERROR = "ERROR"


@dataclass(frozen=True)
class Row:
    """One experiment, planned and measured.

    All figures are those of the network that is emulated; measured ones are
    ``None`` where there are none, and so is a disagreement lifetime that is
    infinite. Bytes of islands are per round, the mean over the islands that
    take part. ``reason`` says why there is no result that can be trusted.

    ``a_rms`` is the plan's A, the mean over the rounds to start from;
    ``a_start`` that of a start before round 0, as in a run. ``a_measured`` is
    the sum of the run's survival curve, ``a_seen``, and of what its last vectors
    would add to it under further exact averaging.
    """

    group: Group
    schedule: str
    memory_bytes: float
    multicast: bool
    aggregation: bool
    payload_bytes: float
    rounds: int
    trees: str
    feasible: bool
    reason: str
    t_planned_ms: float
    t_measured_ms: float | None
    t_error_percent: float | None
    a_rms: float | None
    a_start: float | None
    a_measured: float | None
    a_seen: float | None
    objective_planned_ms: float | None
    objective_ms: float | None
    island_out_bytes: float | None
    island_in_bytes: float | None
    busiest_link: str
    busiest_link_streams: int
    memory_needed_bytes: float
    memory_high_water_bytes: float | None
    packets_lost: int | None
    verdict: str
    run_id: str
    source: Source

    def as_dict(self) -> dict[str, Any]:
        """All fields by name, in order."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = tuple(field.name for field in fields(Row))


def make_row(
    case: Case,
    plan: Plan,
    summary: Mapping[str, Any] | None,
    *,
    source: Source,
    error: str = "",
) -> Row:
    """Put plan and summary of a case into a row.

    Parameters
    ----------
    case, plan
        What was planned.
    summary
        Of its run; ``None`` if there is none.
    source
        Where the summary comes from, or why there is none.
    error
        Why the run failed.
    """
    prediction = plan.prediction
    links = [busiest_link(plan, k) for k in range(len(plan.period))]
    measured = summary or {}
    moved = _per_round(measured, plan)
    return Row(
        group=case.group,
        schedule=case.config.schedule_name,
        memory_bytes=plan.memory_bytes,
        multicast=plan.multicast,
        aggregation=plan.aggregation,
        payload_bytes=plan.payload_bytes,
        rounds=plan.rounds,
        trees=plan.trees,
        feasible=plan.feasible,
        reason=plan.reason or error or _complaint(measured),
        t_planned_ms=prediction.t_ms,
        t_measured_ms=measured.get("t_measured_ms"),
        t_error_percent=measured.get("t_error_percent"),
        a_rms=prediction.a_rms,
        a_start=start_lifetime(plan),
        a_measured=measured.get("a_rms_measured"),
        a_seen=_seen(measured),
        objective_planned_ms=prediction.objective_ms,
        objective_ms=measured.get("objective_ms"),
        island_out_bytes=moved[0],
        island_in_bytes=moved[1],
        busiest_link=max(links, key=lambda link: link[1])[0],
        busiest_link_streams=prediction.busiest_link_streams,
        memory_needed_bytes=memory_needed_bytes(plan),
        memory_high_water_bytes=measured.get("memory_high_water_bytes"),
        packets_lost=measured.get("packets_lost"),
        verdict=measured.get("verdict", ERROR if source == "failed" else NOT_RUN),
        run_id=measured.get("run_id", ""),
        source=source,
    )


def _seen(summary: Mapping[str, Any]) -> float | None:
    """The part of A that the run's own rounds showed."""
    curve = summary.get("survival_measured")
    return None if curve is None else float(sum(curve))


def _complaint(summary: Mapping[str, Any]) -> str:
    """What a run that did not pass is blamed for first; empty for one that passed."""
    reasons = summary.get("reasons", ())
    return str(reasons[0]) if reasons and summary["verdict"] != "PASS" else ""


def _per_round(summary: Mapping[str, Any], plan: Plan) -> tuple[float | None, float | None]:
    """Bytes out of and into an island, over the rounds in which it takes part."""
    if "islands" not in summary:
        return None, None
    turns = sum(len(plan.round(k).streams) for k in range(plan.rounds))
    islands = summary["islands"].values()
    return (
        sum(island["egress_bytes"] for island in islands) / turns,
        sum(island["ingress_bytes"] for island in islands) / turns,
    )

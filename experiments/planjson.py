"""A plan as one flat JSON object, for programs that call `make plan` or `make optimize`."""

from typing import Any

from controller.plan import Plan, RoundPlan


def plan_object(plan: Plan) -> dict[str, Any]:
    """Figures of a plan; unscaled, times in ms, ``None`` for what is infinite.

    Returns
    -------
    dict
        At least ``schedule``, ``feasible``, ``reason``, ``t_ms``, ``a_rms``,
        ``objective_ms`` and ``busiest_link_streams``; one object per round of
        the period in ``rounds``.
    """
    prediction = plan.prediction
    return {
        "schedule": plan.schedule,
        "topology": plan.topology.name,
        "feasible": plan.feasible,
        "reason": plan.reason,
        "t_ms": prediction.t_ms,
        "a_rms": prediction.a_rms,
        "a_var": prediction.a_var,
        "a_tv": prediction.a_tv,
        "a_reach": prediction.a_reach,
        "contraction": prediction.contraction,
        "objective_ms": prediction.objective_ms,
        "busiest_link": max(
            (busiest_link(plan, k) for k in range(len(plan.period))), key=lambda link: link[1]
        )[0],
        "busiest_link_streams": prediction.busiest_link_streams,
        "payload_bytes": plan.payload_bytes,
        "memory_bytes": plan.memory_bytes,
        "memory_needed_bytes": memory_needed_bytes(plan),
        "scale": plan.scale,
        "multicast": plan.multicast,
        "aggregation": plan.aggregation,
        "trees": plan.trees,
        "rounds": [_round_object(plan, k, planned) for k, planned in enumerate(plan.period)],
    }


def memory_needed_bytes(plan: Plan) -> float:
    """Most that any city's memory holds in any round, as planned."""
    return max((held for r in plan.period for held in r.held_bytes.values()), default=0.0)


def busiest_link(plan: Plan, k: int) -> tuple[str, int]:
    """Name and stream copies of the busiest directed link of round ``k``; the first of equals."""
    copies = plan.period[k].edge_streams
    if not copies:
        return "", 0
    edge, count = max(copies.items(), key=lambda item: (item[1], -item[0]))
    return f"{plan.topology.edges[edge].src}-{plan.topology.edges[edge].dst}", count


def _round_object(plan: Plan, k: int, planned: RoundPlan) -> dict[str, Any]:
    link, count = busiest_link(plan, k)
    return {
        "round": k,
        "t_ms": planned.t_ms,
        "cliques": [list(clique) for clique in planned.cliques],
        "offsets_ms": {s.sender: s.offset_ms for s in planned.streams},
        "rates_gbps": {s.sender: s.rate_gbps for s in planned.streams},
        "busiest_link": link,
        "busiest_link_streams": count,
    }

"""An independent check of a plan: bytes over time, apart from the program that made it.

It reads nothing but the plan. Delays are added up again from the edges, bytes
in flight are followed as exact piecewise-linear functions of time, and what a
link, an access link or a memory sees is compared with what it can take.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from controller.multicast import check_tree
from controller.plan import Plan, RoundPlan, Stream

Flow: TypeAlias = tuple[float, float, float]
"""Start in ms, end in ms, rate in Gbit/s."""

# The solver's own tolerance, and the rounding of sums.
_SLACK_MS = 1e-5
_SLACK_SHARE = 1e-6


def check_plan(plan: Plan) -> list[str]:
    """Find everything in a plan that would not work as it claims.

    Parameters
    ----------
    plan
        Any plan; one that is not feasible should show why.

    Returns
    -------
    list of str
        One sentence per fault; empty for a plan that holds.
    """
    faults: list[str] = []
    for number, planned in enumerate(plan.period):
        # Bytes can only be followed along ways that exist.
        found = [*_check_members(plan, planned), *_check_ways(plan, planned)] or [
            *_check_times(plan, planned),
            *_check_links(plan, planned),
            *_check_memory(plan, planned),
        ]
        faults.extend(f"round {number}: {fault}" for fault in found)
    slowest_ms = max(planned.t_ms for planned in plan.period)
    if abs(plan.prediction.t_ms - slowest_ms) > _SLACK_MS:
        faults.append(f"T is {plan.prediction.t_ms} ms, the slowest round {slowest_ms} ms")
    if plan.round_interval_ms <= slowest_ms:
        faults.append("the next round starts before the slowest round ends")
    faults.extend(_check_unicast(plan))
    return faults


def _check_members(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """Cliques are disjoint, and each member sends to all others of its clique."""
    counts = Counter(code for clique in planned.cliques for code in clique)
    for code, count in counts.items():
        if code not in plan.topology.codes:
            yield f"{code} is not a city"
        if count > 1:
            yield f"{code} is in {count} cliques"
    senders = Counter(stream.sender for stream in planned.streams)
    if senders != Counter(dict.fromkeys(counts, 1)):
        yield "the senders are not exactly the members of the cliques"
    for stream in planned.streams:
        inside = 0 <= stream.clique < len(planned.cliques)
        clique = set(planned.cliques[stream.clique]) if inside else set()
        if Counter(stream.receivers) != Counter(clique - {stream.sender}):
            yield f"{stream.sender} does not send to exactly the rest of its clique"


def _check_ways(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """Paths lead from sender to receiver, along the tree or the next-hop table."""
    copies: Counter[int] = Counter()
    for stream in planned.streams:
        if plan.multicast:
            yield from check_tree(plan.topology, stream.sender, stream.edges, stream.receivers)
            copies.update(stream.edges)
        elif stream.edges:
            yield f"{stream.sender} has a tree although multicast is off"
        if not set(stream.paths) == set(stream.delays_ms) == set(stream.receivers):
            yield f"{stream.sender} does not have one path and delay for each receiver"
            continue
        for receiver, path in stream.paths.items():
            yield from _check_path(plan, stream, receiver, path)
            if not plan.multicast:
                copies.update(path)
    if copies != Counter(planned.edge_streams):
        yield "the number of stream copies on some edge is wrong"


def _check_path(plan: Plan, stream: Stream, receiver: str, path: Sequence[int]) -> Iterator[str]:
    """One path: connected, with the stated delay, where packets really go."""
    edges = [plan.topology.edges[index] for index in path]
    way = f"the path {stream.sender}–{receiver}"
    stops = [stream.sender, *(edge.dst for edge in edges)]
    if stops[-1] != receiver or [edge.src for edge in edges] != stops[:-1]:
        yield f"{way} does not connect them"
    if abs(sum(edge.delay_ms for edge in edges) - stream.delays_ms[receiver]) > _SLACK_MS:
        yield f"{way} has another delay than stated"
    if plan.multicast and not set(path) <= set(stream.edges):
        yield f"{way} leaves the tree"
    if not plan.multicast:
        hops = [plan.unicast[receiver].get(stop) for stop in stops[:-1]]
        if hops != list(path):
            yield f"{way} is not the way of the next-hop table"


def _check_times(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """Each stream carries its payload, and the last byte arrives at T."""
    last_ms = 0.0
    for stream in planned.streams:
        carried = stream.rate_gbps * stream.duration_ms * 1e6 / 8
        if abs(carried - plan.payload_bytes) > _SLACK_SHARE * plan.payload_bytes:
            yield f"{stream.sender} sends {carried:.0f} bytes, not its payload"
        last_ms = max(
            last_ms, stream.offset_ms + max(stream.delays_ms.values()) + stream.duration_ms
        )
    if abs(last_ms - planned.t_ms) > _SLACK_MS:
        yield f"the last byte arrives at {last_ms:.6f} ms, T is {planned.t_ms:.6f} ms"


def _check_links(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """No link direction and no access link ever carries more than it can."""
    links: defaultdict[int, list[Flow]] = defaultdict(list)
    egress: defaultdict[str, list[Flow]] = defaultdict(list)
    ingress: defaultdict[str, list[Flow]] = defaultdict(list)
    for stream in planned.streams:
        seen: set[int] = set()
        copies = 1 if plan.multicast else len(stream.receivers)
        egress[stream.sender].extend([_flow(stream, 0.0)] * copies)
        for receiver, path in stream.paths.items():
            ingress[receiver].append(_flow(stream, stream.delays_ms[receiver]))
            behind_ms = 0.0
            for index in path:
                if not plan.multicast or index not in seen:
                    links[index].append(_flow(stream, behind_ms))
                seen.add(index)
                behind_ms += plan.topology.edges[index].delay_ms
    for index, flows in links.items():
        edge = plan.topology.edges[index]
        yield from _overload(f"the link {edge.src}–{edge.dst}", edge.rate_gbps, flows)
    for code, flows in egress.items():
        city = plan.topology.cities[plan.topology.index(code)]
        yield from _overload(f"the way out of {code}", city.access_rate_gbps, flows)
    for code, flows in ingress.items():
        city = plan.topology.cities[plan.topology.index(code)]
        # Sums leave the aggregator as the trailing stream completes them.
        entering = [max(flows, key=lambda flow: flow[1])] if plan.aggregation else flows
        yield from _overload(f"the way into {code}", city.access_rate_gbps, entering)


def _flow(stream: Stream, behind_ms: float) -> Flow:
    start_ms = stream.offset_ms + behind_ms
    return (start_ms, start_ms + stream.duration_ms, stream.rate_gbps)


def _overload(where: str, rate_gbps: float, flows: Sequence[Flow]) -> Iterator[str]:
    """Sum up the rates at the start of each flow, where the sum has its peaks."""
    peak_gbps = max(
        sum(rate for start, end, rate in flows if start <= moment + _SLACK_MS < end)
        for moment, _, _ in flows
    )
    if peak_gbps > rate_gbps * (1 + _SLACK_SHARE):
        yield f"{where} carries {peak_gbps:.3f} Gbit/s of {rate_gbps:g}"


def _check_memory(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """What each aggregator holds: what its leading stream brought and a trailing one did not.

    Between two moments at which some stream starts or ends, the leading amount
    is convex in time and the trailing one concave, so the difference peaks at
    such a moment.
    """
    if not plan.aggregation:
        return
    arriving: defaultdict[str, list[Flow]] = defaultdict(list)
    for stream in planned.streams:
        for receiver in stream.receivers:
            arriving[receiver].append(_flow(stream, stream.delays_ms[receiver]))
    for code, flows in arriving.items():
        starts, ends, rates = np.array(flows).T
        moments = np.concatenate([starts, ends])[:, None]
        lasting = np.clip(moments - starts, 0.0, ends - starts)
        arrived_bytes = lasting * rates * 1e6 / 8
        held_bytes = float((arrived_bytes.max(axis=1) - arrived_bytes.min(axis=1)).max())
        slack_bytes = _SLACK_MS * float(rates.max()) * 1e6 / 8
        if held_bytes > plan.memory_bytes + slack_bytes:
            yield f"{code} holds {held_bytes:.0f} bytes in a memory of {plan.memory_bytes:.0f}"
        if abs(held_bytes - planned.held_bytes[code]) > slack_bytes:
            predicted = planned.held_bytes[code]
            yield f"{code} holds {held_bytes:.0f} bytes, predicted {predicted:.0f}"


def _check_unicast(plan: Plan) -> Iterator[str]:
    """Following next hops leads from every city to every other one."""
    codes = plan.topology.codes
    for dst in codes:
        for src in codes:
            city = src
            for _ in codes:
                if city == dst:
                    break
                city = plan.topology.edges[plan.unicast[dst][city]].dst
            if city != dst:
                yield f"next hops from {src} do not lead to {dst}"

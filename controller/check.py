"""An independent check of a plan: bytes over time, apart from the program that made it.

It reads nothing but the plan. Delays are added up again from the edges, ways are
walked from their senders, and `controller.checkflows` follows the bytes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from controller.checkflows import (
    SLACK_MS,
    check_links,
    check_memory,
    check_payloads,
    check_times,
)
from controller.checkqueues import check_queues
from controller.multicast import check_tree, check_walks
from controller.plan import Plan, RoundPlan, Stream


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
        found = [*_check_members(plan, planned), *_check_ways(plan, planned)]
        if not found and planned.queued:
            found = [*check_payloads(planned, plan.payload_bytes), *check_queues(plan, planned)]
        elif not found:
            found = [
                *check_payloads(planned, plan.payload_bytes),
                *check_times(planned),
                *check_links(plan, planned),
                *check_memory(plan, planned),
            ]
        faults.extend(f"round {number}: {fault}" for fault in found)
    slowest_ms = max(planned.t_ms for planned in plan.period)
    if abs(plan.prediction.t_ms - slowest_ms) > SLACK_MS:
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
            if stream.hub is None:
                yield from check_tree(plan.topology, stream.sender, stream.edges, stream.receivers)
            else:
                yield from check_walks(stream.sender, stream.edges, stream.paths)
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
    if abs(sum(edge.delay_ms for edge in edges) - stream.delays_ms[receiver]) > SLACK_MS:
        yield f"{way} has another delay than stated"
    if stream.hub is not None and stream.hub not in stops:
        yield f"{way} does not pass the hub {stream.hub}"
    if plan.multicast and not set(path) <= set(stream.edges):
        yield f"{way} leaves the tree"
    if not plan.multicast:
        hops = [plan.unicast[receiver].get(stop) for stop in stops[:-1]]
        if hops != list(path):
            yield f"{way} is not the way of the next-hop table"


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

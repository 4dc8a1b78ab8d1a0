"""A lower bound of the round time that no choice of trees can beat, for any size of network.

Ours, for streams of one common rate. Every stream of which some receiver lies
in a set of cities and whose sender does not must enter the set at least once.
If n streams do and the links into the set carry C in all, the duration is at
least n P / C, and on equal links at least ⌈n / links⌉ P / C_e. T is at least
that plus the largest of the shortest delays.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from controller.demand import Demand
from controller.multicast import link_time_ms
from testbed.routing import Routing
from testbed.topology import Topology


def lower_bound_ms(routing: Routing, cliques: Sequence[Sequence[int]], demand: Demand) -> float:
    """Bound T of a round from below, in ms.

    Parameters
    ----------
    routing
        Shortest paths of the network.
    cliques
        Disjoint cliques of city indices.
    demand
        Payload and rules.
    """
    topology = routing.topology
    delays_ms = routing.delays_ms()
    farthest_ms = max(
        float(delays_ms[sender, city])
        for clique in cliques
        for sender in clique
        for city in clique
        if sender != city
    )
    duration_ms = access_duration_ms(topology, cliques, demand)
    sets = {frozenset(found) for found in _candidate_sets(topology, delays_ms)}
    ends = [(topology.index(e.src), topology.index(e.dst), e.rate_gbps) for e in topology.edges]
    for cities in sets:
        entering = [rate for src, dst, rate in ends if dst in cities and src not in cities]
        streams = 0
        for clique in cliques:
            inside = sum(city in cities for city in clique)
            copies = 1 if demand.multicast else inside
            streams += copies * (len(clique) - inside) if inside else 0
        if streams and entering:
            duration_ms = max(duration_ms, _crossing_ms(streams, entering, demand.payload_bytes))
    return farthest_ms + duration_ms


def access_duration_ms(
    topology: Topology, cliques: Sequence[Sequence[int]], demand: Demand
) -> float:
    """Shortest common duration that the access links allow, in ms."""
    most = 0.0
    for clique in cliques:
        out = 1 if demand.multicast else len(clique) - 1
        into = 1 if demand.aggregation else len(clique) - 1
        for city in clique:
            access_gbps = topology.cities[city].access_rate_gbps
            most = max(most, max(out, into) * link_time_ms(demand.payload_bytes, access_gbps))
    return most


def _crossing_ms(streams: int, entering: Sequence[float], payload_bytes: float) -> float:
    if len(set(entering)) == 1:
        whole = math.ceil(streams / len(entering))
        return whole * link_time_ms(payload_bytes, entering[0])
    return streams * link_time_ms(payload_bytes, sum(entering))


def _candidate_sets(
    topology: Topology, delays_ms: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> Iterator[list[int]]:
    """Sets that may be hard to enter: balls around each city, regions, all but a ball."""
    count = len(topology.cities)
    for city in range(count):
        ball = np.argsort(delays_ms[city] + delays_ms[:, city], kind="stable")
        for size in range(1, count):
            yield [int(other) for other in ball[:size]]
            yield [int(other) for other in ball[size:]]
    for region in {city.region for city in topology.cities}:
        inside = [i for i, city in enumerate(topology.cities) if city.region == region]
        if len(inside) < count:
            yield inside
            yield [i for i in range(count) if i not in inside]

"""Least round time of given trees: a linear program over offsets and a duration.

Ours, consistent with the paper's feasibility rule (the last byte arrives within
T, and what is held between the first and the last arrival of a weight fits the
memory). All streams of a round run at one constant rate, so they share one
duration D = P / rate. Sender j starts at t_j ≥ 0; its stream reaches receiver i
from t_j + d_ji on.

- completion: t_j + d_ji + D ≤ T;
- links: (copies on e) · P / C_e ≤ D, also for both directions of the access
  link: N−1 copies leave it without multicast, N−1 streams enter it without
  aggregation, one otherwise;
- memory M, accumulate on arrival: at any time a receiver holds what its leading
  stream has brought and its trailing one has not. At equal rates both ends give
  the same condition: max_j(t_j + d_ji) − min_j(t_j + d_ji) ≤ M/P · D, and none
  at all once M ≥ P, because then a whole payload can wait.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.multicast import Tree, edge_copies, link_time_ms
from controller.offsets import DIGITS, TIE_BREAK, OffsetProgram, arrival_spreads_ms, least_spread
from testbed.topology import Topology

# To fit the memory, streams may slow down; to more than this times the delays
# and link times of the round it is no plan.
_MAX_SLOWDOWN = 1000.0


@dataclass(frozen=True)
class Shortfall:
    """Which receiver lacks how much memory.

    Attributes
    ----------
    receiver
        City index of the worst one.
    spread_ms
        Between the starts of its leading and its trailing stream, at best.
    needed_bytes, missing_bytes
        Memory for that at the round's rate, and what is missing of it.
    """

    receiver: int
    spread_ms: float
    needed_bytes: float
    missing_bytes: float


@dataclass(frozen=True)
class RoundTiming:
    """When each stream of a round starts and how long it takes.

    Attributes
    ----------
    t_ms
        Round time.
    duration_ms
        Of every stream.
    offsets_ms
        Sender to its start within the round.
    held_bytes
        Receiver to the largest amount that it holds.
    shortfall
        Why the round is not feasible, or ``None``. The other figures then
        belong to the offsets that need the least memory.
    """

    t_ms: float
    duration_ms: float
    offsets_ms: Mapping[int, float]
    held_bytes: Mapping[int, float]
    shortfall: Shortfall | None


def time_round(
    topology: Topology,
    trees: Sequence[Tree],
    *,
    payload_bytes: float,
    memory_bytes: float,
    multicast: bool,
    aggregation: bool,
) -> RoundTiming:
    """Find the least round time, or what keeps the round from being feasible.

    Parameters
    ----------
    topology
        The network.
    trees
        One per sender of the round.
    payload_bytes, memory_bytes
        Bytes of one stream on the wire, and of one city's memory.
    multicast, aggregation
        Whether the network copies, and whether it adds up.

    Raises
    ------
    CliquenetError
        The solver failed on a program that has a solution.
    """
    least_ms = least_duration_ms(
        topology, trees, payload_bytes, multicast=multicast, aggregation=aggregation
    )
    binding = aggregation and memory_bytes < payload_bytes
    share = memory_bytes / payload_bytes if binding else None
    solution = _least_t(trees, least_ms, share)
    if solution is not None:
        offsets_ms, duration_ms = solution
    else:
        offsets_ms, duration_ms = least_spread(trees)[1], least_ms
    rate_bytes_per_ms = payload_bytes / duration_ms
    spreads_ms = arrival_spreads_ms(trees, offsets_ms) if aggregation else {}
    receivers = [city for tree in trees for city in tree.receivers]
    held_bytes = {
        city: min(spreads_ms.get(city, 0.0) * rate_bytes_per_ms, payload_bytes)
        for city in sorted(set(receivers))
    }
    shortfall = None
    if solution is None:
        worst = max(spreads_ms, key=lambda city: (round(spreads_ms[city], 6), -city))
        needed = held_bytes[worst]
        shortfall = Shortfall(worst, spreads_ms[worst], needed, needed - memory_bytes)
    last_ms = max(offsets_ms[tree.sender] + max(tree.delays_ms.values()) for tree in trees)
    return RoundTiming(last_ms + duration_ms, duration_ms, offsets_ms, held_bytes, shortfall)


def least_duration_ms(
    topology: Topology,
    trees: Sequence[Tree],
    payload_bytes: float,
    *,
    multicast: bool,
    aggregation: bool,
) -> float:
    """Shortest common duration that no link forbids, in ms."""
    copies = edge_copies(trees, multicast=multicast)
    times = [
        count * link_time_ms(payload_bytes, topology.edges[edge].rate_gbps)
        for edge, count in copies.items()
    ]
    incoming: dict[int, int] = {}
    for tree in trees:
        out = 1 if multicast else len(tree.receivers)
        access_gbps = topology.cities[tree.sender].access_rate_gbps
        times.append(out * link_time_ms(payload_bytes, access_gbps))
        for city in tree.receivers:
            incoming[city] = 1 if aggregation else incoming.get(city, 0) + 1
    for city, streams in incoming.items():
        access_gbps = topology.cities[city].access_rate_gbps
        times.append(streams * link_time_ms(payload_bytes, access_gbps))
    return max(times)


def lemma_offsets(
    delays_ms: Sequence[Sequence[float]], clique: Sequence[int]
) -> tuple[dict[int, float], float]:
    """Offsets that align a triple without memory, in closed form (ours).

    With symmetric delays all streams of a clique can arrive together at each
    receiver if and only if d_ij = a_i + a_j. For three cities
    a_a = (d_ab + d_ac − d_bc) / 2 always does it; the offsets are
    t_a = max(a) − a_a, and the last stream starts to arrive at
    longest + middle − shortest.

    Parameters
    ----------
    delays_ms
        Symmetric one-way delays by city index.
    clique
        Three city indices.

    Returns
    -------
    offsets_ms : dict
        City index to its offset.
    latency_ms : float
        Largest offset + delay: the latency part of T.
    """
    a, b, c = clique
    ab, ac, bc = delays_ms[a][b], delays_ms[a][c], delays_ms[b][c]
    shares = {a: (ab + ac - bc) / 2, b: (ab + bc - ac) / 2, c: (ac + bc - ab) / 2}
    latest = max(shares.values())
    edges = sorted((ab, ac, bc))
    offsets_ms = {city: latest - share for city, share in shares.items()}
    return offsets_ms, edges[2] + edges[1] - edges[0]


def _least_t(
    trees: Sequence[Tree], least_ms: float, share: float | None
) -> tuple[dict[int, float], float] | None:
    """Offsets and duration of the least T; ``None`` if the memory forbids all."""
    program = OffsetProgram(trees, extra=2)
    duration, t = program.extra, program.extra + 1
    for city in program.receivers:
        program.add({program.last[city]: 1.0, duration: 1.0, t: -1.0})
    if share is not None:
        program.bound_spread(share=share, column=duration)
    cost = np.zeros(program.size)
    cost[t] = 1.0
    cost[: program.senders] = TIE_BREAK / program.senders
    lower, upper = np.zeros(program.size), np.full(program.size, np.inf)
    longest_ms = max(max(tree.delays_ms.values()) for tree in trees)
    lower[duration] = least_ms
    upper[duration] = (least_ms + longest_ms) * _MAX_SLOWDOWN
    values = program.solve(cost, lower, upper)
    if values is None:
        return None
    return program.offsets_ms(values), max(round(float(values[duration]), DIGITS), least_ms)

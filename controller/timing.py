"""Least round time of given trees: offsets and durations by linear programs.

Ours, consistent with the paper's feasibility rule; the rows are in
`controller.rateprogram`. With one common rate the program is exact. With rates
of their own the rate a duration stands for, P / D, is convex: the program keeps
it above tangents, which gives a lower bound, and stretching the durations to
what the links really take gives a round that works; tangents are added until
the two agree.
"""

from collections.abc import Sequence

import numpy as np

from controller.demand import Demand
from controller.holding import held_bytes
from controller.linear import Solution, Vector
from controller.multicast import Tree, link_time_ms
from controller.offsets import DIGITS
from controller.rateprogram import Limit, RateProgram, kept_bytes, limits
from controller.roundtiming import RoundTiming, infeasible_timing, last_arrival_ms
from testbed.topology import Topology

GAP = 1e-3
"""Largest relative gap of T to its bound that is called exact enough."""

# To fit the memory, streams may slow down; to more than this times the delays
# and link times of the round it is no plan.
_MAX_SLOWDOWN = 1000.0
_WANTED_GAP = 5e-5
_MAX_TANGENTS = 25
# Tangents to start with lie so far apart that 1 / D is never off by 1 %.
_GRID = 1.2 ** np.arange(13)


def time_round(
    topology: Topology,
    trees: Sequence[Tree],
    *,
    payload_bytes: float,
    memory_bytes: float,
    multicast: bool,
    aggregation: bool,
    rates: str = "common",
    memory_model: str = "accumulate",
    resend_ms: float = 0.0,
) -> RoundTiming:
    """Find the least round time, or what keeps the round from being feasible.

    Parameters
    ----------
    topology
        The network.
    trees
        One per sender of the round.
    payload_bytes, memory_bytes, multicast, aggregation, rates, memory_model, resend_ms
        See `controller.demand.Demand`.

    Raises
    ------
    CliquenetError
        The solver failed on a program that has a solution.
    """
    demand = Demand(
        payload_bytes, memory_bytes, multicast, aggregation, rates, memory_model, resend_ms
    )
    return time_demand(topology, trees, demand)


def time_demand(topology: Topology, trees: Sequence[Tree], demand: Demand) -> RoundTiming:
    """Do what `time_round` does, for a `Demand`."""
    ways = limits(topology, trees, demand)
    least_ms = common_duration_ms(ways, demand.payload_bytes)
    common = _solve_common(trees, demand, ways, least_ms)
    if common is None:
        return infeasible_timing(trees, demand, least_ms, kept_bytes(ways, demand))
    if demand.rates == "common":
        return common
    own = _solve_own(trees, demand, ways, common)
    if own is None or own.t_ms >= common.t_ms:
        bound_ms = common.bound_ms if own is None else min(own.bound_ms, common.t_ms)
        return RoundTiming(**{**vars(common), "bound_ms": bound_ms})
    return own


def least_duration_ms(
    topology: Topology,
    trees: Sequence[Tree],
    payload_bytes: float,
    *,
    multicast: bool,
    aggregation: bool,
) -> float:
    """Shortest common duration that no link forbids, in ms."""
    demand = Demand(payload_bytes, 0.0, multicast, aggregation)
    return common_duration_ms(limits(topology, trees, demand), payload_bytes)


def common_duration_ms(ways: Sequence[Limit], payload_bytes: float) -> float:
    """Shortest common duration that no way forbids, in ms."""
    return max(
        sum(way.copies.values()) * link_time_ms(payload_bytes, way.rate_gbps) for way in ways
    )


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


def build_program(
    trees: Sequence[Tree], demand: Demand, ways: Sequence[Limit], *, common: bool
) -> RateProgram:
    """Set up the program of a round, with one duration for all streams or without.

    Rates of their own: one for each stream, but one for each clique where a
    binding memory is counted in a way that is linear at equal rates only.
    """
    alone_ms = [link_time_ms(demand.payload_bytes, way.rate_gbps) for way in ways]
    least_ms = common_duration_ms(ways, demand.payload_bytes) if common else min(alone_ms)
    most = max(len(tree.receivers) for tree in trees)
    fastest_gbps = max(way.rate_gbps for way in ways if way.kind == "in")
    binding = demand.memory_binds(most, fastest_gbps)
    if common:
        groups = dict.fromkeys((tree.sender for tree in trees), 0)
    elif binding and demand.memory_model == "hold":
        groups = {tree.sender: tree.clique for tree in trees}
    else:
        groups = {tree.sender: j for j, tree in enumerate(trees)}
    numbers = {group: i for i, group in enumerate(sorted(set(groups.values())))}
    groups = {sender: numbers[group] for sender, group in groups.items()}
    return RateProgram(trees, demand, ways, groups, least_ms, binding=binding)


def _longest_ms(trees: Sequence[Tree], least_ms: float) -> float:
    """Find the duration beyond which slowing down is no plan."""
    return (least_ms + max(max(tree.delays_ms.values()) for tree in trees)) * _MAX_SLOWDOWN


def _solve_common(
    trees: Sequence[Tree], demand: Demand, ways: Sequence[Limit], least_ms: float
) -> RoundTiming | None:
    """One duration; ``None`` if the memory forbids all."""
    program = build_program(trees, demand, ways, common=True)
    box = np.array([least_ms]), np.array([_longest_ms(trees, least_ms)])
    found = program.solve(*box, tie_break=True)
    if found is None:
        return None
    durations_ms = np.maximum(np.round(program.durations_ms(found), DIGITS), least_ms)
    return _timing(program, found, durations_ms, None)


def _solve_own(
    trees: Sequence[Tree], demand: Demand, ways: Sequence[Limit], common: RoundTiming
) -> RoundTiming | None:
    """Durations of their own, to within the gap; ``None`` if the memory forbids all."""
    program = build_program(trees, demand, ways, common=False)
    size = program.count
    box = np.full(size, program.unit_ms), np.full(size, _longest_ms(trees, common.duration_ms))
    for step in _GRID:
        program.add_tangents(box[0] * step)
    program.add_tangents(np.full(size, common.duration_ms))
    best: RoundTiming | None = None
    bound_ms = 0.0
    for _ in range(_MAX_TANGENTS):
        # Without the tie-break, or its price would blur the bound.
        below = program.solve(*box, tie_break=False)
        if below is None:
            return best
        bound_ms = max(bound_ms, below.cost)
        proposed_ms = program.durations_ms(below)
        program.add_tangents(proposed_ms)
        stretched_ms = np.round(proposed_ms * _overload(program, ways, proposed_ms), DIGITS) + 1e-6
        program.add_tangents(stretched_ms)
        works = program.solve(stretched_ms, stretched_ms, tie_break=True)
        if works is not None:
            candidate = _timing(program, works, stretched_ms, bound_ms)
            if best is None or candidate.t_ms < best.t_ms:
                best = candidate
        if best is not None and best.t_ms - bound_ms <= _WANTED_GAP * best.t_ms:
            break
    return None if best is None else RoundTiming(**{**vars(best), "bound_ms": bound_ms})


def _overload(program: RateProgram, ways: Sequence[Limit], durations_ms: Vector) -> float:
    """By how much all durations must be stretched for every way to carry its streams."""
    payload_bytes = program.demand.payload_bytes
    return max(
        sum(count / float(durations_ms[program.groups[j]]) for j, count in way.copies.items())
        * link_time_ms(payload_bytes, way.rate_gbps)
        for way in ways
    )


def _timing(
    program: RateProgram, found: Solution, lengths_ms: Vector, bound_ms: float | None
) -> RoundTiming:
    """Round the solver's values to whole nanoseconds and work out the rest from them."""
    trees, demand = program.trees, program.demand
    offsets_ms = {
        tree.sender: max(0.0, round(float(found.values[j]), DIGITS)) for j, tree in enumerate(trees)
    }
    durations_ms = {tree.sender: float(lengths_ms[program.groups[tree.sender]]) for tree in trees}
    t_ms = last_arrival_ms(trees, offsets_ms, durations_ms)
    return RoundTiming(
        t_ms=t_ms,
        bound_ms=t_ms if bound_ms is None else bound_ms,
        offsets_ms=offsets_ms,
        durations_ms=durations_ms,
        held_bytes=held_bytes(trees, offsets_ms, durations_ms, demand),
        resend_bytes=program.kept_bytes,
        shortfall=None,
    )

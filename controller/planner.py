"""From a topology and a schedule to a plan: trees, offsets, rates and a prediction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from controller.leastload import least_load_trees
from controller.mixing import mix
from controller.multicast import Tree, edge_copies, shortest_path_trees
from controller.plan import Plan, Prediction, RoundPlan, Stream
from controller.schedule import Round, Schedule
from controller.timing import RoundTiming, time_round
from testbed.errors import InputError, suggestion
from testbed.routing import Routing, route
from testbed.topology import Topology

TREE_FAMILIES = ("best", "shortest-path", "least-load")
# A difference in T that is not worth leaving the shortest paths for.
_EQUAL_MS = 0.01
# Room between two rounds: the packets of one must not meet those of the next.
_INTERVAL_FACTOR = 1.02
_INTERVAL_MARGIN_MS = 5.0


@dataclass(frozen=True)
class _Candidate:
    """One choice of trees for one round, and what it leads to."""

    family: str
    trees: tuple[Tree, ...]
    timing: RoundTiming

    def worse_than(self, other: "_Candidate") -> bool:
        """Whether the other one is feasible first, then clearly faster."""
        mine, others = self.timing, other.timing
        if mine.shortfall is None or others.shortfall is None:
            if (mine.shortfall is None) != (others.shortfall is None):
                return mine.shortfall is not None
            return mine.t_ms > others.t_ms + _EQUAL_MS
        return mine.shortfall.missing_bytes > others.shortfall.missing_bytes * (1 + 1e-9)


@dataclass(frozen=True)
class _Setting:
    """What all rounds of one plan have in common."""

    routing: Routing
    payload_bytes: float
    memory_bytes: float
    multicast: bool
    aggregation: bool
    trees: str


def make_plan(
    topology: Topology,
    schedule: Schedule,
    *,
    payload_bytes: float,
    memory_bytes: float,
    scale: float = 1.0,
    multicast: bool = True,
    aggregation: bool = True,
    trees: str = "best",
    rounds: int = 1,
) -> Plan:
    """Plan a schedule on a topology.

    Parameters
    ----------
    topology, schedule
        Where, and who averages with whom in which round.
    payload_bytes
        Bytes of one stream on the wire, headers included, unscaled.
    memory_bytes
        Memory of one city's aggregator, unscaled.
    scale
        Divisor of rates, payloads and memories for whoever touches packets.
    multicast, aggregation
        Whether the network copies streams, and whether it adds them up.
    trees
        ``shortest-path``, ``least-load``, or ``best``: whichever of the two
        gives the smaller feasible T, round by round.
    rounds
        How many rounds to run.

    Returns
    -------
    Plan
        Also for a schedule that is not feasible: then ``feasible`` is false,
        ``reason`` says why, and the plan can be run all the same.

    Raises
    ------
    InputError
        A value or a schedule that makes no sense, or trees that cannot be had without multicast.
    """
    _check_values(payload_bytes, memory_bytes, scale, rounds, trees, multicast=multicast)
    schedule.check(topology)
    routing = route(topology)
    setting = _Setting(routing, payload_bytes, memory_bytes, multicast, aggregation, trees)
    chosen = [_plan_round(setting, cliques) for cliques in schedule.rounds]
    period = tuple(
        _round_plan(setting, cliques, candidate)
        for cliques, candidate in zip(schedule.rounds, chosen, strict=True)
    )
    reason = _reason(topology, schedule.name, chosen, memory_bytes)
    t_ms = max(planned.t_ms for planned in period)
    families = sorted({candidate.family for candidate in chosen})
    return Plan(
        schedule=schedule.name,
        topology=topology,
        feasible=not reason,
        reason=reason,
        payload_bytes=payload_bytes,
        memory_bytes=memory_bytes,
        scale=scale,
        multicast=multicast,
        aggregation=aggregation,
        trees=families[0] if len(families) == 1 else ", ".join(c.family for c in chosen),
        period=period,
        rounds=rounds,
        round_interval_ms=float(math.ceil(t_ms * _INTERVAL_FACTOR + _INTERVAL_MARGIN_MS)),
        unicast=routing.unicast(),
        prediction=_predict(schedule, topology, period, t_ms),
    )


def _check_values(
    payload_bytes: float,
    memory_bytes: float,
    scale: float,
    rounds: int,
    trees: str,
    *,
    multicast: bool,
) -> None:
    """Refuse what no plan can be made for."""
    for name, value in (("payload", payload_bytes), ("scale", scale)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a number above 0, not {value:g}")
    if not (math.isfinite(memory_bytes) and memory_bytes >= 0):
        raise InputError(f"memory must be a number of bytes, 0 or more, not {memory_bytes:g}")
    if rounds < 1:
        raise InputError(f"rounds must be 1 or more, not {rounds}")
    if trees not in TREE_FAMILIES:
        raise InputError(f'unknown trees "{trees}"; {suggestion(trees, TREE_FAMILIES)}')
    if trees == "least-load" and not multicast:
        raise InputError(
            "least-load trees need multicast: unicast copies follow the shortest paths; "
            "use shortest-path or best"
        )


def _plan_round(setting: _Setting, cliques: Round) -> _Candidate:
    """Choose the trees of one round."""
    topology = setting.routing.topology
    members = [[topology.index(code) for code in clique] for clique in cliques]
    candidates: list[_Candidate] = []
    # Unicast copies are forwarded by the next-hop table, so without multicast
    # there is nothing to choose.
    if setting.trees != "least-load":
        trees = shortest_path_trees(setting.routing, members)
        candidates.append(_timed(setting, "shortest-path", trees))
    if setting.trees != "shortest-path" and setting.multicast:
        found = least_load_trees(setting.routing, members, setting.payload_bytes)
        family = f"least-load ({found.note})" if found.note else "least-load"
        candidates.append(_timed(setting, family, found.trees))
    best = candidates[0]
    for candidate in candidates[1:]:
        if best.worse_than(candidate):
            best = candidate
    return best


def _timed(setting: _Setting, family: str, trees: tuple[Tree, ...]) -> _Candidate:
    timing = time_round(
        setting.routing.topology,
        trees,
        payload_bytes=setting.payload_bytes,
        memory_bytes=setting.memory_bytes,
        multicast=setting.multicast,
        aggregation=setting.aggregation,
    )
    return _Candidate(family, trees, timing)


def _round_plan(setting: _Setting, cliques: Round, candidate: _Candidate) -> RoundPlan:
    """Write one round down in city codes."""
    codes = setting.routing.topology.codes
    timing = candidate.timing
    streams = tuple(
        Stream(
            sender=codes[tree.sender],
            clique=tree.clique,
            receivers=tuple(codes[city] for city in tree.receivers),
            edges=tree.edges if setting.multicast else (),
            paths={codes[city]: path for city, path in tree.paths.items()},
            delays_ms={codes[city]: delay_ms for city, delay_ms in tree.delays_ms.items()},
            offset_ms=timing.offsets_ms[tree.sender],
            rate_gbps=setting.payload_bytes * 8e-6 / timing.duration_ms,
            duration_ms=timing.duration_ms,
        )
        for tree in candidate.trees
    )
    return RoundPlan(
        cliques=cliques,
        streams=streams,
        t_ms=timing.t_ms,
        edge_streams=edge_copies(candidate.trees, multicast=setting.multicast),
        held_bytes={code: timing.held_bytes.get(city, 0.0) for city, code in enumerate(codes)},
    )


def _reason(
    topology: Topology, schedule: str, chosen: Sequence[_Candidate], memory_bytes: float
) -> str:
    """Why the schedule is not feasible, by its first such round; empty if it is."""
    for number, candidate in enumerate(chosen):
        short = candidate.timing.shortfall
        if short is not None:
            return (
                f"{schedule} round {number}: {topology.codes[short.receiver]} must hold "
                f"{short.spread_ms:.1f} ms of stream ({format_bytes(short.needed_bytes)}), "
                f"memory is {format_bytes(memory_bytes)}: "
                f"{format_bytes(short.missing_bytes)} short"
            )
    return ""


def format_bytes(count: float) -> str:
    """Bytes with a decimal unit, three digits: ``264 MB``, ``1.79 GB``, ``0``."""
    if count == 0:
        return "0"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} B"


def _predict(
    schedule: Schedule, topology: Topology, period: Sequence[RoundPlan], t_ms: float
) -> Prediction:
    """Round time, disagreement lifetime and their product (the paper's objective)."""
    mixing = mix(schedule, topology.codes)
    finite = {n: a if math.isfinite(a) else None for n, a in mixing.lifetime.items()}
    a_rms = finite["rms"]
    return Prediction(
        t_ms=t_ms,
        a_rms=a_rms,
        a_var=finite["var"],
        a_tv=finite["tv"],
        a_reach=finite["reach"],
        survival=mixing.survival,
        contraction=mixing.contraction,
        objective_ms=None if a_rms is None else t_ms * (a_rms + 0.5),
        busiest_link_streams=max(max(planned.edge_streams.values()) for planned in period),
    )

"""From a topology and a schedule to a plan: trees, offsets, rates and a prediction."""

import math
from collections.abc import Sequence
from itertools import zip_longest

from controller.choose import TREE_FAMILIES, Candidate, TreeChooser
from controller.demand import Demand
from controller.mixing import mix
from controller.multicast import Tree, edge_copies
from controller.plan import Piece, Plan, Prediction, RoundPlan, Stream
from controller.schedule import Round, Schedule
from testbed.errors import InputError, suggestion
from testbed.routing import route
from testbed.topology import Topology

__all__ = ["TREE_FAMILIES", "format_bytes", "make_plan"]

DATAGRAM_BYTES = 8290.0
"""Of a full datagram on the wire at MTU 9000: 98 bytes of headers, 2048 elements of 4."""

# Room between two rounds: the packets of one must not meet those of the next.
_INTERVAL_FACTOR = 1.02
_INTERVAL_MARGIN_MS = 5.0
_PLANNED_ONLY = {
    "time-varying": "senders keep one rate for a whole stream; rates over time are planned only"
}


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
    rates: str = "common",
    memory_model: str = "accumulate",
    resend_ms: float = 0.0,
    fifo_datagrams: int = 0,
    datagram_bytes: float = DATAGRAM_BYTES,
    exact: bool = True,
    known: Sequence[Sequence[Tree]] = (),
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
        ``shortest-path``, ``least-load``, ``hub`` (one shared tree per clique),
        or ``best``: the least T, with delay, load and alignment weighed
        together, round by round.
    rounds
        How many rounds to run.
    rates
        ``common``: one rate for all streams of a round, which reproduces the
        published figures; ``per-stream``: T is never larger; ``time-varying``:
        never larger still; ``unpaced``: full speed from chosen times on, with
        queues in front of links. See `controller.demand.RATES`.
    memory_model
        ``accumulate``: one accumulator per weight; ``hold``: one buffer per sender.
    resend_ms
        How long the aggregator keeps what it has sent on, in the same memory.
    fifo_datagrams, datagram_bytes
        Packets per stream that the receiving chip's own FIFO takes, and their
        size. A memory of 0 stands for that FIFO alone; one above 0 and below it
        cannot be had. 0 datagrams: not checked.
    exact
        Without, trees of large networks come from a heuristic, in far less time.
    known
        Trees that a search has found, for each round of the schedule; they are
        considered like any others.

    Returns
    -------
    Plan
        Also for a schedule that is not feasible: then ``feasible`` is false,
        ``reason`` says why, and the plan can be run all the same.

    Raises
    ------
    InputError
        A value or a schedule that makes no sense, trees that cannot be had
        without multicast, or a memory below the packet FIFO.
    """
    demand = Demand(
        payload_bytes, memory_bytes, multicast, aggregation, rates, memory_model, resend_ms
    )
    demand.check()
    _check_values(scale, rounds, trees, multicast=multicast)
    schedule.check(topology)
    fifo_bytes = fifo_datagrams * datagram_bytes * scale
    _check_fifo(
        schedule, demand, fifo_bytes, f"{fifo_datagrams} × {datagram_bytes:g} B × {scale:g}"
    )
    routing = route(topology)
    chooser = TreeChooser(routing, demand, trees, exact=exact)
    chosen = [
        chooser.choose([[topology.index(code) for code in clique] for clique in cliques], found)
        for cliques, found in zip_longest(schedule.rounds, known, fillvalue=())
    ]
    period = tuple(
        _round_plan(topology, demand, cliques, candidate, fifo_bytes)
        for cliques, candidate in zip(schedule.rounds, chosen, strict=True)
    )
    reason = _reason(topology, schedule.name, chosen, demand)
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
        rates=rates,
        memory_model=memory_model,
        resend_ms=resend_ms,
        not_runnable=_PLANNED_ONLY.get(rates, ""),
        period=period,
        rounds=rounds,
        round_interval_ms=float(math.ceil(t_ms * _INTERVAL_FACTOR + _INTERVAL_MARGIN_MS)),
        unicast=routing.unicast(),
        prediction=_predict(schedule, topology, period, t_ms),
    )


def _check_values(scale: float, rounds: int, trees: str, *, multicast: bool) -> None:
    """Refuse what no plan can be made for."""
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"scale must be a number above 0, not {scale:g}")
    if rounds < 1:
        raise InputError(f"rounds must be 1 or more, not {rounds}")
    if trees not in TREE_FAMILIES:
        raise InputError(f'unknown trees "{trees}"; {suggestion(trees, TREE_FAMILIES)}')
    if trees in ("least-load", "hub") and not multicast:
        raise InputError(
            f"{trees} trees need multicast: unicast copies follow the shortest paths; "
            "use shortest-path or best"
        )


def _check_fifo(schedule: Schedule, demand: Demand, fifo_bytes: float, arithmetic: str) -> None:
    """Refuse a memory that is not 0 and yet smaller than the FIFO in front of it.

    A packet network cannot align streams to less than a few packets, so that a
    memory of 0 still needs the chip's FIFO (ours).
    """
    if not (math.isfinite(fifo_bytes) and fifo_bytes >= 0):
        raise InputError(f"the packet FIFO must be 0 bytes or more, not {arithmetic}")
    senders = max(len(clique) for cliques in schedule.rounds for clique in cliques) - 1
    floor_bytes = senders * fifo_bytes
    if demand.aggregation and 0 < demand.memory_bytes < floor_bytes:
        raise InputError(
            f"a memory of {format_bytes(demand.memory_bytes)} is below the packet FIFO: "
            f"{senders} streams × {arithmetic} = {format_bytes(floor_bytes)}; "
            f"use 0 for the FIFO alone, or at least {format_bytes(floor_bytes)}"
        )


def _round_plan(
    topology: Topology, demand: Demand, cliques: Round, candidate: Candidate, fifo_bytes: float
) -> RoundPlan:
    """Write one round down in city codes."""
    codes, timing = topology.codes, candidate.timing
    streams = tuple(
        Stream(
            sender=codes[tree.sender],
            clique=tree.clique,
            receivers=tuple(codes[city] for city in tree.receivers),
            edges=tree.edges if demand.multicast else (),
            paths={codes[city]: path for city, path in tree.paths.items()},
            delays_ms={codes[city]: delay_ms for city, delay_ms in tree.delays_ms.items()},
            offset_ms=timing.offsets_ms[tree.sender],
            rate_gbps=demand.payload_bytes * 8e-6 / timing.durations_ms[tree.sender],
            duration_ms=timing.durations_ms[tree.sender],
            hub=None if tree.hub is None else codes[tree.hub],
            pieces=tuple(
                Piece(
                    start_ms=start_ms,
                    end_ms=end_ms,
                    rate_gbps=share * demand.payload_bytes * 8e-6 / (end_ms - start_ms),
                )
                for start_ms, end_ms, share in timing.pieces.get(tree.sender, ())
            ),
        )
        for tree in candidate.trees
    )
    senders = {city: len(clique) - 1 for clique in cliques for city in clique}
    return RoundPlan(
        cliques=cliques,
        streams=streams,
        t_ms=timing.t_ms,
        edge_streams=edge_copies(candidate.trees, multicast=demand.multicast),
        held_bytes={code: timing.held_bytes.get(city, 0.0) for city, code in enumerate(codes)},
        resend_bytes={code: timing.resend_bytes.get(city, 0.0) for city, code in enumerate(codes)},
        fifo_bytes={code: senders.get(code, 0) * fifo_bytes for code in codes},
        trees_bound_ms=candidate.bound_ms or None,
        queued=timing.queued,
        timing_gap=timing.gap,
    )


def _reason(topology: Topology, schedule: str, chosen: Sequence[Candidate], demand: Demand) -> str:
    """Why the schedule is not feasible, by its first such round; empty if it is."""
    codes = topology.codes
    for number, candidate in enumerate(chosen):
        short = candidate.timing.shortfall
        if short is not None:
            access_gbps = topology.cities[short.receiver].access_rate_gbps
            resend = (
                f", {format_bytes(short.resend_bytes)} of it to resend: "
                f"{demand.resend_ms:g} ms × {access_gbps:g} Gbit/s"
            )
            return (
                f"{schedule} round {number}: {codes[short.receiver]} must hold "
                f"{short.spread_ms:.1f} ms of stream ({format_bytes(short.needed_bytes)}"
                f"{resend if short.resend_bytes else ''}) "
                f"from {codes[short.leading]} until {codes[short.trailing]} arrives, "
                f"memory is {format_bytes(demand.memory_bytes)}: "
                f"{format_bytes(short.missing_bytes)} short ({short.missing_ms:.1f} ms)"
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

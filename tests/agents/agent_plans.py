"""A small hand-made plan for the tests of the agents."""

from controller.plan import Plan, Prediction, RoundPlan, Stream
from testbed.topology import City, Link, Topology

CODES = ("nyc", "lon", "tyo")
WIRE_BYTES_PER_BLOCK = 98 + 4 * 2048


def make_plan(
    *,
    codes: tuple[str, ...] = CODES,
    blocks: float = 10,
    rounds: int = 1,
    interval_ms: float = 200.0,
    rate_gbps: float = 1.0,
    memory_bytes: float = 1e9,
    scale: float = 1.0,
    multicast: bool = False,
    aggregation: bool = True,
    offsets_ms: tuple[float, ...] = (),
) -> Plan:
    """One clique of all cities, every link 1 ms, every stream at the same rate."""
    cities = tuple(
        City(code=c, name=c.upper(), region="r", lat=0, lon=float(i)) for i, c in enumerate(codes)
    )
    links = tuple(
        Link(a=a, b=b, delay_ms=1, delay_back_ms=1)
        for i, a in enumerate(codes)
        for b in codes[i + 1 :]
    )
    payload_bytes = blocks * WIRE_BYTES_PER_BLOCK * scale
    duration_ms = payload_bytes * 8 / rate_gbps / 1e6
    streams = tuple(
        Stream(
            sender=code,
            clique=0,
            receivers=tuple(c for c in codes if c != code),
            edges=(),
            paths={},
            delays_ms={c: 1.0 for c in codes if c != code},
            offset_ms=offsets_ms[i] if offsets_ms else 0.0,
            rate_gbps=rate_gbps,
            duration_ms=duration_ms,
        )
        for i, code in enumerate(codes)
    )
    period = RoundPlan(
        cliques=(codes,), streams=streams, t_ms=duration_ms + 1, edge_streams={}, held_bytes={}
    )
    prediction = Prediction(
        t_ms=duration_ms + 1,
        a_rms=1,
        a_var=1,
        a_tv=1,
        a_reach=1,
        survival=(1.0,),
        contraction=0,
        objective_ms=1,
        busiest_link_streams=1,
    )
    return Plan(
        schedule="all-to-all",
        topology=Topology(name="tiny", cities=cities, links=links),
        feasible=True,
        reason="",
        payload_bytes=payload_bytes,
        memory_bytes=memory_bytes,
        scale=scale,
        multicast=multicast,
        aggregation=aggregation,
        trees="shortest",
        period=(period,),
        rounds=rounds,
        round_interval_ms=interval_ms,
        unicast={},
        prediction=prediction,
    )


def rotating_plan(*rounds: tuple[tuple[str, ...], ...], count: int = 0) -> Plan:
    """Cliques round by round on four cities; streams do not matter here."""
    plan = make_plan(codes=("nyc", "lon", "tyo", "sin"), rounds=count or len(rounds))
    period = tuple(plan.period[0].model_copy(update={"cliques": cliques}) for cliques in rounds)
    return plan.model_copy(update={"period": period})

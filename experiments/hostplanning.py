"""Plans an all-reduce of the islands' hosts: the schedule, and what each host does in it."""

from collections.abc import Sequence

from agents.operands import chunk_layout
from agents.wire import check_sources
from controller.collectives.bounds import find_bounds
from controller.collectives.check import check_schedule
from controller.collectives.choose import choose
from controller.collectives.generators import first_edge_link
from controller.collectives.hosts import ALL_REDUCE, host_plan
from controller.collectives.resynthesis import changed
from controller.collectives.sums import best_sum, sum_plan
from controller.collectives.synthesis import Effort
from controller.collectives.task import make_task
from controller.hostplan import HostPlan
from controller.plan import Plan, Prediction, RoundPlan
from controller.training import Training
from experiments.config import COLLECTIVES, IN_NETWORK, ExperimentConfig
from experiments.faults import LinkChange, LinkCut
from experiments.hostnetwork import datagram_network
from experiments.trainingplan import training_of
from testbed.errors import InputError, UntrustedRunError
from testbed.routing import route
from testbed.topology import Topology

_PATIENCE = 3.0
"""Hosts give up after so many times the planned time."""
_MEANINGLESS = (
    *("memory_bytes", "multicast", "aggregation", "rounds", "trees", "rates"),
    *("ways", "collision", "hash", "memory_model", "dtype", "ordered", "engine"),
    *("resend_ms", "repair", "fifo_datagrams", "burst_datagrams", "jitter_us"),
    "tolerance_percent",
    *("loss_percent", "loss_burst", "duplicate_percent", "reorder_percent", "link_jitter_us"),
    "impairments",
)
_OF_AGGREGATORS = ("engine", "fifo_datagrams")
_OF_HOSTS = ("chunks", "model", "release", "events", "compute_ms")


def plan_collective(config: ExperimentConfig, topology: Topology) -> Plan:
    """Plan an all-reduce of the payload by the algorithm that the schedule names.

    Returns
    -------
    Plan
        Its one round has no streams; `Plan.collective` says what hosts do.

    Raises
    ------
    InputError
        A key is set that means nothing here, or chunks do not fit the payload or the packets.
    UntrustedRunError
        The checker found a fault in the schedule.
    """
    _check_keys(config)
    _check_events(config, topology)
    training = training_of(config)
    if training is not None and config.schedule == IN_NETWORK:
        raise InputError(
            f"COMPUTE_MS means nothing with SCHEDULE={IN_NETWORK}: the aggregators hold one sum; "
            "leave it out"
        )
    check_sources(len(topology.codes))
    plan_hosts = _plan_sum if config.schedule == IN_NETWORK else _plan_hosts
    hosts = plan_hosts(config, topology)
    chunk_layout(hosts.chunk_bytes / config.scale, config.mtu_bytes)
    clique = RoundPlan(
        cliques=(topology.codes,),
        streams=(),
        t_ms=hosts.time_ms,
        edge_streams={},
        held_bytes={},
    )
    return Plan(
        schedule=config.schedule,
        topology=topology,
        feasible=True,
        reason="",
        payload_bytes=config.payload_bytes,
        memory_bytes=0,
        scale=config.scale,
        multicast=False,
        aggregation=False,
        trees="none",
        period=(clique,),
        rounds=1,
        round_interval_ms=_PATIENCE * _planned_ms(hosts, training),
        unicast=route(topology).unicast(),
        prediction=Prediction(
            t_ms=hosts.time_ms,
            a_rms=1.0,
            a_var=1.0,
            a_tv=1.0,
            a_reach=1.0,
            survival=(1.0, 0.0),
            contraction=0.0,
            objective_ms=1.5 * hosts.time_ms,
            busiest_link_streams=0,
        ),
        collective=hosts,
        training=training,
    )


def _planned_ms(hosts: HostPlan, training: Training | None) -> float:
    """From the start to the last sum."""
    if training is None:
        return hosts.time_ms
    return (training.syncs - 1) * training.spacing_ms(hosts.time_ms) + hosts.time_ms


def _plan_hosts(config: ExperimentConfig, topology: Topology) -> HostPlan:
    network = datagram_network(topology, config.mtu_bytes, config.scale)
    task = make_task(network, ALL_REDUCE, config.payload_bytes, chunks=config.chunks)
    choice = choose(
        network,
        task,
        config.model,
        algorithm=COLLECTIVES[config.schedule],
        chunks=config.chunks,
        effort=Effort(seed=config.seed),
    )
    best = choice.best
    _check_faults(config, best.faults)
    bounds = best.bounds
    return host_plan(
        best.schedule, topology, bound_us=bounds.us, bound=bounds.name, release=config.release
    )


def _plan_sum(config: ExperimentConfig, topology: Topology) -> HostPlan:
    network = datagram_network(
        topology, config.mtu_bytes, config.scale, multicast=True, aggregates=True
    )
    task = make_task(network, ALL_REDUCE, config.payload_bytes)
    tree, schedule = best_sum(network, task)
    _check_faults(config, check_schedule(schedule))
    bounds = find_bounds(network, task, config.model)
    return sum_plan(tree, schedule, topology, bound_us=bounds.us, bound=bounds.name)


def _check_faults(config: ExperimentConfig, faults: Sequence[str]) -> None:
    if faults:
        raise UntrustedRunError(f"{config.schedule}: {faults[0]}")


def _check_keys(config: ExperimentConfig) -> None:
    """Refuse keys that decide about streams in the network, where none are sent like these."""
    names: tuple[str, ...] = _MEANINGLESS
    why = "hosts send, receive and add, on links without loss"
    if config.schedule == IN_NETWORK:
        names = (*(name for name in names if name not in _OF_AGGREGATORS), *_OF_HOSTS)
        why = "aggregators add as streams come, on links without loss"
    if config.compute_ms is not None:
        names = tuple(name for name in names if name != "rounds")
    for name in names:
        field = type(config).model_fields[name]
        if getattr(config, name) != field.default:
            raise InputError(
                f"{(field.alias or name).upper()} means nothing with SCHEDULE={config.schedule}: "
                f"{why}; leave it out"
            )


def _check_events(config: ExperimentConfig, topology: Topology) -> None:
    """Refuse faults that hosts have no answer to: they begin anew only when links change."""
    for fault in config.events:
        if not isinstance(fault, LinkCut | LinkChange):
            raise InputError(
                f"EVENTS: {fault.event} means nothing with SCHEDULE={config.schedule}: hosts take "
                "links that fail, return or change; use link-down, link-up or link-change"
            )
    if config.events and config.compute_ms is not None:
        raise InputError("EVENTS mean nothing with COMPUTE_MS: hosts begin a single sum anew")
    if config.events and config.release != "planned":
        raise InputError(
            "EVENTS need RELEASE=planned between hosts: a new schedule is made for the state that "
            "the old one will have reached"
        )
    _check_connected(config, topology)


def _check_connected(config: ExperimentConfig, topology: Topology) -> None:
    """Refuse links that together cut a city off."""
    network = datagram_network(topology, config.mtu_bytes, config.scale)
    access = first_edge_link(topology)
    cuts = (fault for fault in config.events if isinstance(fault, LinkCut))
    down: set[int] = set()
    for cut in sorted(cuts, key=lambda fault: fault.at_ms):
        names = cut.directions(topology)
        links = {access + e.index for e in topology.edges if f"{e.src}→{e.dst}" in names}
        down = down | links if cut.event == "link-down" else down - links
        try:
            changed(network, dict.fromkeys(down, 0.0))
        except InputError as error:
            raise InputError(f"EVENTS: {cut.event} {cut.link}: {error}") from error

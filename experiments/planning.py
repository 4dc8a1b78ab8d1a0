"""From a config to its plan."""

from agents.aggregator.memory import check_ways, memory_slots
from agents.context import END_MARGIN_NS, NS_PER_MS
from agents.wire import ELEMENT_BYTES, dtype_named, stream_layout
from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import load_schedule
from experiments.config import COLLECTIVES, ExperimentConfig
from experiments.faults import LinkChange
from experiments.hostplanning import plan_collective
from experiments.trainingplan import with_training
from experiments.units import format_bytes
from testbed.errors import InputError
from testbed.shaping import shape_for
from testbed.topology import City, Topology, load_topology

_BYTES_PER_GBPS_MS = 1e6 / 8


def plan_experiment(config: ExperimentConfig) -> Plan:
    """Plan an experiment; the plan says itself whether it is feasible.

    Raises
    ------
    InputError
        The topology or the schedule is wrong, or they do not fit each other; a setting has
        no effect; what is kept to be sent again, or a single set of ways, does not fit the
        memory; or a fault is to happen when the run is over.
    """
    topology = load_topology(config.topology)
    if config.schedule in COLLECTIVES:
        return plan_collective(config, topology)
    _check_loss(config)
    _check_recovery(config, topology)
    plan = make_plan(
        topology,
        load_schedule(config.schedule, topology),
        payload_bytes=config.payload_bytes,
        memory_bytes=config.memory_bytes,
        scale=config.scale,
        multicast=config.multicast,
        aggregation=config.aggregation,
        trees=config.trees,
        rates=config.rates,
        rounds=config.rounds,
        memory_model=config.memory_use,
        resend_ms=config.resend_ms,
    )
    plan = with_training(plan, config)
    _check_ways(config, plan)
    _check_events(config, plan)
    reason = _too_much_kept(config, plan)
    return plan.model_copy(update={"feasible": False, "reason": reason}) if reason else plan


def _check_loss(config: ExperimentConfig) -> None:
    if config.loss_burst is not None and not config.loss_percent:
        raise InputError("LOSS_BURST: without LOSS_PERCENT nothing is lost; set both")


def _check_recovery(config: ExperimentConfig, topology: Topology) -> None:
    """Refuse recovery without effect, and more to resend than the memory holds."""
    if config.repair and not (config.resend_ms and config.aggregation):
        raise InputError("REPAIR: on needs recovery on the last hop: set RESEND_MS, AGGREGATION=on")
    if not config.resend_ms:
        return
    if not config.aggregation:
        raise InputError(
            "RESEND_MS: aggregators keep what they send, and with AGGREGATION=off there are none: "
            "leave one of them out"
        )
    city = max(topology.cities, key=lambda city: city.access_rate_gbps)
    kept_bytes = _kept_bytes(config, city)
    if kept_bytes > config.memory_bytes:
        raise InputError(
            f"RESEND_MS: {config.resend_ms:g} ms × {city.access_rate_gbps:g} Gbit/s to the island "
            f"of {city.code} = {format_bytes(kept_bytes, 4)}, more than MEMORY of "
            f"{format_bytes(config.memory_bytes, 4)}: lower the one or raise the other"
        )


def _check_ways(config: ExperimentConfig, plan: Plan) -> None:
    """Refuse a memory with fewer blocks than ways; as the aggregators themselves would."""
    if not config.aggregation:
        return
    element_bytes = dtype_named(config.dtype).element_bytes
    layout = stream_layout(plan.payload_bytes / plan.scale, config.mtu_bytes, element_bytes)
    for city in plan.topology.cities:
        streams = (sum(city.code in s.receivers for s in k.streams) for k in plan.period)
        slots = memory_slots(
            (plan.memory_bytes - _kept_bytes(config, city)) / plan.scale,
            config.fifo_datagrams,
            max(1, *streams),
            layout.elements * ELEMENT_BYTES,
        )
        check_ways(slots, config.ways)


def _check_events(config: ExperimentConfig, plan: Plan) -> None:
    """Refuse faults for a time when the islands have given up, whatever happens."""
    timeout_ms = plan.prediction.t_ms if config.timeout_ms is None else config.timeout_ms
    end_ms = plan.rounds * plan.round_interval_ms + timeout_ms + END_MARGIN_NS / NS_PER_MS
    for fault in config.events:
        if fault.at_ms >= end_ms:
            raise InputError(
                f"EVENTS: {fault.event} {fault.target} at {fault.at_ms:g} ms: "
                f"{plan.rounds} rounds are over after {end_ms:.0f} ms at the latest"
            )
        if isinstance(fault, LinkChange) and fault.rate_gbps is not None:
            shape_for(0.0, fault.rate_gbps, plan.scale, config.mtu_bytes)


def _kept_bytes(config: ExperimentConfig, city: City) -> float:
    """What an edge device keeps to send again: so many ms at its island's access rate."""
    return config.resend_ms * city.access_rate_gbps * _BYTES_PER_GBPS_MS


def _too_much_kept(config: ExperimentConfig, plan: Plan) -> str:
    """Where streams and resend buffer together exceed the memory; empty if nowhere.

    The planner counts what an output at its planned rate leaves there; the device
    sets memory for the rate of the access link apart.
    """
    if not (config.resend_ms and plan.feasible):
        return ""
    for number, planned in enumerate(plan.period):
        for city in plan.topology.cities:
            held, kept = planned.held_bytes.get(city.code, 0.0), _kept_bytes(config, city)
            if held + kept > config.memory_bytes:
                return (
                    f"{plan.schedule} round {number}: {city.code} must hold "
                    f"{format_bytes(held, 4)} of stream beside {format_bytes(kept, 4)} to resend "
                    f"({config.resend_ms:g} ms × {city.access_rate_gbps:g} Gbit/s), memory is "
                    f"{format_bytes(config.memory_bytes, 4)}"
                )
    return ""

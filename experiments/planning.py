"""From a config to its plan."""

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import load_schedule
from experiments.config import ExperimentConfig
from experiments.units import format_bytes
from testbed.errors import InputError
from testbed.topology import Topology, load_topology

_BYTES_PER_GBPS_MS = 1e6 / 8


def plan_experiment(config: ExperimentConfig) -> Plan:
    """Plan an experiment; the plan says itself whether it is feasible.

    Raises
    ------
    InputError
        The topology or the schedule is wrong, or they do not fit each other; or what
        is kept to be sent again does not fit the memory.
    """
    topology = load_topology(config.topology)
    _check_recovery(config, topology)
    return make_plan(
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
        memory_model=config.memory_model,
        resend_ms=config.resend_ms if config.aggregation else 0.0,
    )


def _check_recovery(config: ExperimentConfig, topology: Topology) -> None:
    """Refuse a resend buffer that is larger than the memory, and repair without one."""
    if config.repair and not (config.resend_ms and config.aggregation):
        raise InputError("REPAIR: on needs recovery on the last hop: set RESEND_MS, AGGREGATION=on")
    if not (config.resend_ms and config.aggregation):
        return
    city = max(topology.cities, key=lambda city: city.access_rate_gbps)
    ring_bytes = config.resend_ms * city.access_rate_gbps * _BYTES_PER_GBPS_MS
    if ring_bytes > config.memory_bytes:
        raise InputError(
            f"RESEND_MS: {config.resend_ms:g} ms × {city.access_rate_gbps:g} Gbit/s to the island "
            f"of {city.code} = {format_bytes(ring_bytes, 4)}, more than MEMORY of "
            f"{format_bytes(config.memory_bytes, 4)}: lower the one or raise the other"
        )

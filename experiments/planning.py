"""From a config to its plan."""

from controller.plan import Plan
from controller.planner import make_plan
from controller.schedule import load_schedule
from experiments.config import ExperimentConfig
from testbed.topology import load_topology


def plan_experiment(config: ExperimentConfig) -> Plan:
    """Plan an experiment; the plan says itself whether it is feasible.

    Raises
    ------
    InputError
        The topology or the schedule is wrong, or they do not fit each other.
    """
    topology = load_topology(config.topology)
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
    )

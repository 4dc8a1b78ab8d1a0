"""What a config's training adds to its plan: the loop, and when rounds start."""

from collections.abc import Mapping
from types import MappingProxyType

from controller.plan import Plan
from controller.training import Training
from experiments.config import ExperimentConfig
from testbed.errors import InputError

_FEWEST_ROUNDS: Mapping[str, int] = MappingProxyType({"synchronous": 2, "delayed": 4, "local": 1})
"""A time per step needs so many: the first steps wait for nothing."""


def training_of(config: ExperimentConfig) -> Training | None:
    """The training that a config asks for, if any.

    Raises
    ------
    InputError
        There is none, but a loop; or nothing to compute; or agents are to be ended in it.
    """
    if config.compute_ms is None:
        if "loop" in config.model_fields_set:
            raise InputError("LOOP means nothing where nothing is computed: set COMPUTE_MS")
        return None
    if config.compute_ms == 0:
        raise InputError('COMPUTE_MS: "0" is not valid: a step takes time; leave it out')
    fewest = _FEWEST_ROUNDS[config.loop]
    if config.rounds < fewest:
        raise InputError(
            f"LOOP={config.loop} needs ROUNDS of {fewest} or more, not {config.rounds}: "
            "the first steps wait for nothing, and do not count"
        )
    if config.events:
        raise InputError("COMPUTE_MS: EVENTS in a training are not supported: leave out either")
    return Training(
        compute_ms=config.compute_ms,
        loop=config.loop,
        release=config.release,
        syncs=config.rounds,
    )


def with_training(plan: Plan, config: ExperimentConfig) -> Plan:
    """Add the training of a config to a plan of streams.

    Rounds then start every `Training.spacing_ms`; but where they follow each other without a
    step between them, as far apart as without training, for their packets must not meet.

    Raises
    ------
    InputError
        See `training_of`; or streams are released by data while they need their alignment.
    """
    training = training_of(config)
    if training is None:
        return plan
    early = training.release == "data"
    if early and any(s.offset_ms for planned in plan.period for s in planned.streams):
        raise InputError(
            f"RELEASE=data: {plan.schedule} sends at offsets, which hold for the planned start "
            "of a round only; use RELEASE=planned, or MEMORY that needs none"
        )
    interval_ms = training.spacing_ms(plan.prediction.t_ms)
    if training.loop != "synchronous" or not early:
        interval_ms = max(plan.round_interval_ms, interval_ms)
    return plan.model_copy(update={"training": training, "round_interval_ms": interval_ms})


def step_planned_ms(plan: Plan) -> float:
    """Time of a step by a plan of streams; 0 if nothing is computed."""
    training = plan.training
    if training is None:
        return 0.0
    if training.loop == "local" or training.release == "data":
        return training.step_ms(plan.prediction.t_ms)
    return plan.round_interval_ms

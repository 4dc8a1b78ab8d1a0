"""What a config's training adds to its plan: the loop, and when rounds start."""

from controller.plan import Plan
from controller.training import Training
from experiments.config import ExperimentConfig
from experiments.trainingfigures import UNCOUNTED
from testbed.errors import InputError


def training_of(config: ExperimentConfig, period: int = 1) -> Training | None:
    """The training that a config asks for, if any; its synchronisations repeat after a period.

    Raises
    ------
    InputError
        There is none, but a loop; or nothing to compute; or agents are to be ended in it.
    """
    if config.compute_ms is None:
        # A manifest lists every key, with its default where none was given.
        if config.loop != type(config).model_fields["loop"].default:
            raise InputError("LOOP means nothing where nothing is computed: set COMPUTE_MS")
        return None
    if config.compute_ms == 0:
        raise InputError('COMPUTE_MS: "0" is not valid: a step takes time; leave it out')
    fewest = 1 if config.loop == "local" else period + UNCOUNTED[config.loop]
    if config.rounds < fewest:
        raise InputError(
            f"LOOP={config.loop} needs ROUNDS of {fewest} or more, not {config.rounds}: "
            "the first steps wait for nothing, and do not count, and a step is the mean over a "
            "whole period"
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

    Rounds then start every `Training.spacing_ms`, with the room between two of them that they
    have without training; but without any where islands that have computed send at once.

    Raises
    ------
    InputError
        See `training_of`; or streams are released by data while they need their alignment.
    """
    training = training_of(config, len(plan.period))
    if training is None:
        return plan
    early = training.release == "data"
    if early and any(s.offset_ms for planned in plan.period for s in planned.streams):
        raise InputError(
            f"RELEASE=data: {plan.schedule} sends at offsets, which hold for the planned start "
            "of a round only; use RELEASE=planned, or MEMORY that needs none"
        )
    times_itself = early and training.loop == "synchronous"
    round_ms = plan.prediction.t_ms if times_itself else plan.round_interval_ms
    interval_ms = training.spacing_ms(round_ms)
    return plan.model_copy(update={"training": training, "round_interval_ms": interval_ms})


def spacing_planned_ms(plan: Plan) -> float:
    """Time between the starts of two synchronisations by a plan; 0 if there is only one."""
    if plan.collective is None:
        return plan.round_interval_ms
    return 0.0 if plan.training is None else plan.training.spacing_ms(plan.collective.time_ms)


def step_planned_ms(plan: Plan) -> float:
    """Time of a step by a plan; 0 if nothing is computed."""
    training = plan.training
    if training is None:
        return 0.0
    return training.compute_ms if training.loop == "local" else spacing_planned_ms(plan)

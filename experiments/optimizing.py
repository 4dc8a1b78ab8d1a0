"""The one place that knows the optimiser: a config goes in, a schedule and its figures come out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from controller.optimizer import Candidate, optimize
from controller.plan import Plan
from controller.schedule import Schedule
from experiments.config import ExperimentConfig
from testbed.errors import InputError
from testbed.topology import load_topology

PLAN_SETTINGS: Mapping[str, object] = MappingProxyType({"rates": "per-stream"})
"""Config keys with which a plan has the T that the optimiser counts on."""
# The rest of the budget goes to the proof.
_SEARCH_SHARE = 0.5


@dataclass(frozen=True)
class FrontPoint:
    """A schedule that no other one beats in both T and A.

    Attributes
    ----------
    schedule
        Its rounds.
    t_ms, a_rms, objective_ms
        T, A and T (A + ½).
    """

    schedule: Schedule
    t_ms: float
    a_rms: float
    objective_ms: float


@dataclass(frozen=True)
class Optimised:
    """What a search found.

    Attributes
    ----------
    plan
        Of the schedule with the least objective.
    schedule
        That schedule.
    front
        By rising T.
    certificate
        What is proved about it, in one sentence; empty if nothing is.
    lower_bound_ms
        No schedule has a smaller objective; ``None`` if not known.
    seconds
        Time taken.
    work
        How much of the work the budget allowed, e.g. ``57 of 57 tasks``.
    """

    plan: Plan
    schedule: Schedule
    front: tuple[FrontPoint, ...]
    certificate: str
    lower_bound_ms: float | None
    seconds: float
    work: str


def check_search(config: ExperimentConfig, budget_s: float) -> None:
    """Refuse what cannot be searched for.

    Raises
    ------
    InputError
        The config turns multicast or aggregation off, or the budget is not above 0.
    """
    if not (config.multicast and config.aggregation):
        raise InputError("the optimiser plans with multicast and aggregation: leave both on")
    if not 0 < budget_s < float("inf"):
        raise InputError(f'BUDGET: "{budget_s:g}" is not valid: write seconds, above 0')


def find_best(
    config: ExperimentConfig, *, budget_s: float, tick: Callable[[str], None]
) -> Optimised:
    """Search for the best schedule of a config's network, payload and memory.

    Parameters
    ----------
    config
        Its schedule and trees do not matter: both are what is searched for.
    budget_s
        Seconds for search and proof together.
    tick
        Called with how far it is.

    Raises
    ------
    InputError
        See `check_search`.
    InfeasibleError
        No schedule is feasible.
    """
    check_search(config, budget_s)
    found = optimize(
        load_topology(config.topology),
        payload_bytes=config.payload_bytes,
        memory_bytes=config.memory_bytes,
        budget_s=budget_s * _SEARCH_SHARE,
        certificate_s=budget_s * (1 - _SEARCH_SHARE),
        seed=config.seed,
        progress=lambda state: tick(
            f"{state.done} of {state.total} tasks, best {state.best_ms:.1f} ms"
        ),
    )
    return Optimised(
        plan=found.plan,
        schedule=found.best.schedule,
        front=tuple(_point(candidate) for candidate in found.front),
        certificate=found.certificate.statement if found.certificate else "",
        lower_bound_ms=found.certificate.long_lower_ms if found.certificate else None,
        seconds=found.seconds,
        work=f"{found.tasks_done} of {found.tasks} tasks",
    )


def _point(candidate: Candidate) -> FrontPoint:
    return FrontPoint(
        schedule=candidate.schedule,
        t_ms=candidate.t_ms,
        a_rms=candidate.lifetime,
        objective_ms=candidate.objective_ms,
    )

"""The fastest algorithm for a collective, by simulation, and how the others compare."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from controller.collectives.bounds import Bounds, find_bounds
from controller.collectives.check import check_schedule
from controller.collectives.classics import MAX_WORKERS, classic_names, classic_schedule
from controller.collectives.gathering import SYNTHESISED
from controller.collectives.innetwork import innetwork_names, innetwork_schedules
from controller.collectives.network import Network
from controller.collectives.schedule import Model, Schedule
from controller.collectives.switched import synthesise_switched
from controller.collectives.synthesis import Effort, synthesise
from controller.collectives.task import Task, too_many, with_chunks
from testbed.errors import InputError, suggestion

AUTO = "auto"

# Splits are doubled for as long as that pays; these keep one schedule to seconds.
_MAX_SPLIT = 64
_MAX_SINGLE_SPLIT = 1024
_MAX_SENDS = 400_000
_MAX_TIMED_SENDS = 40_000
_WORTH = 0.995


@dataclass(frozen=True)
class Outcome:
    """One algorithm's best schedule.

    Attributes
    ----------
    schedule
        With the number of chunks that was fastest.
    bounds
        With that number of chunks.
    faults
        What the checker says: empty.
    attempts
        Schedules that were made.
    cpu_s
        Processor seconds for all of them, without the check.
    """

    schedule: Schedule
    bounds: Bounds
    faults: tuple[str, ...]
    attempts: int
    cpu_s: float

    @property
    def over_bound(self) -> float:
        """Time over the largest lower bound."""
        return self.schedule.time_us / self.bounds.us


@dataclass(frozen=True)
class Choice:
    """All outcomes, the fastest one first.

    Attributes
    ----------
    outcomes
        By rising time; among equals who is first in `algorithms`.
    notes
        What was not tried, and why.
    """

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> Outcome:
        """The fastest one."""
        return self.outcomes[0]


def algorithms(network: Network, task: Task) -> tuple[str, ...]:
    """Names of the algorithms that can carry a task out on a network."""
    return (SYNTHESISED, *innetwork_names(network, task), *classic_names(network, task))


def choose(
    network: Network,
    task: Task,
    model: Model,
    *,
    algorithm: str = AUTO,
    chunks: int = 0,
    effort: Effort | None = None,
) -> Choice:
    """Schedule a collective by one algorithm, or by all of them for the fastest.

    Parameters
    ----------
    network, task, model
        What is to be done on what, and how links are held.
    algorithm
        ``auto``, or one of `algorithms`.
    chunks
        Pieces of the payload; 0 tries several numbers and takes the fastest.
    effort
        Of the synthesis.

    Raises
    ------
    InputError
        An unknown algorithm, or a number of chunks that does not fit.
    """
    known = algorithms(network, task)
    if algorithm != AUTO and algorithm not in known:
        hint = suggestion(algorithm, (AUTO, *known))
        raise InputError(f'algorithm: "{algorithm}" cannot be used here; {hint}')
    if chunks:
        with_chunks(task, chunks)
    notes = []
    if algorithm == AUTO and len(task.workers) > MAX_WORKERS:
        notes.append(f"classic algorithms are not tried with more than {MAX_WORKERS} workers")
    effort = effort or Effort()
    names = known if algorithm == AUTO else (algorithm,)
    outcomes = [_best_split(network, task, model, name, chunks, effort) for name in names]
    outcomes.sort(key=lambda outcome: outcome.schedule.time_ps)
    return Choice(tuple(outcomes), tuple(notes))


def _best_split(
    network: Network, task: Task, model: Model, name: str, chunks: int, effort: Effort
) -> Outcome:
    """One algorithm's fastest schedule over numbers of chunks."""
    began = time.process_time()
    best: Schedule | None = None
    attempts = stale = 0
    # Links along whole paths take longer to time than single ones.
    direct = name == SYNTHESISED and not network.switched
    most_sends = _MAX_SENDS if direct else _MAX_TIMED_SENDS
    for cut in [with_chunks(task, chunks)] if chunks else _splits(task, most_sends):
        spent = time.process_time() - began
        if best is not None and spent > effort.budget_s:
            break
        left = replace(effort, budget_s=max(effort.budget_s - spent, 0.0))
        made, tried = _schedule(network, cut, model, name, left)
        attempts += tried
        better = best is None or made.time_ps < best.time_ps * _WORTH
        stale = 0 if better else stale + 1
        if best is None or made.time_ps < best.time_ps:
            best = made
        if stale == 2:
            break
    if best is None:
        raise InputError(f"no number of chunks fits a payload of {task.payload_bytes} bytes")
    cpu_s = time.process_time() - began
    bounds = find_bounds(network, best.task, model)
    return Outcome(best, bounds, tuple(check_schedule(best)), attempts, cpu_s)


def _schedule(
    network: Network, task: Task, model: Model, name: str, effort: Effort
) -> tuple[Schedule, int]:
    if name == SYNTHESISED:
        make = synthesise_switched if network.switched else synthesise
        found = make(network, task, model, effort)
        return found.schedule, found.attempts
    if name in innetwork_names(network, task):
        made = innetwork_schedules(network, task, model, name)
        return min(made, key=lambda schedule: schedule.time_ps), len(made)
    return classic_schedule(network, task, model, name), 1


def _splits(task: Task, most_sends: int) -> Iterator[Task]:
    """The task with 1, 2, 4 … chunks per part, as long as they fit and are not too many."""
    split = 1
    most = _MAX_SINGLE_SPLIT if task.parts == 1 else _MAX_SPLIT
    while split <= most and split * task.parts <= task.payload_bytes:
        cut = replace(task, split=split)
        if split > 1 and (too_many(cut) or _sends(cut) > most_sends):
            break
        yield with_chunks(task, split * task.parts)
        split *= 2


def _sends(task: Task) -> int:
    """About how many sends a schedule has."""
    if task.collective == "all-to-all":
        return task.chunks
    others = len(task.workers) - 1
    return task.chunks * (2 * others if task.collective == "all-reduce" else others)

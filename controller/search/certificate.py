"""The certificate of an answer: how much better a schedule could be at most."""

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from controller.search.front import Point
from controller.search.longbound import bound_long
from controller.search.shortproof import ShortProof, prove_short
from controller.search.tasks import this_worker


@dataclass(frozen=True)
class Certificate:
    """What is proved, for one tree per stream and one constant rate per stream.

    Attributes
    ----------
    short
        Outcome for all rotations of one or two rounds.
    long_lower_ms
        No rotation of any length has a smaller T (A + ½).
    gap
        (objective − bound) / objective, over rotations of any length.
    statement
        The same in one sentence.
    """

    short: ShortProof
    long_lower_ms: float
    gap: float
    statement: str


def certify(pool: ProcessPoolExecutor, best: Point, budget_s: float) -> Certificate | None:
    """Prove what can be proved in some time; ``None`` where there are too many islands.

    Parameters
    ----------
    pool
        Processes that `prepare_worker` has prepared.
    best
        The answer.
    budget_s
        Time for it.
    """
    deadline = time.monotonic() + budget_s
    long = pool.submit(_long, best.objective_ms, deadline)
    short = pool.submit(_short, best.objective_ms, deadline).result()
    lower_ms = long.result()
    if short is None or lower_ms is None:
        return None
    gap = max(0.0, 1 - lower_ms / short.objective_ms)
    return Certificate(short, lower_ms, gap, _statement(short, lower_ms, gap, len(best.rounds)))


def _short(known_ms: float, deadline: float) -> ShortProof | None:
    worker = this_worker()
    if worker.pool is None or not worker.times.table.complete:
        return None
    return prove_short(worker.times, worker.pool, known_ms, deadline=deadline)


def _long(known_ms: float, deadline: float) -> float | None:
    worker = this_worker()
    if worker.pool is None or not worker.times.table.complete:
        return None
    return bound_long(worker.times, worker.pool, known_ms, deadline=deadline)


def _statement(short: ShortProof, lower_ms: float, gap: float, period: int) -> str:
    known = f"{short.objective_ms:.1f} ms"
    if short.proved and period <= 2:
        first = f"no rotation of one or two rounds is better than {known} (proved)"
    elif short.proved:
        first = f"no rotation of one or two rounds is better than {known} of {period} (proved)"
    else:
        # Out of time before all were looked at, there may be none that are known to be open.
        open_ones = short.unsettled or "some"
        first = (
            f"no rotation of one or two rounds is better than {max(short.lower_ms, lower_ms):.1f} "
            f"ms ({open_ones} of {short.pairs} are unsettled)"
        )
    return f"{first}; none of any length better than {lower_ms:.1f} ms (gap {gap:.1%})"

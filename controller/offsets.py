"""Send offsets alone: how far apart streams arrive, and the least buffering they allow."""

from collections.abc import Mapping, Sequence

import numpy as np

from controller.linear import LinearProgram
from controller.multicast import Tree
from testbed.errors import CliquenetError

TIE_BREAK = 1e-4
"""Price of a mean offset: small against any real gain, so it only decides ties."""

DIGITS = 6
"""Times are whole nanoseconds, so that the solver's last bits never show."""


def arrival_spreads_ms(trees: Sequence[Tree], offsets_ms: Mapping[int, float]) -> dict[int, float]:
    """Receiver to the time between the starts of its first and last stream, in ms."""
    arrivals: dict[int, list[float]] = {}
    for tree in trees:
        for city, delay_ms in tree.delays_ms.items():
            arrivals.setdefault(city, []).append(offsets_ms[tree.sender] + delay_ms)
    return {city: max(times) - min(times) for city, times in sorted(arrivals.items())}


def least_spread(trees: Sequence[Tree], *, every: bool = False) -> tuple[float, dict[int, float]]:
    """Find the least that the worst receiver must buffer, as time of a stream.

    Parameters
    ----------
    trees
        One per sender.
    every
        Whether what must be buffered is each stream's lead over the last one,
        added up, instead of the largest lead.

    Returns
    -------
    spread_ms : float
        h*: minimum over the offsets of the largest spread at any receiver
        (with ``every``: of the largest sum).
    offsets_ms : dict
        Sender to an offset that reaches it.
    """
    program = LinearProgram()
    program.columns(len(trees))
    senders_to: dict[int, list[tuple[int, float]]] = {}
    for j, tree in enumerate(trees):
        for city, delay_ms in tree.delays_ms.items():
            senders_to.setdefault(city, []).append((j, delay_ms))
    last = program.columns(len(senders_to))
    worst = program.columns(1)
    for column, arriving in enumerate(senders_to.values(), start=last):
        for j, delay_ms in arriving:
            program.add({j: 1.0, column: -1.0}, -delay_ms)
            if not every:
                program.add({column: 1.0, j: -1.0, worst: -1.0}, delay_ms)
        if every:
            terms = {column: float(len(arriving)), worst: -1.0, **{j: -1.0 for j, _ in arriving}}
            program.add(terms, sum(delay_ms for _, delay_ms in arriving))
    cost = np.zeros(program.size)
    cost[worst] = 1.0
    cost[: len(trees)] = TIE_BREAK / len(trees)
    found = program.solve(cost, np.zeros(program.size), np.full(program.size, np.inf))
    if found is None:
        raise CliquenetError("the solver found no offsets at all for a round")
    offsets_ms = {
        tree.sender: max(0.0, round(float(found.values[j]), DIGITS)) for j, tree in enumerate(trees)
    }
    if every:
        return float(found.values[worst]), offsets_ms
    return max(arrival_spreads_ms(trees, offsets_ms).values()), offsets_ms

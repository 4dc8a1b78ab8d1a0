"""The linear program over send offsets, and the least buffering it can reach."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from controller.multicast import Tree
from testbed.errors import CliquenetError

Vector: TypeAlias = npt.NDArray[np.float64]

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


def least_spread(trees: Sequence[Tree]) -> tuple[float, dict[int, float]]:
    """Find the least that the worst receiver must buffer, as time of a stream.

    Returns
    -------
    spread_ms : float
        h*: minimum over the offsets of the largest spread at any receiver.
    offsets_ms : dict
        Sender to an offset that reaches it.
    """
    program = OffsetProgram(trees, extra=1)
    program.bound_spread(share=1.0, column=program.extra)
    cost = np.zeros(program.size)
    cost[program.extra] = 1.0
    cost[: program.senders] = TIE_BREAK / program.senders
    values = program.solve(cost, np.zeros(program.size))
    if values is None:
        raise CliquenetError("the solver found no offsets at all for a round")
    offsets_ms = program.offsets_ms(values)
    return max(arrival_spreads_ms(trees, offsets_ms).values()), offsets_ms


class OffsetProgram:
    """A linear program over offsets, first and last arrivals, and extra columns.

    The arrival columns keep it small: a receiver with n senders needs 2n rows
    instead of one for each pair of senders.

    Parameters
    ----------
    trees
        One per sender; column j is the offset of ``trees[j]``.
    extra
        How many columns of the caller's own follow; the first is ``extra``.
    """

    def __init__(self, trees: Sequence[Tree], extra: int) -> None:
        self.trees = trees
        self.senders = len(trees)
        self.receivers = sorted({city for tree in trees for city in tree.receivers})
        count = len(self.receivers)
        self.first = {city: self.senders + i for i, city in enumerate(self.receivers)}
        self.last = {city: self.senders + count + i for i, city in enumerate(self.receivers)}
        self.extra = self.senders + 2 * count
        self.size = self.extra + extra
        self._rows: list[tuple[dict[int, float], float]] = []
        for j, tree in enumerate(trees):
            for city, delay_ms in tree.delays_ms.items():
                self.add({j: 1.0, self.last[city]: -1.0}, -delay_ms)
                self.add({j: -1.0, self.first[city]: 1.0}, delay_ms)

    def add(self, terms: dict[int, float], at_most: float = 0.0) -> None:
        """Add the row Σ coefficient · column ≤ at_most."""
        self._rows.append((terms, at_most))

    def bound_spread(self, *, share: float, column: int) -> None:
        """Keep last − first arrival within share × column, at each receiver."""
        for city in self.receivers:
            self.add({self.last[city]: 1.0, self.first[city]: -1.0, column: -share})

    def solve(
        self,
        cost: Vector,
        lower: Vector,
        upper: Vector | None = None,
    ) -> Vector | None:
        """Minimise; ``None`` if there is no solution."""
        entries = [(r, c, v) for r, (terms, _) in enumerate(self._rows) for c, v in terms.items()]
        row, column, value = zip(*entries, strict=True)
        matrix = coo_matrix((value, (row, column)), shape=(len(self._rows), self.size)).tocsr()
        highest = np.full(self.size, np.inf) if upper is None else upper
        result = linprog(
            cost,
            A_ub=matrix,
            b_ub=[most for _, most in self._rows],
            bounds=np.column_stack([lower, highest]),
            method="highs-ds",
        )
        if result.status == 2:
            return None
        if result.status != 0:
            raise CliquenetError(f"the solver gave up on a round: {result.message}")
        values: Vector = result.x
        return values

    def offsets_ms(self, values: Vector) -> dict[int, float]:
        """Sender's city index to its offset."""
        offsets = [max(0.0, round(float(value), DIGITS)) for value in values[: self.senders]]
        return {tree.sender: offsets[j] for j, tree in enumerate(self.trees)}

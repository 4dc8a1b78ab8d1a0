"""A linear program in rows that remember what they stand for (solved by HiGHS)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from testbed.errors import CliquenetError

Vector: TypeAlias = npt.NDArray[np.float64]
Tag: TypeAlias = tuple[str, int, int]
"""Kind of a row, and two indices whose meaning the kind gives."""


@dataclass(frozen=True)
class Solution:
    """Values of the columns, and by how much the cost falls per unit of each row's limit."""

    cost: float
    values: Vector
    marginals: Vector
    """One per row, d cost / d limit, never positive."""


class LinearProgram:
    """Minimise cost · x subject to rows Σ coefficient · column ≤ limit and to bounds.

    Attributes
    ----------
    tags
        One per row.
    """

    def __init__(self) -> None:
        self.size = 0
        self.tags: list[Tag] = []
        self._limits: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._value: list[float] = []

    def columns(self, count: int) -> int:
        """Add columns; returns the first one's index."""
        first = self.size
        self.size += count
        return first

    def add(self, terms: Mapping[int, float], at_most: float, tag: Tag = ("", 0, 0)) -> None:
        """Add the row Σ coefficient · column ≤ at_most."""
        self._row.extend([len(self.tags)] * len(terms))
        self._column.extend(terms.keys())
        self._value.extend(terms.values())
        self._limits.append(at_most)
        self.tags.append(tag)

    def solve(
        self,
        cost: Vector,
        lower: Vector,
        upper: Vector,
        *,
        interior: bool = False,
        shift: Vector | None = None,
    ) -> Solution | None:
        """Minimise; ``None`` if no point satisfies the rows.

        Parameters
        ----------
        cost, lower, upper
            One value per column.
        interior
            Interior points with crossover: faster for large programs.
        shift
            Added to the rows' limits, one value per row.

        Raises
        ------
        CliquenetError
            The solver gave up.
        """
        shape = (len(self.tags), self.size)
        result = linprog(
            cost,
            A_ub=coo_matrix((self._value, (self._row, self._column)), shape=shape).tocsr(),
            b_ub=self._limits if shift is None else self._limits + shift,
            bounds=np.column_stack([lower, upper]),
            method="highs-ipm" if interior else "highs-ds",
        )
        if result.status == 2:
            return None
        if result.status != 0:
            raise CliquenetError(f"the solver gave up on a round: {result.message}")
        return Solution(float(result.fun), result.x, result.ineqlin.marginals)

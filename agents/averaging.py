"""Averaging in fixed point: where the islands start, and where they should be.

Every island averages its parameter vector with its clique's once per round. The
replay does the same for all islands at once, from the plan alone: what the
packets should have brought. Ours.
"""

import numpy as np
import numpy.typing as npt

from agents.weights import range_of
from agents.wire import DType, Elements, Values
from controller.plan import Plan
from testbed.errors import InputError

ORTHOGONAL_FROM = 16
"""Elements per island from which on start vectors are made orthogonal."""

_START_STREAM = 0


def average(total: Values, count: int) -> Elements:
    """Mean of ``count`` vectors from their sum, rounded to the nearest integer.

    Halves go to the even neighbour, so the error is at most ½ and zero on
    average. It is exact: a quotient of such integers is nearer to no half than
    a float64 can tell.
    """
    return np.rint(total / count).astype(np.int32)


def start_tables(
    seed: int, islands: int, shape: tuple[int, int], dtype: DType = DType.I32
) -> list[Elements]:
    """Parameter vectors of all islands before round 0.

    Independent uniform vectors, freed of their chance correlations by
    Gram-Schmidt and of one length. So the squared disagreement after any
    averaging M is exactly what ‖M − J‖² expects of independent vectors, not
    only on average. A vector of less than `ORTHOGONAL_FROM` elements per
    island keeps its correlations.

    Parameters
    ----------
    seed
        Another seed, other vectors.
    islands, shape
        How many, and rows and elements of each.
    dtype
        What they are sent as, which says how large they may be.

    Raises
    ------
    InputError
        The elements do not fit the range, which takes vectors of a few elements.
    """
    size = shape[0] * shape[1]
    made: list[npt.NDArray[np.float64]] = []
    for island in range(islands):
        sequence = np.random.SeedSequence([seed, _START_STREAM, island])
        vector = np.random.Generator(np.random.PCG64(sequence)).random(size) - 0.5
        # No BLAS here: it would start threads in an agent that has to stay single-threaded.
        for other in made if size >= ORTHOGONAL_FROM * islands else ():
            vector -= (vector * other).sum() / size * other
        made.append(vector / np.sqrt(np.square(vector).mean()))
    sizes = range_of(dtype)
    tables = [np.rint(vector * sizes.start_rms).astype(np.int32).reshape(shape) for vector in made]
    if max(int(np.abs(table).max()) for table in tables) >= sizes.table:
        raise InputError("the start vectors leave the fixed-point range; raise the payload")
    return tables


class Replay:
    """The true sums of one island's cliques, round by round.

    Parameters
    ----------
    plan, city
        The run, and the island.
    tables
        All islands' parameter vectors before round 0.
    """

    def __init__(self, plan: Plan, city: int, tables: list[Elements]) -> None:
        self._plan = plan
        self._city = city
        self._tables = list(tables)
        self._next = 0
        self._totals: dict[int, Elements] = {}

    @property
    def tables(self) -> list[Elements]:
        """All islands' parameter vectors after the rounds that were replayed."""
        return self._tables

    def total(self, round_index: int) -> Elements:
        """Sum of the tables of the own clique as they are sent in a round.

        Rounds are replayed when they are first asked for; the latest two are kept.

        Raises
        ------
        KeyError
            The round is past, or the island is in no clique.
        """
        while self._next <= round_index:
            self.step()
        return self._totals[round_index]

    def step(self) -> None:
        """Replay one round."""
        k, topology = self._next, self._plan.topology
        for codes in self._plan.round(k).cliques:
            clique = [topology.index(code) for code in codes]
            total = self._tables[clique[0]].copy()
            for city in clique[1:]:
                total += self._tables[city]
            if self._city in clique:
                self._totals[k] = total
            mean = average(total, len(clique))
            for city in clique:
                self._tables[city] = mean
        self._totals.pop(k - 2, None)
        self._next += 1

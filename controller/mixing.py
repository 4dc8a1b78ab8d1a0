"""Mixing: how fast repeated averaging inside cliques makes all islands agree.

Round s replaces each island's vector by the mean of its clique: a doubly
stochastic matrix W_s. After k rounds from phase s the product is
M = W_{s+k−1} … W_s, and J = 11ᵀ/N is perfect agreement. The survival curve
S(k) is what is left of a disagreement after k rounds, averaged over the phases
of the period, with S(0) = 1; the average disagreement lifetime is
A = Σ S(k), k = 0, 1, …

The paper defines A by its survival curve. Which norm measures "what is left"
is ours; root mean square is the default.

========  ==========================================================
``rms``   ‖M − J‖_F / √(N−1): expected error of independent vectors
``var``   its square: expected variance
``tv``    mean total variation distance of the rows of M from 1/N,
          relative to that of the identity, 1 − 1/N
``reach`` mean share of the other islands that an island's vector does
          not depend on yet
========  ==========================================================
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from controller.schedule import Schedule
from testbed.errors import CliquenetError

Matrix: TypeAlias = npt.NDArray[np.float64]

_DIGITS = 14
_SETTLED = 1e-13
_MAX_PERIODS = 20_000


def _rms(product: Matrix) -> float:
    count = len(product)
    return float(np.linalg.norm(product - 1 / count) / math.sqrt(count - 1))


def _var(product: Matrix) -> float:
    return _rms(product) ** 2


def _tv(product: Matrix) -> float:
    count = len(product)
    distance = np.abs(product - 1 / count).sum(axis=1).mean() / 2
    return float(distance / (1 - 1 / count))


def _reach(product: Matrix) -> float:
    count = len(product)
    reached = (product > 0).sum(axis=1).mean() - 1
    return float(1 - reached / (count - 1))


NORMS: dict[str, Callable[[Matrix], float]] = {
    "rms": _rms,
    "var": _var,
    "tv": _tv,
    "reach": _reach,
}


@dataclass(frozen=True)
class Mixing:
    """What a schedule does to disagreement.

    Attributes
    ----------
    lifetime
        Norm to A; infinite if some islands never hear of each other.
    survival
        S(k), rms, from k = 0.
    contraction
        Error left per round, ‖M_P − J‖₂^(1/P): the worst direction's.
    """

    lifetime: dict[str, float]
    survival: tuple[float, ...]
    contraction: float


def averaging_matrix(cliques: Sequence[Sequence[int]], count: int) -> Matrix:
    """W of one round, shape (count, count): block averaging, idle islands keep theirs.

    Parameters
    ----------
    cliques
        Disjoint cliques of island indices.
    count
        Number of islands.
    """
    matrix = np.eye(count)
    for clique in cliques:
        matrix[np.ix_(clique, clique)] = 1 / len(clique)
    return matrix


def mix(schedule: Schedule, codes: Sequence[str], *, survival_rounds: int = 65) -> Mixing:
    """Work out survival curve, lifetimes and contraction of a schedule.

    Parameters
    ----------
    schedule
        Rounds of disjoint cliques of city codes.
    codes
        All islands, also those that no clique names.
    survival_rounds
        Length at which the reported survival curve is cut.
    """
    index = {code: i for i, code in enumerate(codes)}
    rounds = [
        averaging_matrix([[index[code] for code in clique] for clique in cliques], len(codes))
        for cliques in schedule.rounds
    ]
    lifetime = {name: _lifetime(rounds, norm) for name, norm in NORMS.items()}
    curve = survival_curve(rounds, survival_rounds)
    last = next((k for k, left in enumerate(curve) if left == 0), len(curve) - 1)
    product = np.eye(len(codes))
    for matrix in rounds:
        product = matrix @ product
    left_over = round(float(np.linalg.norm(product - 1 / len(codes), ord=2)), _DIGITS)
    return Mixing(lifetime, tuple(curve[: last + 1]), left_over ** (1 / len(rounds)))


def survival_curve(rounds: Sequence[Matrix], length: int, norm: str = "rms") -> list[float]:
    """S(0), …, S(length − 1) of a period of averaging matrices."""
    return list(itertools.islice(_survival(rounds, NORMS[norm]), length))


def _survival(rounds: Sequence[Matrix], norm: Callable[[Matrix], float]) -> Iterator[float]:
    """S(0), S(1), …: the mean over the phases of what is left after k rounds."""
    products = [np.eye(len(rounds[0])) for _ in rounds]
    for k in itertools.count():
        left = float(np.mean([norm(product) for product in products]))
        yield round(left, _DIGITS)
        products = [
            rounds[(phase + k) % len(rounds)] @ product for phase, product in enumerate(products)
        ]


def _lifetime(rounds: Sequence[Matrix], norm: Callable[[Matrix], float]) -> float:
    """Sum up the survival curve of one norm: A, infinite if the curve never ends.

    Slow curves end up geometric from period to period. Once the ratio of two
    periods has settled, the rest is summed in closed form.
    """
    if _parts(rounds) > 1:
        return math.inf
    curve = _survival(rounds, norm)
    total, before, ratio_before = 0.0, 0.0, math.inf
    for _ in range(_MAX_PERIODS):
        in_period = sum(itertools.islice(curve, len(rounds)))
        total += in_period
        ratio = in_period / before if before else math.inf
        rest = in_period * ratio / (1 - ratio) if ratio < 1 else math.inf
        settled = abs(ratio - ratio_before) * rest < _SETTLED * total * (1 - ratio)
        if in_period < _SETTLED * total or (ratio < 1 and settled):
            return total + (rest if ratio < 1 else 0.0)
        before, ratio_before = in_period, ratio
    raise CliquenetError(f"the survival curve has not settled after {_MAX_PERIODS} periods")


def _parts(rounds: Sequence[Matrix]) -> int:
    """Count the groups of islands that never hear of each other."""
    reach = (np.sum(rounds, axis=0) > 0).astype(np.float64)
    for _ in range(math.ceil(math.log2(len(reach)))):
        reach = ((reach @ reach) > 0).astype(np.float64)
    return len({tuple(row) for row in reach.tolist()})

"""Mixing: how fast repeated averaging inside cliques makes all islands agree.

Round s replaces each island's vector by the weighted mean of its clique:
W_ij = w_j / Σ w over i's clique. That keeps the weighted average of all islands
as it is, πᵀW = πᵀ with π = w / Σ w, so islands with batches of different sizes
stay unbiased. After k rounds from phase s the product is M = W_{s+k−1} … W_s,
and J = 1πᵀ is perfect agreement. The survival curve S(k) is what is left of a
disagreement after k rounds, averaged over the phases of the period, with
S(0) = 1; the average disagreement lifetime is A = Σ S(k), k = 0, 1, …

The paper defines A by its survival curve. Which norm measures "what is left" is
ours, and so are weights; root mean square is the default norm.

========  ==========================================================
``rms``   ‖D(M − J)D⁻¹‖_F / √(N−1), D = diag(√π): expected error of
          independent vectors whose variance is inverse to the weight,
          as that of gradients is to the batch; ‖M − J‖_F / √(N−1) for
          equal weights
``var``   its square: expected variance
``tv``    mean total variation distance of the rows of M from π,
          relative to that of the identity
``reach`` mean share of the others that an island's vector does not
          depend on yet
========  ==========================================================

Means over islands, and shares of them, are by weight.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from controller.schedule import Schedule
from testbed.errors import CliquenetError, InputError

Matrix: TypeAlias = npt.NDArray[np.float64]
Vector: TypeAlias = npt.NDArray[np.float64]

_DIGITS = 14
_SETTLED = 1e-13
_MAX_PERIODS = 20_000


def _rms(product: Matrix, shares: Vector) -> float:
    roots = np.sqrt(shares)
    left = (product - shares) * roots[:, None] / roots
    return float(np.linalg.norm(left) / math.sqrt(len(product) - 1))


def _var(product: Matrix, shares: Vector) -> float:
    return _rms(product, shares) ** 2


def _tv(product: Matrix, shares: Vector) -> float:
    distance = shares @ np.abs(product - shares).sum(axis=1) / 2
    return float(distance / (1 - shares @ shares))


def _reach(product: Matrix, shares: Vector) -> float:
    missing = shares @ ((product == 0) @ shares)
    return float(missing / (1 - shares @ shares))


NORMS: dict[str, Callable[[Matrix, Vector], float]] = {
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
        Error left per round, ‖D(M_P − J)D⁻¹‖₂^(1/P): the worst direction's.
    """

    lifetime: dict[str, float]
    survival: tuple[float, ...]
    contraction: float

    def decay_per_s(self, round_ms: float) -> float:
        """Rate ln(1/ρ)/T at which the error decays, per second.

        Infinite if all agree exactly after a period, 0 if they never do.
        """
        if not round_ms > 0:
            raise InputError(f"a round must take more than 0 ms, not {round_ms:g}")
        if self.contraction == 0:
            return math.inf
        return max(0.0, -math.log(self.contraction)) / (round_ms / 1000)


def averaging_matrix(
    cliques: Sequence[Sequence[int]], count: int, weights: Sequence[float] | Vector | None = None
) -> Matrix:
    """W of one round, shape (count, count): block averaging, idle islands keep theirs.

    Parameters
    ----------
    cliques
        Disjoint cliques of island indices.
    count
        Number of islands.
    weights
        Of each island in the mean of its clique; equal by default.
    """
    own = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    matrix = np.eye(count)
    for clique in cliques:
        members = list(clique)
        matrix[np.ix_(members, members)] = own[members] / own[members].sum()
    return matrix


def mix(
    schedule: Schedule,
    codes: Sequence[str],
    *,
    survival_rounds: int = 65,
    weights: Mapping[str, float] | None = None,
) -> Mixing:
    """Work out survival curve, lifetimes and contraction of a schedule.

    Parameters
    ----------
    schedule
        Rounds of disjoint cliques of city codes.
    codes
        All islands, also those that no clique names; two or more.
    survival_rounds
        Length at which the reported survival curve is cut.
    weights
        Code to the weight of that island, for instance its batch size; equal
        by default.

    Raises
    ------
    InputError
        A weight is missing, or not a number above 0.
    """
    shares = _shares(codes, weights)
    rounds = _matrices(schedule, codes, shares)
    lifetime = {name: _lifetime(rounds, shares, norm) for name, norm in NORMS.items()}
    curve = survival_curve(rounds, survival_rounds, shares=shares)
    last = next((k for k, left in enumerate(curve) if left == 0), len(curve) - 1)
    return Mixing(lifetime, tuple(curve[: last + 1]), _contraction(rounds, shares))


def timed_objective_ms(
    schedule: Schedule, codes: Sequence[str], round_ms: Sequence[float], norm: str = "rms"
) -> float:
    """T (A + ½) where each round takes its own time, in ms.

    Ours. A disagreement that arises before round s is left at S_s(k) while
    round s + k runs. So A T becomes the mean over s of Σ_k S_s(k) T_{s+k}, and
    T / 2 half the mean of the durations. Equal durations give the paper's figure.

    Parameters
    ----------
    schedule, codes
        As for `mix`.
    round_ms
        Duration of each round of the period.
    norm
        One of `NORMS`.

    Raises
    ------
    InputError
        Not one duration above 0 for each round.
    """
    if len(round_ms) != len(schedule.rounds) or not all(t > 0 for t in round_ms):
        raise InputError(f"expected {len(schedule.rounds)} durations above 0, one for each round")
    shares = _shares(codes, None)
    lived_ms = _lifetime(_matrices(schedule, codes, shares), shares, NORMS[norm], round_ms)
    return lived_ms + float(np.mean(round_ms)) / 2


def survival_curve(
    rounds: Sequence[Matrix], length: int, norm: str = "rms", *, shares: Vector | None = None
) -> list[float]:
    """S(0), …, S(length − 1) of a period of averaging matrices.

    Parameters
    ----------
    rounds
        W of each round.
    length
        How many values.
    norm, shares
        One of `NORMS`, and π; equal shares by default.
    """
    even = np.full(len(rounds[0]), 1 / len(rounds[0])) if shares is None else shares
    return list(itertools.islice(_survival(rounds, even, NORMS[norm]), length))


def _shares(codes: Sequence[str], weights: Mapping[str, float] | None) -> Vector:
    """Weights as shares of their sum, in the order of the codes."""
    if weights is None:
        return np.full(len(codes), 1 / len(codes))
    for code in codes:
        weight = weights.get(code)
        if weight is None:
            raise InputError(f'the weight of island "{code}" is missing')
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f'the weight of island "{code}" must be above 0, not {weight:g}')
    own = np.array([weights[code] for code in codes], dtype=np.float64)
    shares: Vector = own / own.sum()
    return shares


def _matrices(schedule: Schedule, codes: Sequence[str], shares: Vector) -> list[Matrix]:
    """W of each round of a schedule."""
    index = {code: i for i, code in enumerate(codes)}
    rounds = [[[index[code] for code in q] for q in cliques] for cliques in schedule.rounds]
    return [averaging_matrix(cliques, len(codes), shares) for cliques in rounds]


def _contraction(rounds: Sequence[Matrix], shares: Vector) -> float:
    """Geometric mean per round of what a period leaves of the worst direction."""
    product = np.eye(len(shares))
    for matrix in rounds:
        product = matrix @ product
    roots = np.sqrt(shares)
    left = (product - shares) * roots[:, None] / roots
    return float(round(float(np.linalg.norm(left, ord=2)), _DIGITS) ** (1 / len(rounds)))


def _survival(
    rounds: Sequence[Matrix],
    shares: Vector,
    norm: Callable[[Matrix, Vector], float],
    durations: Sequence[float] | None = None,
) -> Iterator[float]:
    """S(0), S(1), …: the mean over the phases of what is left after k rounds.

    With durations, each phase counts with that of the round that comes next.
    """
    products = [np.eye(len(rounds[0])) for _ in rounds]
    lasting = [1.0] * len(rounds) if durations is None else durations
    for k in itertools.count():
        left = [
            norm(product, shares) * lasting[(phase + k) % len(rounds)]
            for phase, product in enumerate(products)
        ]
        yield round(float(np.mean(left)), _DIGITS)
        products = [
            rounds[(phase + k) % len(rounds)] @ product for phase, product in enumerate(products)
        ]


def _lifetime(
    rounds: Sequence[Matrix],
    shares: Vector,
    norm: Callable[[Matrix, Vector], float],
    durations: Sequence[float] | None = None,
) -> float:
    """Sum up the survival curve of one norm: A, infinite if the curve never ends.

    Slow curves end up geometric from period to period. Once the ratio of two
    periods has settled, the rest is summed in closed form.
    """
    if _parts(rounds) > 1:
        return math.inf
    curve = _survival(rounds, shares, norm, durations)
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

"""How fast the islands came to agree: the survival curve, from their parameter vectors.

S(k) is the islands' distance from their mean after k rounds, relative to that
of the start (Frobenius norm). The run starts with round 0 of the period. Ours.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from controller.mixing import NORMS, Matrix, averaging_matrix
from controller.plan import Plan
from testbed.errors import InputError

_FLOAT_ERROR = 1e-13
"""Per round, of this module's own arithmetic, relative to the start."""
_DIGITS = 14
_SETTLED = 1e-12
_MAX_PERIODS = 20_000

Curve = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Decay:
    """Curves of shape (rounds + 1,), all relative to the disagreement of the start.

    Attributes
    ----------
    measured
        S(k) of the islands' vectors.
    planned
        ‖M − J‖_F / √(N−1), M the product of the run's first k averaging
        matrices: what independent vectors should leave.
    deviation
        Distance, apart from their means, of the vectors from M · (start vectors).
    bound
        How large rounding may have made the deviation.
    tail
        What the last vectors would still add to A if the schedule went on for
        ever and averaged exactly; None if the schedule never mixes.
    """

    measured: Curve
    planned: Curve
    deviation: Curve
    bound: Curve
    tail: float | None

    @property
    def lifetime(self) -> float | None:
        """A as measured: the sum of S(k) from round 0 on, its tail included."""
        return None if self.tail is None else self.seen + self.tail

    @property
    def seen(self) -> float:
        """The part of A that the run itself showed: S(k) after each of its rounds, and S(0)."""
        return float(self.measured.sum())

    @property
    def error(self) -> float:
        """Largest difference of the measured curve from the planned one."""
        return float(np.abs(self.measured - self.planned).max())

    def table(self) -> pd.DataFrame:
        """One row per k."""
        return pd.DataFrame(
            {
                "k": np.arange(len(self.measured)),
                "planned": self.planned,
                "measured": self.measured,
                "deviation": self.deviation,
                "bound": self.bound,
            }
        )


def measure_decay(states: Sequence[npt.NDArray[np.int32]], plan: Plan) -> Decay:
    """Work the survival curve out.

    Parameters
    ----------
    states
        Every island's vectors, shape (rounds + 1, elements), by city index.
    plan
        The run.

    Raises
    ------
    InputError
        All islands start from the same vector, so there is nothing to survive.
    """
    matrices = _matrices(plan)
    count, elements = len(states), states[0].shape[1]
    exact = _vectors(states, 0)
    start = _spread(exact)
    if start == 0:
        raise InputError("all islands start from the same parameter vector")
    product, shares = np.eye(count), np.full(count, 1 / count)
    measured, planned, deviation = [], [], []
    for k in range(plan.rounds + 1):
        vectors = _vectors(states, k)
        measured.append(_spread(vectors) / start)
        planned.append(round(NORMS["rms"](product, shares), _DIGITS))
        deviation.append(_spread(vectors - exact) / start)
        exact = matrices[k % len(matrices)] @ exact
        product = matrices[k % len(matrices)] @ product
    bound = rounding_bound(matrices, plan.rounds, elements) / start
    tail = None
    if plan.prediction.a_rms is not None:
        centred = (vectors - vectors.mean(axis=0)) / start
        phase = plan.rounds % len(matrices)
        tail = _tail([*matrices[phase:], *matrices[:phase]], centred @ centred.T)
    bound += _FLOAT_ERROR * np.arange(1, plan.rounds + 2)
    return Decay(np.array(measured), np.array(planned), np.array(deviation), bound, tail)


def start_lifetime(plan: Plan) -> float | None:
    """A, rms, of independent vectors before round 0, where a run starts; ``None`` if infinite.

    The plan's own A is the mean over all rounds of the period to start from. A
    run sees one of them, so this is what its measured A has to agree with.
    """
    if plan.prediction.a_rms is None:
        return None
    matrices = _matrices(plan)
    count = len(matrices[0])
    return 1.0 + _tail(matrices, np.eye(count) / (count - 1))


def rounding_bound(matrices: Sequence[Matrix], rounds: int, elements: int) -> Curve:
    """How far rounding may carry the vectors from exact averaging, apart from their means.

    A round adds at most ½ to each element, the same in a whole clique. The
    rounds from that one on average the error like any other disagreement, so
    after k rounds it is at most ½ √(N d) Σ ‖M − J‖₂, summed over the products M
    of the last 1, 2, … k rounds.

    Parameters
    ----------
    matrices
        Averaging matrices of the period.
    rounds, elements
        Of the run, and of a vector (d).

    Returns
    -------
    ndarray
        Shape (rounds + 1,), from 0 rounds.
    """
    period, count = len(matrices), len(matrices[0])
    left = np.zeros((period, rounds + 1))
    for phase in range(period):
        product = np.eye(count)
        for length in range(1, rounds + 1):
            product = matrices[(phase + length - 1) % period] @ product
            left[phase, length] = np.linalg.norm(product - 1 / count, ord=2)
    sums = [
        math.fsum(left[(k - length) % period, length] for length in range(1, k + 1))
        for k in range(rounds + 1)
    ]
    return 0.5 * math.sqrt(count * elements) * np.array(sums)


def _matrices(plan: Plan) -> list[Matrix]:
    index = {code: city for city, code in enumerate(plan.topology.codes)}
    return [
        averaging_matrix([[index[code] for code in clique] for clique in r.cliques], len(index))
        for r in plan.period
    ]


def _vectors(states: Sequence[npt.NDArray[np.int32]], k: int) -> Matrix:
    return np.stack([state[k] for state in states]).astype(np.float64)


def _spread(vectors: Matrix) -> float:
    """Distance of the islands from their mean."""
    return float(np.linalg.norm(vectors - vectors.mean(axis=0)))


def _tail(matrices: Sequence[Matrix], gram: Matrix) -> float:
    """Sum S over all further rounds, from the inner products of the last vectors.

    Ends up geometric from period to period; once the ratio has settled, the
    rest is summed in closed form.
    """
    curve = _further(matrices, gram)
    total, before, ratio_before = 0.0, 0.0, math.inf
    for _ in range(_MAX_PERIODS):
        in_period = math.fsum(next(curve) for _ in matrices)
        total += in_period
        ratio = in_period / before if before else math.inf
        rest = in_period * ratio / (1 - ratio) if ratio < 1 else math.inf
        if in_period < _SETTLED or abs(ratio - ratio_before) * rest < _SETTLED * (1 - ratio):
            return total + (rest if ratio < 1 else 0.0)
        before, ratio_before = in_period, ratio
    return total + rest


def _further(matrices: Sequence[Matrix], gram: Matrix) -> Iterator[float]:
    """√tr((M − J) G (M − J)ᵀ) after 1, 2, … more rounds."""
    product = np.eye(len(gram))
    while True:
        for matrix in matrices:
            product = matrix @ product
            left = product - 1 / len(gram)
            yield math.sqrt(max(0.0, float(np.sum(left @ gram * left))))

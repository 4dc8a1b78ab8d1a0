"""Disagreement lifetimes of many candidate schedules at once, and bounds on them.

The same A as `controller.mixing` (rms norm, equal weights), summed in bulk and
only as far as it takes to see that a candidate is not good enough.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SETTLED = 1e-9
_MAX_ROUNDS = 4_000


def rms_lifetimes(stacks: Floats, limit: float) -> Floats:
    """Sum up S(k) for each of several schedules of one period.

    Parameters
    ----------
    stacks
        Averaging matrices, shape (schedules, period, islands, islands).
    limit
        A schedule is given up once its A is known to exceed this.

    Returns
    -------
    array
        A of each schedule, to about 1e-7; infinite where it exceeds the limit.
    """
    count, period, islands, _ = stacks.shape
    found = np.full(count, np.inf)
    alive = np.arange(count)
    products = stacks.copy()
    total = np.ones(count)
    before, in_period, ratio_before = np.zeros(count), np.ones(count), np.full(count, np.inf)
    for k in range(1, _MAX_ROUNDS):
        left = _left_over(products, islands).mean(axis=1)
        total, in_period = total + left, in_period + left
        keep = total <= limit
        if (k + 1) % period == 0:
            rest, ratio, done = _tail(in_period, before, ratio_before, total)
            finished = done & keep
            found[alive[finished]] = (total + rest)[finished]
            keep &= ~done
            before, ratio_before, in_period = in_period, ratio, np.zeros_like(in_period)
        if not keep.all():
            alive, products, stacks = alive[keep], products[keep], stacks[keep]
            total, in_period = total[keep], in_period[keep]
            before, ratio_before = before[keep], ratio_before[keep]
        if not len(alive):
            break
        # Phase s has seen rounds s … s + k − 1, so round s + k is next.
        products = np.roll(stacks, -k, axis=1) @ products
    found[found > limit] = np.inf
    return found


def _left_over(products: Floats, islands: int) -> Floats:
    """‖M − J‖_F / √(N − 1) of each product; as M is doubly stochastic, ‖M‖² − 1."""
    squares = np.einsum("...ij,...ij->...", products, products) - 1
    left: Floats = np.sqrt(np.maximum(squares, 0.0) / (islands - 1))
    # Below the rounding of a sum of squares near 1 there is nothing left.
    return np.where(left < 1e-7, 0.0, left)


def _tail(
    in_period: Floats, before: Floats, ratio_before: Floats, total: Floats
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Geometric rest of each curve, its ratio, and where that has settled."""
    ratio = np.divide(in_period, before, out=np.full_like(before, np.inf), where=before > 0)
    shrinking = ratio < 1
    rest = np.zeros_like(ratio)
    rest[shrinking] = in_period[shrinking] * ratio[shrinking] / (1 - ratio[shrinking])
    known = shrinking & np.isfinite(ratio_before)
    change = np.abs(np.where(known, ratio, 0.0) - np.where(known, ratio_before, 0.0))
    settled = known & (change * rest < _SETTLED * total * (1 - np.minimum(ratio, 1)))
    done = (in_period < _SETTLED * total) | settled
    return rest, ratio, done


def two_round_bounds(first: Floats, second: Floats) -> Floats:
    """Bound A from below for all pairs of rounds that alternate.

    Ours. W is an orthogonal projection, so ‖W₂W₁ − J‖² = ⟨W₁, W₂⟩ − 1 = Σ c_i, with
    c_i the squared cosines between the two subspaces, and n alternating
    factors give Σ c_i^(n−1). There are at most r of them, r the smaller number
    of cliques less one, so by the power mean Σ c_i^m ≥ r c̄^m.

    Parameters
    ----------
    first, second
        Averaging matrices, shape (·, islands, islands).

    Returns
    -------
    array
        Shape (first, second): 1 + S(1) + S(2) + the least that can follow.
    """
    islands = first.shape[-1]
    flat_a, flat_b = first.reshape(len(first), -1), second.reshape(len(second), -1)
    rank_a = np.trace(first, axis1=1, axis2=2) - 1
    rank_b = np.trace(second, axis1=1, axis2=2) - 1
    scale = math.sqrt(islands - 1)
    start = 1 + (np.sqrt(rank_a)[:, None] + np.sqrt(rank_b)[None, :]) / (2 * scale)
    together = np.maximum(flat_a @ flat_b.T - 1, 0.0)
    most = np.maximum(np.minimum(rank_a[:, None], rank_b[None, :]), 1e-12)
    mean = np.minimum(together / most, 1.0)
    root = np.sqrt(mean)
    rest = np.where(root < 1 - 1e-9, np.sqrt(together) / np.maximum(1 - root, 1e-9), np.inf)
    bound: Floats = start + np.where(together > 1e-12, rest / scale, 0.0)
    return bound

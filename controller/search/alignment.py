"""All ways to lead the streams of a clique such that they arrive together.

Ours. Without memory all streams of a clique must start to arrive at a receiver
at the same time, so numbers t and τ must exist with t_j + d_ji = τ_i for each
sender j and receiver i. For pairs that is no condition; for three cities one,
which trees with the same ways in both directions always meet (the zero-memory
lemma); for more cities few trees do, those that meet in one hub among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.search.treetable import TreeTable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_EQUAL_MS = 1e-6
_MAX_PARTIAL = 30_000
_MAX_KEPT = 4_000


@dataclass(frozen=True)
class AlignedChoices:
    """Joint choices of trees for a clique.

    Attributes
    ----------
    copies
        Shape (choices, edges): streams of the clique on each edge.
    latency_ms
        Shape (choices,): when the streams arrive at the last receiver.
    picks
        Shape (choices, members): each sender's choice in the tree table, as
        `TreeTable.choose` numbers them with ``keep_all``.
    complete
        Whether these are all that are worth having.
    """

    copies: Floats
    latency_ms: Floats
    picks: Ints
    complete: bool


@dataclass(frozen=True)
class _Partial:
    """Choices of the first few senders: arrivals that they fix, and their offsets."""

    picks: Ints
    offsets_ms: Floats
    arrivals_ms: Floats
    complete: bool


def aligned_choices(table: TreeTable, clique: Sequence[int]) -> AlignedChoices:
    """List the ways to lead all streams of a clique such that they are aligned.

    Parameters
    ----------
    table
        Trees of the network.
    clique
        Three city indices or more.
    """
    size = len(clique)
    members = [
        table.choose(sender, [city for city in clique if city != sender], keep_all=True)
        for sender in clique
    ]
    first = _spread(members[0].delays_ms, 0, size)
    partial = _Partial(
        np.arange(len(first))[:, None], np.zeros((len(first), 1)), first, table.complete
    )
    for position in range(1, size):
        partial = _extend(partial, _spread(members[position].delays_ms, position, size))
    latency_ms = (partial.arrivals_ms - partial.offsets_ms.min(axis=1, keepdims=True)).max(axis=1)
    copies = np.zeros((len(partial.picks), len(table.ends)))
    for position, choice in enumerate(members):
        copies += choice.usage[partial.picks[:, position]]
    kept = _useful(copies, latency_ms)
    complete = partial.complete and len(kept) < _MAX_KEPT
    return AlignedChoices(copies[kept], latency_ms[kept], partial.picks[kept], complete)


def _spread(delays_ms: Floats, position: int, size: int) -> Floats:
    """Delays to all members, in their order; nothing to the sender itself."""
    full = np.full((len(delays_ms), size), np.nan)
    full[:, [member for member in range(size) if member != position]] = delays_ms
    return full


def _extend(partial: _Partial, delays_ms: Floats) -> _Partial:
    """Add one more sender to all partial choices, where its streams fit in."""
    pairs: list[Ints] = []
    total = 0
    for fresh, row in enumerate(delays_ms):
        gaps = partial.arrivals_ms - row
        unset = np.isnan(gaps)
        least = np.where(unset, np.inf, gaps).min(axis=1)
        most = np.where(unset, -np.inf, gaps).max(axis=1)
        fits = np.flatnonzero(most - least <= _EQUAL_MS)
        pairs.append(np.column_stack([fits, np.full(len(fits), fresh)]))
        total += len(fits)
        if total > _MAX_PARTIAL:
            break
    old, fresh_ones = np.concatenate(pairs).T
    arrivals_ms, sent_ms = partial.arrivals_ms[old], delays_ms[fresh_ones]
    gaps = arrivals_ms - sent_ms
    offset_ms = np.where(np.isnan(gaps), np.inf, gaps).min(axis=1)
    # The first sender's streams say nothing of its own arrivals; the second's do.
    arrivals_ms = np.where(np.isnan(arrivals_ms), offset_ms[:, None] + sent_ms, arrivals_ms)
    return _Partial(
        np.column_stack([partial.picks[old], fresh_ones]),
        np.column_stack([partial.offsets_ms[old], offset_ms]),
        arrivals_ms,
        partial.complete and total <= _MAX_PARTIAL,
    )


def _useful(copies: Floats, latency_ms: Floats) -> Ints:
    """Choices that no other one beats: no more copies on any edge and no later."""
    order = np.lexsort((copies.sum(axis=1), np.round(latency_ms, 6)))
    _, first = np.unique(copies[order], axis=0, return_index=True)
    kept: list[int] = []
    front = np.zeros((0, copies.shape[1]))
    for row in order[np.sort(first)].tolist():
        if not (front <= copies[row]).all(axis=1).any():
            kept.append(row)
            front = copies[kept]
        if len(kept) >= _MAX_KEPT:
            break
    return np.array(kept, dtype=np.int64)

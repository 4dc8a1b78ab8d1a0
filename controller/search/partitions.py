"""Rounds as set partitions: all of them for few islands, neighbours for many.

A round is written as a label per island: islands with the same label form a
clique, a label of its own means that the island sits the round out. Labels are
numbered in the order of their first island, so equal rounds have equal labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Labels: TypeAlias = tuple[int, ...]
Cliques: TypeAlias = tuple[tuple[int, ...], ...]


def labels_of(cliques: Iterable[Iterable[int]], count: int) -> Labels:
    """Labels of a round; islands in no clique get one of their own."""
    raw = list(range(count))
    for number, clique in enumerate(cliques):
        for island in clique:
            raw[island] = count + number
    return canonical(raw)


def canonical(raw: Sequence[int]) -> Labels:
    """Number labels in the order of their first island."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(label, len(seen)) for label in raw)


def cliques_of(labels: Labels) -> Cliques:
    """Cliques of two islands or more, in order of their first island."""
    members: dict[int, list[int]] = {}
    for island, label in enumerate(labels):
        members.setdefault(label, []).append(island)
    return tuple(tuple(group) for group in members.values() if len(group) > 1)


def all_partitions(count: int) -> npt.NDArray[np.int8]:
    """All partitions of the islands, shape (Bell number, count), as labels.

    The one in which every island sits out is left out. Nine islands have 21147
    with it.
    """
    rows = np.zeros((1, 1), dtype=np.int8)
    for _ in range(count - 1):
        options = rows.max(axis=1) + 2
        grown = np.repeat(rows, options, axis=0)
        starts = np.cumsum(options) - options
        label = np.arange(len(grown)) - np.repeat(starts, options)
        rows = np.column_stack([grown, label.astype(np.int8)])
    proper: npt.NDArray[np.int8] = rows[rows.max(axis=1) < count - 1]
    return proper


def averaging_stack(partitions: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    """W of each partition, shape (partitions, count, count): mean within the label."""
    same = partitions[:, :, None] == partitions[:, None, :]
    stack: npt.NDArray[np.float64] = same / same.sum(axis=2, keepdims=True)
    return stack


def neighbours(labels: Labels, rng: np.random.Generator, limit: int) -> Iterator[Labels]:
    """Rounds that differ a little: an island moved, two exchanged, cliques merged or split.

    Parameters
    ----------
    labels
        The round.
    rng
        Chooses which ones, if there are more than ``limit``.
    limit
        How many to list at most.
    """
    count = len(labels)
    moves = [(0, i, label) for i in range(count) for label in range(max(labels) + 2)]
    moves += [(1, i, j) for i in range(count) for j in range(i) if labels[i] != labels[j]]
    moves += [(2, a, b) for a in range(max(labels) + 1) for b in range(a)]
    moves += [(3, label, i) for label in range(max(labels) + 1) for i in range(count)]
    order = rng.permutation(len(moves))
    seen = {labels}
    for number in order.tolist():
        changed = canonical(_moved(labels, *moves[number]))
        if changed not in seen and max(changed) < count - 1:
            seen.add(changed)
            yield changed
            if len(seen) > limit:
                return


def _moved(labels: Labels, kind: int, first: int, second: int) -> list[int]:
    raw = list(labels)
    if kind == 0:
        raw[first] = second
    elif kind == 1:
        raw[first], raw[second] = raw[second], raw[first]
    elif kind == 2:
        raw = [second if label == first else label for label in raw]
    else:
        # Split: the islands of a clique up to this one leave it.
        new = max(labels) + 1
        raw = [new if label == first and i <= second else label for i, label in enumerate(raw)]
    return raw

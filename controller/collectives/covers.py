"""Disjoint partial sums: what the sum of a chunk can be put together from in the middle.

A contribution must not be added twice, and what is in a sum cannot be taken out again. So of
all that workers hold a set is chosen that has each contribution once: the largest partial sums
first, as long as they overlap with none before; then workers' own contributions, which they
keep until the end. Where values come from one tree of sums this is the smallest such set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.hostplan import HOLD, NOTHING, OWN, WITH_OWN


@dataclass(frozen=True)
class Cover:
    """What a chunk is put together from.

    Attributes
    ----------
    origin
        Per worker, where its part comes from; see `controller.hostplan.HOLD`.
    parts
        Per worker, the contributions of its part when all that is on its way to it has
        arrived; 0 if it has none.
    final
        Whether some worker has, or will have, the whole sum: the others need only copies.
    """

    origin: str
    parts: tuple[int, ...]
    final: bool


def cover(values: Sequence[int]) -> Cover:
    """Choose the parts of one chunk.

    Parameters
    ----------
    values
        Per worker, the contributions that it holds or will hold, a bit per worker.
    """
    everyone = (1 << len(values)) - 1
    if everyone in values:
        # What others hold is replaced by the copy that comes.
        parts = tuple(value if value == everyone else 0 for value in values)
        return Cover("".join(HOLD if part else NOTHING for part in parts), parts, True)
    chosen = [0] * len(values)
    covered = 0
    for worker in sorted(range(len(values)), key=lambda w: -values[w].bit_count()):
        # A value of one contribution is the worker's own, or a copy of somebody's.
        if values[worker] and not values[worker] & covered:
            chosen[worker] = values[worker]
            covered |= values[worker]
    origin = [HOLD if part else NOTHING for part in chosen]
    for worker in range(len(values)):
        own = 1 << worker
        if not covered & own:
            origin[worker] = WITH_OWN if chosen[worker] else OWN
            chosen[worker] |= own
    return Cover("".join(origin), tuple(chosen), False)

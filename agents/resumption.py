"""What an island's earlier lives left behind: the state and the records that they wrote.

Nothing is written down only for this: a life that was killed leaves its vectors of
all rounds that it had begun (`agents.state`) and its events (`agents.records`), from
which follows what it had sent, and what it had received of the open rounds and lost.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agents.averaging import Replay
from agents.records import EVENT_DTYPE, Kind, read_events
from agents.state import read_history
from agents.wire import Elements

PathOf = Callable[[str, int], Path]
"""A file by its suffix and life."""


@dataclass(frozen=True)
class Former:
    """What earlier lives of an island did.

    Attributes
    ----------
    history
        Its vectors by round, up to the round that it goes on from; shape (n, rows, elements).
    sent
        How many copies of the burst that begins with a block have left, by round and block.
    received
        Round, first block and count of what its latest life had received.
    """

    history: Elements
    sent: Counter[tuple[int, int]]
    received: tuple[tuple[int, int, int], ...]

    @property
    def round(self) -> int:
        """The latest round of which it is fixed what the island sends."""
        return len(self.history) - 1


def read_former(path_of: PathOf, lives: int, shape: tuple[int, int]) -> Former | None:
    """Read what ``lives`` earlier lives left; None if there is nothing to go on from.

    Parameters
    ----------
    path_of
        Where their files are.
    lives
        How many there were.
    shape
        Rows and elements of a vector.
    """
    history = read_history(path_of(".state", lives - 1), shape) if lives else None
    if history is None:
        return None
    events = [_events(path_of(".bin", life)) for life in range(lives)]
    sent: Counter[tuple[int, int]] = Counter()
    for of_life in events:
        bursts = of_life[of_life["kind"] == Kind.EMIT]
        sent.update(zip(bursts["round"].tolist(), bursts["block"].tolist(), strict=True))
    came = events[-1][np.isin(events[-1]["kind"], (Kind.AGGREGATE_IN, Kind.DATA_IN))]
    columns = (came[name].tolist() for name in ("round", "block", "count"))
    return Former(history, sent, tuple(zip(*columns, strict=True)))


def rows_behind(former: Former, replay: Replay, city: int) -> npt.NDArray[np.bool_]:
    """Rows of its latest vector that had not been averaged in time, shape (rows,)."""
    for _ in range(former.round):
        replay.step()
    same: npt.NDArray[np.bool_] = np.equal(former.history[-1], replay.tables[city])
    return np.logical_not(same.all(axis=1))


def _events(path: Path) -> npt.NDArray[np.void]:
    return read_events(path) if path.exists() else np.empty(0, EVENT_DTYPE)

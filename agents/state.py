"""An island's parameter vector: averaged from the sums that came, row by row.

What a round sends is fixed when the round's first burst leaves, or when its
first sum has come in. A row of which no block had come in full by then is sent
as it was: stale. Its sum may still come and be checked, but does not enter.
"""

from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agents.averaging import average
from agents.context import Expectation
from agents.weights import Weights
from agents.wire import ELEMENT_BYTES, ELEMENT_DTYPE, Elements, Values
from testbed.errors import InputError

SUFFIX = ".state"

Rows = npt.NDArray[np.bool_]


class State:
    """One island's parameter vector through all rounds.

    Parameters
    ----------
    start
        Before round 0, shape (rows, elements).
    own_bit, expectations
        The island, and whom it expects in each round.
    weights
        The coding of rows into blocks.
    file
        Gets the vector of every round, and that after the last one, each as soon as it
        is fixed.
    former
        Vectors that an earlier process of the island had fixed, if there was one, shape
        (n, rows, elements), and which rows of the last of them are behind. The island
        goes on from there; what had come for the next round has to come again.

    Attributes
    ----------
    stale_rows
        By round: rows whose sum had not come when the next round began.
    """

    def __init__(
        self,
        start: Elements,
        own_bit: int,
        expectations: Sequence[Expectation],
        weights: Weights,
        file: BufferedWriter,
        former: tuple[Elements, Rows] | None = None,
    ) -> None:
        self.stale_rows = [0] * len(expectations)
        self._own_bit = own_bit
        self._expectations = expectations
        self._weights = weights
        self._file = file
        self._round = 0
        self._sent = (start.copy(), np.empty_like(start))
        self._next = np.empty_like(start)
        self._fresh = np.zeros(len(start), np.bool_)
        self._behind = (np.zeros_like(self._fresh), np.zeros_like(self._fresh))
        self._next_behind = np.zeros_like(self._fresh)
        self._save()
        if former is not None:
            self._resume(*former)
        self._to_come = self._rows_to_come()

    @property
    def latest(self) -> int:
        """The latest round of which it is fixed what the island sends."""
        return self._round

    def holds(self, round_index: int) -> bool:
        """Whether what was sent in a round is still here."""
        return self._round - 1 <= round_index <= self._round

    def table(self, round_index: int) -> Elements:
        """What the island sends in a round (the latest, or the one before it)."""
        while self._round < round_index:
            self._advance()
        return self._sent[round_index % 2]

    def behind(self, round_index: int) -> Rows:
        """Rows of `table` that differ from the true ones, for want of a sum; shape (rows,).

        Either their own sum had not come in time, or one that did was of such a row.
        """
        return self._behind[round_index % 2]

    def take(self, round_index: int, block: int, totals: Values, *, stale: bool = False) -> None:
        """Average rows from their clique's sums, the own contribution included.

        Parameters
        ----------
        round_index, block
            The round, and the first block.
        totals
            Shape (count, n_elem), complete sums of consecutive blocks.
        stale
            Whether some contributor's row was behind.
        """
        if self._to_come == 0 or round_index != self._round:
            return
        count, width = totals.shape
        if width < self._next.shape[1]:
            return
        bitmap = self._expectations[round_index].mask | self._own_bit
        for i in range(count):
            row = self._weights.row(round_index, block + i)
            if not self._fresh[row]:
                offset = self._weights.offset(round_index, bitmap, block + i)
                self._next[row] = average(totals[i] - np.int32(offset), bitmap.bit_count())
                self._fresh[row] = True
                self._next_behind[row] = stale or self._behind[round_index % 2][row]
                self._to_come -= 1

    def finish(self) -> None:
        """Go through the rounds that are left, up to the state after the last one."""
        while self._round < len(self._expectations):
            self._advance()

    def _advance(self) -> None:
        """Fix what the next round sends."""
        self.stale_rows[self._round] = self._to_come
        now, then = self._sent[self._round % 2], self._sent[(self._round + 1) % 2]
        np.copyto(then, now)
        np.copyto(then, self._next, where=self._fresh[:, np.newaxis])
        alone = not self._expectations[self._round].senders
        was_behind = self._behind[self._round % 2] if alone else True
        self._behind[(self._round + 1) % 2][:] = np.where(
            self._fresh, self._next_behind, was_behind
        )
        self._fresh[:] = False
        self._round += 1
        self._to_come = self._rows_to_come()
        self._save()

    def _resume(self, history: Elements, behind: Rows) -> None:
        for vector in history[1:]:
            self._round += 1
            np.copyto(self._sent[self._round % 2], vector)
            self._save()
        self._behind[self._round % 2][:] = behind

    def _rows_to_come(self) -> int:
        ends = self._round == len(self._expectations)
        alone = ends or not self._expectations[self._round].senders
        return 0 if alone else len(self._fresh)

    def _save(self) -> None:
        self._file.write(self._sent[self._round % 2].data)
        self._file.flush()


def read_states(path: Path, shape: tuple[int, int], rounds: int) -> npt.NDArray[np.int32]:
    """Map what `State` wrote; shape (rounds + 1, rows · elements).

    Raises
    ------
    InputError
        The file is missing, or has another length.
    """
    whole = (rounds + 1, shape[0] * shape[1])
    expected = whole[0] * whole[1] * ELEMENT_BYTES
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if size != expected:
        raise InputError(f"{path} is {size} bytes instead of {expected}: is it cut off?")
    return np.memmap(path, ELEMENT_DTYPE, mode="r", shape=whole)


def read_history(path: Path, shape: tuple[int, int]) -> Elements | None:
    """The vectors that a `State` had fixed when its process ended, shape (n, rows, elements).

    None if there are none. A last vector that was cut off is left out.
    """
    if not path.exists():
        return None
    whole = np.fromfile(path, ELEMENT_DTYPE)
    size = shape[0] * shape[1]
    count = len(whole) // size
    return whole[: count * size].reshape(count, *shape) if count else None

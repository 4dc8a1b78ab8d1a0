"""A bound on T (A + ½) for rotations of any length, from what a few rounds in a row can do.

Ours. Let v be the largest bound on the time of any round of a rotation. All its
rounds have bounds of at most v, so A is at least what windows of such rounds
allow (`controller.search.windows`), and T is at least v. v is cut into steps,
each of which counts with its lower end. Windows of two rounds give a first
bound for several steps at a time; then the time goes to the step with the
weakest bound: longer windows of its own, exact round times, longer windows yet.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.search.local import Pool
from controller.search.roundtimes import RoundTimes
from controller.search.windows import Windows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STEP = 1.01
# The first bound is worked out for so many steps together.
_TOGETHER = 5
# What is done for a step in turn: window lengths with the most rounds that each is worth
# trying on, and seconds of patience. The last is done a few times more, with ever more.
_LONGER = ((4, 2_000, 1.0), (5, 1_200, 2.0), (4, 2_000, 4.0), (5, 1_200, 8.0), (6, 400, 8.0))
_BEFORE_LONGER = 3
_MOST_LEVEL = _BEFORE_LONGER + len(_LONGER) + 3


@dataclass
class _Step:
    """Rotations with v from ``low_ms`` to ``high_ms``, and a bound on their A − 1."""

    low_ms: float
    high_ms: float
    left: float = 0.0
    level: int = 0


def bound_long(times: RoundTimes, pool: Pool, known_ms: float, *, deadline: float) -> float:
    """Bound the objective of all rotations from below, in ms.

    Parameters
    ----------
    times, pool
        Round times, and all partitions.
    known_ms
        Objective of the best rotation that is known; the bound is at most that.
    deadline
        Value of the monotonic clock at which to stop with what is known by then.
    """
    return _Bound(times, pool, known_ms, deadline).run()


class _Bound:
    """The bound on its way up."""

    def __init__(self, times: RoundTimes, pool: Pool, known_ms: float, deadline: float) -> None:
        self.times, self.pool = times, pool
        self.known_ms, self.deadline = known_ms, deadline
        self.windows = Windows(pool)
        self.lower_ms = pool.lower_ms.copy()
        self.steps: list[_Step] = []

    def run(self) -> float:
        """Work until nothing is left to do, or the time is up."""
        low_ms = float(self.lower_ms.min())
        while low_ms * 1.5 < self.known_ms:
            self.steps.append(_Step(low_ms, low_ms * _STEP))
            low_ms = float(np.nextafter(low_ms * _STEP, np.inf))
        self._begin()
        while self.steps and not self.late:
            weakest = min(self.steps, key=self._bound_ms)
            if self._bound_ms(weakest) >= self.known_ms or weakest.level > _MOST_LEVEL:
                break
            self._work_on(weakest)
        # By now rounds may have moved to later steps, but none to an earlier one.
        return min([self.known_ms, *map(self._bound_ms, self.steps)])

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.deadline

    def _bound_ms(self, step: _Step) -> float:
        """T (A + ½) of a step; infinite if no rotation can have its v in it."""
        inside = self.lower_ms[(self.lower_ms >= step.low_ms) & (self.lower_ms <= step.high_ms)]
        return float(inside.min()) * (1.5 + step.left) if len(inside) else math.inf

    def _begin(self) -> None:
        """Give several steps together the bound of the last of them: fewer rounds leave more."""
        for first in range(0, len(self.steps), _TOGETHER):
            if self.late:
                return
            steps = self.steps[first : first + _TOGETHER]
            allowed = np.flatnonzero(self.lower_ms <= steps[-1].high_ms)
            left = self.windows.two(allowed) if self.windows.mixes(allowed) else math.inf
            for step in steps:
                step.left = left

    def _work_on(self, step: _Step) -> None:
        """Do the next thing for a step."""
        low_ms = self._bound_ms(step) / (1.5 + step.left)
        cap = self.known_ms / low_ms - 1.5
        if step.level == 2:
            self._refine(step.high_ms)
        allowed = np.flatnonzero(self.lower_ms <= step.high_ms)
        if not self.windows.mixes(allowed):
            step.left = math.inf
        elif step.level == 0:
            step.left = max(step.left, self.windows.two(allowed))
        elif step.level < _BEFORE_LONGER:
            step.left = max(step.left, self.windows.three(allowed, cap, self.deadline))
        else:
            self._lengthen(step, allowed, cap)
        step.level += 1

    def _lengthen(self, step: _Step, allowed: Ints, cap: float) -> None:
        turn = step.level - _BEFORE_LONGER
        beyond = max(0, turn - len(_LONGER) + 1)
        length, most, patience_s = _LONGER[min(turn, len(_LONGER) - 1)]
        if len(allowed) <= most:
            until = min(self.deadline, time.monotonic() + patience_s * 2**beyond)
            step.left = max(step.left, self.windows.longer(allowed, length, cap, until))

    def _refine(self, high_ms: float) -> None:
        """Prove of as many rounds as possible that they take longer than a time."""
        for index in np.flatnonzero(self.lower_ms <= high_ms).tolist():
            if self.late:
                return
            found = self.times.evaluate(self.pool.row(index), limit_ms=high_ms)
            self.lower_ms[index] = max(self.lower_ms[index], found.lower_ms)

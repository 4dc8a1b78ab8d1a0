"""When an island's rounds begin: at their planned times, or as its training allows."""

import time
from collections.abc import Callable

from agents.context import AgentContext
from agents.gpu import Gpu
from agents.records import Recorder
from agents.rounds import NEVER_NS


class Cadence:
    """Begins an island's streams.

    Without training, and with planned release, none leaves before its round's planned start.
    With release by data one leaves as soon as its step is computed and the sum before it is
    there, but not before everybody accepts its round and its trees are in place.

    Parameters
    ----------
    ctx, recorder
        The run, and what gets an event for each step that was computed.
    sums
        How many rounds, from the first one on, have brought their sum.
    """

    def __init__(self, ctx: AgentContext, recorder: Recorder, sums: Callable[[], int]) -> None:
        training = ctx.plan.training
        self._ctx = ctx
        self._sums = sums
        self._gpu = None if training is None else Gpu(ctx, training, recorder)
        self._planned = training is None or training.release == "planned"

    def advance(self, now_ns: int) -> int:
        """Let the training go on; returns when it has something to do next."""
        if self._gpu is None:
            return NEVER_NS
        self._gpu.advance(now_ns, self._sums())
        return self._gpu.due_ns

    def start_ns(self, round_index: int) -> int | None:
        """CLOCK_MONOTONIC time at which a round begins here; None while it must wait."""
        planned_ns = self._ctx.expectations[round_index].start_ns
        if self._gpu is None:
            return planned_ns
        if not self._gpu.may_send(round_index, self._sums()):
            return None
        # Half an interval before its start everybody begins to accept it, and trees are swapped;
        # a quarter is left for that.
        earliest_ns = planned_ns if self._planned else planned_ns - self._ctx.interval_ns // 4
        return max(earliest_ns, time.monotonic_ns())

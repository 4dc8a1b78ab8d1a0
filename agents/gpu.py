"""A host's processors, as a timer: which step is computed, and what waits for it."""

from agents.context import NS_PER_MS, AgentContext
from agents.records import Kind, Recorder
from agents.rounds import NEVER_NS
from controller.training import Training


class Gpu:
    """Computes one step after the other, each as soon as its loop allows.

    The first one begins so early that it ends at the start of the run.

    Parameters
    ----------
    ctx, training
        The run, and its loop.
    recorder
        Gets an event for each step that is done.

    Attributes
    ----------
    due_ns
        CLOCK_MONOTONIC time at which the current step ends; `NEVER_NS` while none is computed.
    steps
        How many are done.
    """

    def __init__(self, ctx: AgentContext, training: Training, recorder: Recorder) -> None:
        self._training = training
        self._recorder = recorder
        self._city = ctx.city
        self._zero_ns = ctx.start_ns
        self._compute_ns = round(training.compute_ms * NS_PER_MS)
        self._limit = NEVER_NS if training.loop == "local" else training.syncs
        self._began_ns = ctx.start_ns - self._compute_ns
        self.due_ns = ctx.start_ns
        self.steps = 0

    def advance(self, now_ns: int, sums: int) -> None:
        """Finish what is done, and begin what may.

        Parameters
        ----------
        now_ns
            The time.
        sums
            How many synchronisations, from the first one on, have brought their sum.
        """
        while True:
            if now_ns >= self.due_ns:
                self._finish(now_ns)
            if self.due_ns != NEVER_NS or self.steps == self._limit:
                return
            if self.steps > sums + self._training.ahead:
                return
            self._begin(now_ns)

    def may_send(self, sync: int, sums: int) -> bool:
        """Whether what a synchronisation sends is there: the sum before it, and its step."""
        return sums >= sync and (self._training.loop == "local" or self.steps > sync)

    def _begin(self, now_ns: int) -> None:
        # Steps that wait for nothing follow each other without a gap, however late this looks.
        free_runs = self._training.loop == "local"
        self._began_ns = self._began_ns + self._compute_ns if free_runs else now_ns
        self.due_ns = self._began_ns + self._compute_ns

    def _finish(self, now_ns: int) -> None:
        self._recorder.add(
            now_ns - self._zero_ns,
            self.steps,
            Kind.COMPUTED,
            self._city,
            self.steps,
            1,
            now_ns - self._began_ns,
        )
        self.steps += 1
        self.due_ns = NEVER_NS

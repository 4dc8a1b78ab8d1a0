"""A training loop on top of synchronisation: steps that are computed, and what waits for what.

The processors of a host are a timer. A synchronisation is a round of streams, or an all-reduce
between hosts. All definitions here are ours; the paper gives the idle share and the gain only.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from controller.hostplan import HostPlan, HostStep, Release
from testbed.topology import Frozen

Loop = Literal["synchronous", "delayed", "local"]
"""What a step waits for.

``synchronous``: the sum of the step before it. ``delayed``: that of the step before the last
one, so that one synchronisation runs while the next step is computed. ``local``: nothing;
hosts compute on, and a synchronisation carries whatever steps they have made by then.
"""
_AHEAD: dict[Loop, float] = {"synchronous": 0, "delayed": 1, "local": math.inf}


class Training(Frozen):
    """How hosts compute and synchronise in turns."""

    compute_ms: float = Field(gt=0)
    """Of one step."""
    loop: Loop = "synchronous"
    release: Release = "data"
    """Of rounds of streams: not before their planned time, or as soon as the sender can."""
    syncs: int = Field(ge=1)
    """How many synchronisations are run."""

    @property
    def ahead(self) -> float:
        """How many synchronisations a step may begin without."""
        return _AHEAD[self.loop]

    def spacing_ms(self, t_ms: float) -> float:
        """Time between the starts of two synchronisations that take ``t_ms`` each."""
        if self.loop == "synchronous":
            return self.compute_ms + t_ms
        return max(self.compute_ms, t_ms) if self.loop == "delayed" else t_ms


def unroll(plan: HostPlan, training: Training | None, city: int) -> tuple[HostStep, ...]:
    """A host's steps in all all-reduces of a run, one after the other.

    Chunks and transfers of all-reduce s are numbered on after those of s−1. Its steps wait for
    the sum of s−1 and, unless hosts compute on regardless, for step s to be computed, which is a
    step of kind ``compute`` here. Without training it is the plan's own list.
    """
    own = plan.steps[city]
    if training is None:
        return own
    steps: list[HostStep] = []
    arrivals: tuple[int, ...] = ()
    for index in range(training.syncs):
        before = arrivals
        if training.loop != "local":
            before = (*before, len(steps))
            steps.append(HostStep("compute", -1, -1, -1, 0.0, 0.0, ()))
        first = len(steps)
        steps += _shifted(plan, training, index, own, before, first)
        arrivals = tuple(first + i for i, step in enumerate(own) if step.kind != "send")
    return tuple(steps)


def _shifted(
    plan: HostPlan,
    training: Training,
    index: int,
    own: Sequence[HostStep],
    before: tuple[int, ...],
    first: int,
) -> Iterator[HostStep]:
    """Steps of one all-reduce; those that wait for nothing wait for what is ``before``."""
    later_ms = index * training.spacing_ms(plan.time_ms)
    for step in own:
        yield step._replace(
            transfer=step.transfer + index * plan.transfers,
            chunk=step.chunk + index * plan.chunks,
            start_ms=step.start_ms + later_ms,
            end_ms=step.end_ms + later_ms,
            after=tuple(first + i for i in step.after) or before,
        )

"""What a run wrote down of the schedules that took over in its middle."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from controller.hostplan import HostPlan
from testbed.errors import InputError
from testbed.topology import Frozen

TAKEOVERS_FILE = "takeovers.json"


class Question(Frozen):
    """What planning anew is asked; times since the start of the schedule that is at work, in ns."""

    down: tuple[int, ...] = ()
    """Edges of the topology."""
    shapes: tuple[tuple[int, float, float], ...] = ()
    """Edge, rate in Gbit/s and delay in ms of those that are not as they were built."""
    breaks: tuple[tuple[tuple[int, ...], int], ...]
    """Edges that broke or changed at some moment; none if they came up."""
    until_ns: int
    """Transfers begin by the old schedule before this."""
    resume_ns: int
    """When the new one takes over."""
    landed: tuple[int, ...]
    """Transfers that had arrived."""


class TakeoverRecord(BaseModel):
    """What came of one event; times since the start of round 0, in ns."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    outcome: str
    """``taken over``, or why not."""
    noticed_ns: int
    charged_ms: float
    """Time of the emulated network that planning was given."""
    question: Question | None = None
    cpu_ms: float | None = None
    """Processor time that planning took by the run's clock: 0 in virtual time."""
    attempts: int = 0
    chunks_final: int = 0
    """Chunks whose sum was complete somewhere at the take-over, or about to be."""
    flights: int = 0
    """Transfers that were on their way then."""
    dropped: tuple[int, ...] = ()
    """Transfers of the old schedule that were lost, or did not begin."""
    first_transfer: int = 0
    paths_added: int = 0
    confirmed_ns: int | None = None
    zero_ns: int | None = None
    """When hosts took over."""
    plan: HostPlan | None = None

    @property
    def taken(self) -> HostPlan | None:
        """What hosts went on with; ``None`` if it did not come to that."""
        return self.plan if self.zero_ns is not None else None


def read_takeovers(raw_dir: Path) -> tuple[TakeoverRecord, ...]:
    """Read ``takeovers.json``; empty if no events were asked for.

    Raises
    ------
    InputError
        The file is damaged.
    """
    path = raw_dir / TAKEOVERS_FILE
    if not path.exists():
        return ()
    try:
        return TypeAdapter(tuple[TakeoverRecord, ...]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(f"cannot read {path}: {error}") from error

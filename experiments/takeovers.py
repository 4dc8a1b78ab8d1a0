"""What a run wrote down of the schedules that took over in its middle."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from controller.hostplan import HostPlan
from testbed.errors import InputError

TAKEOVERS_FILE = "takeovers.json"


class TakeoverRecord(BaseModel):
    """What came of one event; times since the start of round 0, in ns."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    outcome: str
    """``taken over``, or why not."""
    noticed_ns: int
    broken: tuple[tuple[tuple[str, ...], int], ...] = ()
    """Directions that broke or changed, none if they came up, and when that was noticed."""
    charged_ms: float
    """Time of the emulated network that planning was given."""
    cpu_ms: float | None = None
    """Processor time that it took."""
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

"""What a host is told when another schedule takes over."""

from pydantic import ValidationError

from agents.orders import Message
from controller.hostplan import HostPath, HostStep
from testbed.errors import CliquenetError
from testbed.topology import Frozen


class TakeOver(Frozen):
    """One host's part in a schedule that takes over; see `controller.hostplan.HostPlan`."""

    zero_ns: int
    """When it happens, CLOCK_MONOTONIC; the times of the steps count from there."""
    paths: tuple[HostPath, ...]
    steps: tuple[HostStep, ...]
    origins: str
    arrived: frozenset[int]
    """Transfers of the old schedule that must have taken effect here by then."""
    flying: frozenset[int]
    """Those that may have."""

    def order(self) -> Message:
        """The message that says so."""
        return {"order": "take-over", "part": self.model_dump(mode="json")}


def read_take_over(order: Message) -> TakeOver:
    """Read what `TakeOver.order` made.

    Raises
    ------
    CliquenetError
        It does not fit.
    """
    try:
        return TakeOver.model_validate(order.get("part"))
    except ValidationError as error:
        raise CliquenetError(f"the run sent a damaged order: {error}") from error

"""The order of a host's steps in a collective: a state machine without clock or sockets.

Sends leave one after the other, in the order of the list, as they share the host's link. What
arrives takes effect as soon as it is complete and all steps that it waits for are done, in any
order. Nobody looks at a clock, so that the schedule times itself.
"""

from collections.abc import Collection, Sequence

from controller.hostplan import HostStep


class Dependencies:
    """What of a host's list is done, and what may be done next.

    Parameters
    ----------
    steps
        The list; a step waits for earlier ones only.

    Attributes
    ----------
    applied
        Transfers that have arrived and taken effect.
    """

    def __init__(self, steps: Sequence[HostStep]) -> None:
        self._steps = steps
        self._waits = [len(step.after) for step in steps]
        self._followers: list[list[int]] = [[] for _ in steps]
        for position, step in enumerate(steps):
            for earlier in step.after:
                self._followers[earlier].append(position)
        self._sends = [i for i, step in enumerate(steps) if step.kind == "send"]
        self._next_send = 0
        self._computes = [i for i, step in enumerate(steps) if step.kind == "compute"]
        self._computed = 0
        arriving = ((i, s) for i, s in enumerate(steps) if s.kind in ("receive", "reduce"))
        self._position = {step.transfer: position for position, step in arriving}
        self._came: set[int] = set()
        self._dropped: frozenset[int] = frozenset()
        self.applied: set[int] = set()
        self._left = len(steps)

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        return self._left == 0

    @property
    def left(self) -> int:
        """Number of steps that are not done."""
        return self._left

    def expects(self, transfer: int) -> HostStep | None:
        """The step that a transfer arrives for; None if it came, was dropped, or has no step."""
        position = self._position.get(transfer)
        if position is None or position in self._came or transfer in self._dropped:
            return None
        return self._steps[position]

    def next_send(self) -> HostStep | None:
        """The send whose turn it is; None while it waits for data, and after the last one."""
        while self._next_send < len(self._sends):
            if self._steps[self._sends[self._next_send]].transfer not in self._dropped:
                break
            self._next_send += 1
        if self._next_send == len(self._sends):
            return None
        position = self._sends[self._next_send]
        return self._steps[position] if self._waits[position] == 0 else None

    @property
    def sends_left(self) -> int:
        """Number of sends that have not left and are not dropped."""
        rest = self._sends[self._next_send :]
        return sum(self._steps[position].transfer not in self._dropped for position in rest)

    def arrives_here(self) -> frozenset[int]:
        """Transfers that have a step here, other than sends."""
        return frozenset(self._position)

    def drop(self, transfers: Collection[int]) -> set[int]:
        """Take transfers out that will not happen; what waits for them waits for ever.

        Returns
        -------
        set of int
            Those that have taken effect already.
        """
        self._dropped |= frozenset(transfers)
        return self.applied & self._dropped

    def sent(self) -> list[HostStep]:
        """Take note that `next_send` has left; returns the arrivals that take effect now."""
        position = self._sends[self._next_send]
        if self._waits[position]:
            raise ValueError(f"send {position} left before its data was there")
        self._next_send += 1
        return self._settle(position)

    def computed(self, count: int) -> list[HostStep]:
        """Take note of how many steps were computed; returns the arrivals that take effect now."""
        effects: list[HostStep] = []
        while self._computed < min(count, len(self._computes)):
            effects += self._settle(self._computes[self._computed])
            self._computed += 1
        return effects

    def arrived(self, transfer: int) -> list[HostStep]:
        """Take note that a transfer is complete; returns the arrivals that take effect now.

        They are to be carried out at once, in this order.
        """
        position = self._position[transfer]
        self._came.add(position)
        if self._waits[position]:
            return []
        return [self._steps[position], *self._settle(position)]

    def _settle(self, position: int) -> list[HostStep]:
        """Mark a step as done; returns what follows from it."""
        effects: list[HostStep] = []
        finished = [position]
        for one in finished:
            self._left -= 1
            if self._steps[one].kind != "send":
                self.applied.add(self._steps[one].transfer)
            for follower in self._followers[one]:
                self._waits[follower] -= 1
                if self._waits[follower] == 0 and follower in self._came:
                    effects.append(self._steps[follower])
                    finished.append(follower)
        return effects

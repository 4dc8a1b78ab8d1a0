"""What the planner finds out about one round: its times, or why it is not feasible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.demand import Demand
from controller.holding import held_bytes
from controller.multicast import Tree
from controller.offsets import DIGITS, arrival_spreads_ms, least_spread


@dataclass(frozen=True)
class Shortfall:
    """Which receiver lacks how much memory, and for which streams.

    Attributes
    ----------
    receiver
        City index of the worst one.
    leading, trailing
        Senders of the streams that reach it first and last.
    spread_ms
        Between the starts of these two, at best.
    needed_bytes, missing_bytes
        Memory for that at the round's rate, resend buffer included, and what is
        missing of it.
    missing_ms
        The same as time of a stream.
    resend_bytes
        The resend buffer's part of ``needed_bytes``.
    """

    receiver: int
    leading: int
    trailing: int
    spread_ms: float
    needed_bytes: float
    missing_bytes: float
    missing_ms: float
    resend_bytes: float


@dataclass(frozen=True)
class RoundTiming:
    """When each stream of a round starts and how long it takes.

    Attributes
    ----------
    t_ms
        Round time.
    bound_ms
        No offsets and durations of this kind have a smaller round time.
    offsets_ms, durations_ms
        By sender.
    held_bytes
        Receiver to the largest amount that it holds, resend buffer not counted.
    resend_bytes
        Receiver to the size of its resend buffer.
    shortfall
        Why the round is not feasible, or ``None``. The other figures then
        belong to the offsets that need the least memory.
    pieces
        Sender to start and end in ms and share of the payload of each piece of
        constant rate; empty if all rates are constant.
    queued
        Whether streams wait in front of links.
    """

    t_ms: float
    bound_ms: float
    offsets_ms: Mapping[int, float]
    durations_ms: Mapping[int, float]
    held_bytes: Mapping[int, float]
    resend_bytes: Mapping[int, float]
    shortfall: Shortfall | None
    pieces: Mapping[int, Sequence[tuple[float, float, float]]] = field(default_factory=dict)
    queued: bool = False

    @property
    def duration_ms(self) -> float:
        """Longest duration of a stream."""
        return max(self.durations_ms.values())

    @property
    def gap(self) -> float:
        """How far T may be above its least value, relative to T."""
        return max(0.0, 1 - self.bound_ms / self.t_ms)


def last_arrival_ms(
    trees: Sequence[Tree], offsets_ms: Mapping[int, float], durations_ms: Mapping[int, float]
) -> float:
    """When the last byte of a round arrives, in ms."""
    return max(
        offsets_ms[tree.sender] + max(tree.delays_ms.values()) + durations_ms[tree.sender]
        for tree in trees
    )


def infeasible_timing(
    trees: Sequence[Tree], demand: Demand, least_ms: float, resend: Mapping[int, float]
) -> RoundTiming:
    """The offsets that need the least memory, and the receiver that lacks most of it.

    Parameters
    ----------
    trees, demand
        The round.
    least_ms
        Duration of all streams.
    resend
        Receiver to the size of its resend buffer.
    """
    every = demand.memory_model == "hold"
    _, offsets_ms = least_spread(trees, every=every)
    durations_ms = dict.fromkeys(offsets_ms, least_ms)
    held = held_bytes(trees, offsets_ms, durations_ms, demand)
    spreads_ms = arrival_spreads_ms(trees, offsets_ms)
    worst = max(held, key=lambda city: (round(held[city] + resend[city]), -city))
    arrivals = {
        tree.sender: offsets_ms[tree.sender] + tree.delays_ms[worst]
        for tree in trees
        if worst in tree.delays_ms
    }
    needed = held[worst] + resend[worst]
    missing = needed - demand.memory_bytes
    shortfall = Shortfall(
        receiver=worst,
        leading=min(arrivals, key=lambda city: (round(arrivals[city], DIGITS), city)),
        trailing=max(arrivals, key=lambda city: (round(arrivals[city], DIGITS), -city)),
        spread_ms=spreads_ms[worst],
        needed_bytes=needed,
        missing_bytes=missing,
        missing_ms=missing / demand.payload_bytes * least_ms,
        resend_bytes=resend[worst],
    )
    t_ms = last_arrival_ms(trees, offsets_ms, durations_ms)
    return RoundTiming(t_ms, t_ms, offsets_ms, durations_ms, held, resend, shortfall)

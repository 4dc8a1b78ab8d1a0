"""What of a schedule has happened, or still will, when links fail or change in the middle.

Transfers that do not need those links, or anything that would have come over them, go on by the
old schedule until the new one takes over. So the state at that moment is known beforehand, and
a new schedule is made for it meanwhile.
"""

from dataclasses import dataclass, replace

from controller.collectives.schedule import Schedule
from controller.collectives.start import Flight

GUARD_PS = 200_000_000
"""200 µs: by so much packets may lag behind the schedule. What has entered a link less than that
before it breaks counts as lost, and what arrives less before the take-over as still to come."""


@dataclass(frozen=True)
class Break:
    """Links that break or change at one moment.

    Attributes
    ----------
    links
        What has not entered them yet is lost, or given up.
    at_ps
        When, from the start of the schedule that is interrupted; before it, if negative.
    """

    links: frozenset[int]
    at_ps: int


@dataclass(frozen=True)
class Interruption:
    """Why and when a schedule is taken over from.

    Attributes
    ----------
    breaks
        What has happened; none if links only got better.
    until_ps
        Sends of the old schedule begin before this only.
    resume_ps
        When the new schedule takes over, not before that.
    landed
        Transfers that are known to have arrived, whatever was cut.
    """

    breaks: tuple[Break, ...]
    until_ps: int
    resume_ps: int
    landed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class State:
    """Where a schedule stands when another one takes over.

    Attributes
    ----------
    held
        Contributions per node and chunk, a bit per worker.
    flights
        What is still to arrive; times count from the new schedule's start.
    arrived
        Transfers that have taken effect since the start of the schedule, and where.
    dropped
        Numbers of those that are lost or must not begin, because of what broke.
    left
        Positions of the schedule's sends that have not happened, by their old start; the ones
        that were cut off among them.
    repeatable
        Whether what is left by the old schedule is all that is missing: nothing is lost that
        one before it had sent.
    settled_ps
        When the last of what had left has arrived, whether it counts or not.
    next_transfer
        The number that is free for the first new send.
    """

    held: tuple[tuple[int, ...], ...]
    flights: tuple[Flight, ...]
    arrived: tuple[tuple[int, int], ...]
    dropped: frozenset[int]
    left: tuple[int, ...]
    repeatable: bool
    settled_ps: int
    next_transfer: int

    def arrived_at(self, node: int) -> list[int]:
        """Those of `arrived` that went to a node."""
        return [transfer for transfer, target in self.arrived if target == node]

    @property
    def final(self) -> int:
        """How many chunks are complete somewhere, counting what is on its way."""
        everyone = 0
        for row in self.held:
            for value in row:
                everyone |= value
        chunks = {c for row in self.held for c, value in enumerate(row) if value == everyone}
        return len(chunks | {f.chunk for f in self.flights if f.content == everyone})


def interrupted(schedule: Schedule, event: Interruption) -> State:
    """Follow a schedule to the moment at which another one takes over.

    A transfer that is cut off takes with it all that its receiver would have sent of that chunk.
    """
    flights = schedule.transfers
    content = [flight.content for flight in flights]
    flown = len(schedule.start.flights) if schedule.start else 0
    first = schedule.start.first_transfer if schedule.start else 0
    begins = schedule.start_ps.tolist()
    value = _begins(schedule)
    held = [list(row) for row in value]
    lacking: set[tuple[int, int]] = set()
    begun = set(range(flown))
    lost = {i for i in begun if _cut(flights[i], event)}
    came: set[int] = set()
    late: list[int] = []
    for when, leaves, i in schedule.moments:
        flight = flights[i]
        if leaves:
            if when >= event.until_ps:
                continue
            begun.add(i)
            content[i] = value[flight.source][flight.chunk]
            if (flight.source, flight.chunk) in lacking or _cut(flight, event):
                lost.add(i)
            continue
        place = flight.target, flight.chunk
        if i in lost:
            lacking.add(place)
        if i in lost or i not in begun:
            continue
        if place not in lacking:
            _apply(value, flight, content[i])
        if place in lacking or when > event.resume_ps - GUARD_PS:
            late.append(i)
        else:
            _apply(held, flight, content[i])
            came.add(i)
    sends = range(flown, len(flights))
    left = sorted(
        (i for i in sends if i not in begun or i in lost), key=lambda i: begins[i - flown]
    )
    return State(
        held=tuple(map(tuple, held)),
        flights=tuple(_shifted(flights[i], content[i], event.resume_ps) for i in late),
        arrived=tuple((flights[i].transfer, flights[i].target) for i in sorted(came)),
        dropped=frozenset(flights[i].transfer for i in [*lost, *left]),
        left=tuple(i - flown for i in left),
        repeatable=not any(i in lost for i in range(flown)),
        settled_ps=max((flights[i].arrival_ps for i in begun), default=0) - event.resume_ps,
        next_transfer=first + schedule.sends,
    )


def _apply(value: list[list[int]], flight: Flight, content: int) -> None:
    before = value[flight.target][flight.chunk] if flight.adds else 0
    value[flight.target][flight.chunk] = before | content


def _begins(schedule: Schedule) -> list[list[int]]:
    """Contributions that nodes begin with, by node and chunk."""
    if schedule.start:
        return [list(row) for row in schedule.start.held]
    bit = {worker: 1 << i for i, worker in enumerate(schedule.task.workers)}
    nodes = range(len(schedule.network.nodes))
    return [[bit.get(node, 0)] * schedule.task.chunks for node in nodes]


def _cut(flight: Flight, event: Interruption) -> bool:
    """Whether some of a transfer has yet to enter a link that breaks."""
    return flight.transfer not in event.landed and any(
        link in broken.links and end > broken.at_ps - GUARD_PS
        for broken in event.breaks
        for link, _, end in flight.hops
    )


def _shifted(flight: Flight, content: int, by_ps: int) -> Flight:
    """A flight as the new schedule sees it, which starts later."""
    hops = tuple((link, begin - by_ps, end - by_ps) for link, begin, end in flight.hops)
    return replace(flight, content=content, arrival_ps=flight.arrival_ps - by_ps, hops=hops)

"""Where a schedule begins that takes over from another one: what is held, what is on its way."""

from dataclasses import dataclass

import numpy as np

from controller.collectives.network import Ints

Hop = tuple[int, int, int]
"""A link, and from when to when a transfer occupies it, in picoseconds."""


@dataclass(frozen=True)
class Flight:
    """A transfer of the former schedule that had left when the new one began.

    Attributes
    ----------
    transfer
        Its number.
    source, target, chunk
        Nodes and chunk.
    adds
        Whether the target adds it to what it holds.
    content
        Contributions that are in it, a bit per worker, in the order of `Task.workers`.
    arrival_ps
        When its last byte arrives, from the start of the new schedule; it may be past.
    hops
        The links that it still occupies, or did.
    """

    transfer: int
    source: int
    target: int
    chunk: int
    adds: bool
    content: int
    arrival_ps: int
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Start:
    """What a schedule begins with, instead of one contribution for each worker.

    Attributes
    ----------
    held
        Contributions per node and chunk, a bit per worker; see `Flight.content`.
    origin
        What they come from, a character per node and chunk: see `controller.hostplan.HOLD`.
    flights
        Transfers that still count; others that are on their way are to be thrown away.
    first_transfer
        The number that the first send of the new schedule gets.
    """

    held: tuple[tuple[int, ...], ...]
    origin: tuple[str, ...]
    flights: tuple[Flight, ...]
    first_transfer: int

    @property
    def last_arrival_ps(self) -> int:
        """When the last flight has arrived; 0 if none is on its way."""
        return max((flight.arrival_ps for flight in self.flights), default=0)


def busy_links(start: Start | None) -> list[Hop]:
    """When links are taken by flights, from the start of the new schedule on."""
    flights = start.flights if start else ()
    return [(link, max(begin, 0), end) for f in flights for link, begin, end in f.hops if end > 0]


def columns(rows: list[Hop]) -> tuple[Ints, Ints, Ints]:
    """Hops as three arrays, for the kernels."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()

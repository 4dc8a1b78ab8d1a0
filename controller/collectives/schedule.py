"""A schedule: which chunk goes over which route at what time."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from controller.collectives.network import PS_PER_US, Ints, Network
from controller.collectives.routes import Routes, reverse_routes
from controller.collectives.start import Flight, Hop, Start
from controller.collectives.task import REVERSED, Task

Model = Literal["pipelined", "occupancy"]
MODELS: tuple[str, ...] = get_args(Model)
"""``pipelined``: a link is free again after a chunk's transmission time β·m, and the chunk
arrives after α + β·m. ``occupancy``: it is held for α + β·m, as the published synthesiser
(Won et al., arXiv 2304.05301) counts it."""


ROUNDING_PS = 1e-3
"""A time that is less than this above a whole picosecond is that picosecond."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Sends, in no particular order.

    Attributes
    ----------
    network, task, model
        What it is for.
    algorithm
        Who made it: ``synthesised``, ``ring``, …
    routes
        That the sends use.
    route, chunk, start_ps
        Of each send, shape (sends,).
    adds
        Whether the targets add what arrives to what they hold, instead of replacing it.
    start
        What it begins with, if it takes over from another one.
    """

    network: Network
    task: Task
    model: Model
    algorithm: str
    routes: Routes
    route: Ints
    chunk: Ints
    start_ps: Ints
    adds: npt.NDArray[np.bool_]
    start: Start | None = None

    @property
    def sends(self) -> int:
        """Number of sends."""
        return len(self.route)

    @cached_property
    def duration_ps(self) -> Ints:
        """Transmission time of each send, shape (sends,)."""
        return chunk_times(self.routes, self.task.chunk_bytes)[self.route]

    @cached_property
    def arrival_ps(self) -> Ints:
        """When the last byte of each send is at its last target, shape (sends,)."""
        arrivals: Ints = self.start_ps + self.duration_ps + self.routes.latency_ps[self.route]
        return arrivals

    @cached_property
    def time_ps(self) -> int:
        """When the collective is complete."""
        flown_ps = self.start.last_arrival_ps if self.start else 0
        return max(int(self.arrival_ps.max()) if self.sends else 0, flown_ps)

    @property
    def time_us(self) -> float:
        """When the collective is complete, in microseconds."""
        return self.time_ps / PS_PER_US

    @cached_property
    def occupied(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Every use of a link: link, begin, end, send; each of shape (uses,)."""
        hops = self.routes.hops
        lengths = hops.lengths[self.route]
        send = np.repeat(np.arange(self.sends, dtype=np.int64), lengths)
        ends = np.cumsum(lengths)
        within = np.arange(len(send), dtype=np.int64) - (ends - lengths)[send]
        index = hops.first[self.route][send] + within
        link = hops.values[index]
        begin = self.start_ps[send] + self.routes.hop_ps[index]
        end = begin + self.duration_ps[send]
        if self.model == "occupancy":
            end = end + self.network.latency_ps[link]
        return link, begin, end, send

    @cached_property
    def transfers(self) -> tuple[Flight, ...]:
        """What is still on its way at the start, then the sends, whose content is 0 here."""
        hops: list[list[Hop]] = [[] for _ in range(self.sends)]
        for link, begin, end, send in zip(*(a.tolist() for a in self.occupied), strict=True):
            hops[send].append((link, begin, end))
        source = self.routes.source[self.route].tolist()
        target = self.routes.target[self.route].tolist()
        chunk, adds = self.chunk.tolist(), self.adds.tolist()
        first = self.start.first_transfer if self.start else 0
        sends = (
            Flight(first + i, source[i], target[i], chunk[i], adds[i], 0, when, tuple(hops[i]))
            for i, when in enumerate(self.arrival_ps.tolist())
        )
        return (*(self.start.flights if self.start else ()), *sends)

    @cached_property
    def moments(self) -> list[tuple[int, bool, int]]:
        """When values are written and read, in order, arrivals before sends of the same time.

        Time, whether a value leaves, and the position in `transfers`.
        """
        flown = len(self.start.flights) if self.start else 0
        moments = [(t.arrival_ps, False, i) for i, t in enumerate(self.transfers)]
        moments += [(when, True, flown + i) for i, when in enumerate(self.start_ps.tolist())]
        return sorted(moments)


def chunk_times(routes: Routes, chunk_bytes: int) -> Ints:
    """Transmission time of a chunk on each route, in whole picoseconds, shape (routes,).

    Rounded up, so that no schedule is faster than the rates allow; `ROUNDING_PS` keeps the
    rounding of floating point out of it.
    """
    times: Ints = np.maximum(np.ceil(routes.byte_ps * chunk_bytes - ROUNDING_PS), 1).astype(
        np.int64
    )
    return times


def backwards(schedule: Schedule, network: Network, task: Task) -> Schedule:
    """Turn an all-gather into a reduce-scatter, or a broadcast into a reduce.

    Run backwards on the reversed network, where a chunk spread its copies now gather:
    every node receives a chunk once, so that backwards it sends its sum once.

    Parameters
    ----------
    schedule
        For ``REVERSED[task.collective]``, on ``network.reversed()``.
    network, task
        What the result is for.
    """
    if REVERSED.get(task.collective) != schedule.task.collective:
        raise ValueError(f"{schedule.task.collective} backwards is no {task.collective}")
    return replace(
        schedule,
        network=network,
        task=task,
        routes=reverse_routes(network, schedule.routes),
        start_ps=schedule.time_ps - schedule.arrival_ps,
        adds=np.ones(schedule.sends, dtype=np.bool_),
    )

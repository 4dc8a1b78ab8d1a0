"""The baseline of all pacing: every sender at full speed, links work-conserving.

Ours. A fluid of first-in-first-out queues without end: each sender pours its
payload in at the rate of its access link from the start of the round, each link
serves what waits at full capacity, and what leaves a link keeps the mixture in
which it came. Cumulative amounts on a fine grid of time; a link's output is
Reich's formula, min over s ≤ t of A(s) + C (t − s), and a stream's share of it
is what had come of the stream when the last of this output came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from controller.demand import Demand
from controller.multicast import Tree, link_time_ms
from controller.rateprogram import limits
from controller.timing import common_duration_ms
from testbed.topology import Topology

Vector: TypeAlias = npt.NDArray[np.float64]
_DONE = 1 - 1e-9
_GROWTH = 1.5


@dataclass(frozen=True)
class Unpaced:
    """A round in which nobody paces.

    Attributes
    ----------
    t_ms
        When the last byte arrives.
    arrivals_ms
        Sender to receiver to the arrival of the stream's last byte there.
    held_bytes
        Receiver to the most that it holds (accumulate on arrival).
    """

    t_ms: float
    arrivals_ms: Mapping[int, Mapping[int, float]]
    held_bytes: Mapping[int, float]


def unpaced_round(
    topology: Topology,
    trees: Sequence[Tree],
    payload_bytes: float,
    *,
    starts_ms: Mapping[int, float] | None = None,
    step_ms: float = 0.05,
) -> Unpaced:
    """Simulate a round in which nobody paces, with multicast and aggregation on.

    Parameters
    ----------
    topology, trees
        The network, and one tree per sender.
    payload_bytes
        Bytes of one stream on the wire.
    starts_ms
        Sender to when it starts; all at once if left out.
    step_ms
        Grid of time; the result is exact to about this.
    """
    starts = dict.fromkeys((tree.sender for tree in trees), 0.0) if starts_ms is None else starts_ms
    demand = Demand(payload_bytes, 0.0)
    duration_ms = common_duration_ms(limits(topology, trees, demand), payload_bytes)
    horizon_ms = duration_ms + max(
        starts[tree.sender] + max(tree.delays_ms.values()) for tree in trees
    )
    while True:
        fluid = _Fluid(topology, trees, payload_bytes, starts, horizon_ms, step_ms)
        arrivals_ms = fluid.last_bytes_ms()
        if arrivals_ms is not None:
            t_ms = max(max(arrivals.values()) for arrivals in arrivals_ms.values())
            return Unpaced(t_ms, arrivals_ms, fluid.held_bytes(payload_bytes))
        # Queues in a row may take longer than one common rate would.
        horizon_ms *= _GROWTH


class _Fluid:
    """Cumulative amounts, in payloads, of each stream before and after each edge."""

    def __init__(
        self,
        topology: Topology,
        trees: Sequence[Tree],
        payload_bytes: float,
        starts_ms: Mapping[int, float],
        horizon_ms: float,
        step_ms: float,
    ) -> None:
        self.topology, self.trees = topology, trees
        self.grid: Vector = np.arange(0.0, horizon_ms + step_ms, step_ms)
        self.alone_ms = [link_time_ms(payload_bytes, edge.rate_gbps) for edge in topology.edges]
        self.before: dict[tuple[int, int], int] = {}
        self.using: dict[int, list[int]] = {}
        self.source: list[Vector] = []
        for j, tree in enumerate(trees):
            rate_gbps = topology.cities[tree.sender].access_rate_gbps
            since = self.grid - starts_ms[tree.sender]
            self.source.append(np.clip(since / link_time_ms(payload_bytes, rate_gbps), 0.0, 1.0))
            for path in tree.paths.values():
                for previous, edge in zip((-1, *path), path, strict=False):
                    self.before[j, edge] = previous
            for edge in tree.edges:
                self.using.setdefault(edge, []).append(j)
        self.out: dict[tuple[int, int], Vector] = {
            key: np.zeros_like(self.grid) for key in self.before
        }

    def last_bytes_ms(self) -> dict[int, dict[int, float]] | None:
        """Arrivals of last bytes by sender and receiver; ``None`` if some are beyond the grid."""
        # Outputs start empty and only grow towards the one fixed point.
        changed = True
        while changed:
            changed = False
            for edge, users in self.using.items():
                for j, amount in zip(users, self._served(edge, users), strict=True):
                    if np.abs(amount - self.out[j, edge]).max() > 1e-12:
                        self.out[j, edge] = amount
                        changed = True
        arrivals_ms: dict[int, dict[int, float]] = {}
        for j, tree in enumerate(self.trees):
            arrivals_ms[tree.sender] = {}
            for city, path in tree.paths.items():
                done = np.flatnonzero(self.out[j, path[-1]] >= _DONE)
                if not len(done):
                    return None
                last_ms = self.grid[done[0]] + self.topology.edges[path[-1]].delay_ms
                arrivals_ms[tree.sender][city] = float(last_ms)
        return arrivals_ms

    def held_bytes(self, payload_bytes: float) -> dict[int, float]:
        """Leading minus trailing amount at each receiver, at its most."""
        arrived: dict[int, list[Vector]] = {}
        for j, tree in enumerate(self.trees):
            for city, path in tree.paths.items():
                late = self.grid - self.topology.edges[path[-1]].delay_ms
                amount = np.interp(late, self.grid, self.out[j, path[-1]], left=0.0)
                arrived.setdefault(city, []).append(amount)
        return {
            city: float((np.max(found, axis=0) - np.min(found, axis=0)).max()) * payload_bytes
            for city, found in sorted(arrived.items())
        }

    def _served(self, edge: int, users: Sequence[int]) -> list[Vector]:
        """What a link has let through of each stream, from what has reached it."""
        reached = [self._reached(j, edge) for j in users]
        total = np.sum(reached, axis=0)
        capacity = self.grid / self.alone_ms[edge]
        through = capacity + np.minimum.accumulate(total - capacity)
        if len(users) == 1:
            return [np.minimum(through, reached[0])]
        return [np.interp(through, total, amount) for amount in reached]

    def _reached(self, j: int, edge: int) -> Vector:
        previous = self.before[j, edge]
        if previous < 0:
            return self.source[j]
        delay_ms = self.topology.edges[previous].delay_ms
        amount: Vector = np.interp(self.grid - delay_ms, self.grid, self.out[j, previous])
        return amount

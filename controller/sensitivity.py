"""The dual view of a round: which delay, link or memory would shorten T, and by how much.

Ours. The marginals of the round's linear program say how T answers to each row's
limit; a delay, a capacity or a memory stands in one or more rows, and what they
say adds up (envelope theorem). Where the optimum is not unique the figure is one
of the subgradients: it lies between the answers to a small step up and one down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.demand import Demand
from controller.linear import Solution
from controller.multicast import Tree, link_time_ms
from controller.rateprogram import Limit, RateProgram, limits
from controller.roundtiming import RoundTiming
from controller.timing import build_program
from testbed.topology import Topology

_TOO_LITTLE = 1e-9
_MAX_DURATIONS = 1000.0


@dataclass(frozen=True)
class Sensitivity:
    """How T of a round with given trees answers to the network; zeros are left out.

    Attributes
    ----------
    delay
        Directed edge to ms of T per ms of its delay.
    capacity
        Directed edge to ms of T per Gbit/s of its capacity: negative.
    access
        City to ms of T per Gbit/s of its access link, one direction or the other.
    memory
        City to ms of T per GB of its memory: negative.
    """

    delay: Mapping[int, float]
    capacity: Mapping[int, float]
    access: Mapping[int, float]
    memory: Mapping[int, float]


def sensitivity(
    topology: Topology, trees: Sequence[Tree], demand: Demand, timing: RoundTiming
) -> Sensitivity:
    """Work out the dual view of a feasible round.

    Parameters
    ----------
    topology, trees, demand
        As they were timed.
    timing
        What `controller.timing.time_demand` found: the tangents are laid where
        its durations are.

    Raises
    ------
    ValueError
        The round is not feasible, so that there is no T to shorten.
    """
    if timing.shortfall is not None:
        raise ValueError("a round that is not feasible has no sensitivities")
    ways = limits(topology, trees, demand)
    common = demand.rates == "common" or len(set(timing.durations_ms.values())) == 1
    program = build_program(trees, demand, ways, common=common)
    lengths_ms = np.empty(program.count)
    for sender, group in program.groups.items():
        lengths_ms[group] = timing.durations_ms[sender]
    for step in (1.0, 0.98, 1.02, 0.9, 1.1, 0.7, 1.4, 2.5):
        program.add_tangents(lengths_ms * step)
    lower = np.zeros(program.count)
    solution = program.solve(lower, lengths_ms * _MAX_DURATIONS, tie_break=False)
    if solution is None:
        raise ValueError("the round's program has no solution")
    return _Reader(topology, program, ways, solution).read()


class _Reader:
    """Adds up what the rows of one solved program say."""

    def __init__(
        self,
        topology: Topology,
        program: RateProgram,
        ways: Sequence[Limit],
        solution: Solution,
    ) -> None:
        self.topology, self.program, self.solution = topology, program, solution
        self.delay: dict[int, float] = {}
        self.capacity: dict[int, float] = {}
        self.access: dict[int, float] = {}
        self.memory: dict[int, float] = {}

    def read(self) -> Sensitivity:
        for tag, marginal in zip(self.program.program.tags, self.solution.marginals, strict=True):
            if marginal:
                self._row(*tag, float(marginal))
        return Sensitivity(
            *(
                {key: value for key, value in sorted(found.items()) if abs(value) > _TOO_LITTLE}
                for found in (self.delay, self.capacity, self.access, self.memory)
            )
        )

    def _row(self, kind: str, first: int, second: int, marginal: float) -> None:
        if kind in ("link", "out", "in"):
            self._limit(kind, first, second, marginal)
        elif kind in ("end", "last", "lag"):
            self._delay(first, second, -marginal)
        elif kind in ("lead", "first"):
            self._delay(first, second, marginal)
        elif kind == "hold":
            for j, tree in enumerate(self.program.trees):
                if second in tree.delays_ms:
                    self._delay(j, second, marginal)
        if kind in ("lead", "lag", "hold"):
            # The row's limit grows with the memory as the duration times M / P.
            length_ms = self._length_ms(self.program.trees[first].sender)
            per_gb = length_ms * 1e9 / self.program.demand.payload_bytes
            self.memory[second] = self.memory.get(second, 0.0) + marginal * per_gb

    def _length_ms(self, sender: int) -> float:
        return float(self.program.durations_ms(self.solution)[self.program.groups[sender]])

    def _delay(self, j: int, city: int, per_ms: float) -> None:
        for edge in self.program.trees[j].paths[city]:
            self.delay[edge] = self.delay.get(edge, 0.0) + per_ms

    def _limit(self, kind: str, index: int, copies: int, marginal: float) -> None:
        payload_bytes = self.program.demand.payload_bytes
        if kind == "link":
            rate_gbps, found = self.topology.edges[index].rate_gbps, self.capacity
        else:
            rate_gbps, found = self.topology.cities[index].access_rate_gbps, self.access
        alone_ms = link_time_ms(payload_bytes, rate_gbps)
        # One group: D ≥ copies · alone; more: Σ n ρ ≤ unit / alone.
        step = copies * alone_ms if copies else self.program.unit_ms / alone_ms
        found[index] = found.get(index, 0.0) + marginal * step / rate_gbps

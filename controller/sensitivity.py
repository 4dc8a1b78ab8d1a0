"""The dual view of a round: which delay, link or memory would shorten T, and by how much.

Ours. The marginals of the round's linear program say how T answers to each row's
limit; a delay, a capacity or a memory stands in one or more rows, and what they
say adds up (envelope theorem). Where the optimum is not unique the figure is one
of the subgradients: it lies between the answers to a small step up and one down.
The answer to a step in one direction is had by solving the program once more.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from controller.demand import Demand
from controller.multicast import Tree, link_time_ms
from controller.rateprogram import RateProgram, limits
from controller.roundtiming import RoundTiming
from controller.timing import build_program
from testbed.topology import Topology

Kind: TypeAlias = Literal["delay", "capacity", "access", "memory"]
Key: TypeAlias = tuple[Kind, int]
"""What T may depend on: ``delay`` and ``capacity`` of a directed edge, ``access`` and
``memory`` of a city; in ms, Gbit/s, Gbit/s and GB."""

_TOO_LITTLE = 1e-9
_MAX_DURATIONS = 1000.0
_TANGENTS = (1.0, 0.98, 1.02, 0.9, 1.1, 0.7, 1.4, 2.5)
# By how much a step moves a limit: little, and much against the solver's 1e-7.
_STEP_MS = 0.02


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
    found = DualView(topology, trees, demand, timing.durations_ms).marginals()
    kinds: tuple[Kind, ...] = ("delay", "capacity", "access", "memory")
    return Sensitivity(
        *({index: value for (k, index), value in found.items() if k == kind} for kind in kinds)
    )


class DualView:
    """A solved program of one round, and what its limits depend on.

    Parameters
    ----------
    topology, trees, demand
        A feasible round with constant rates.
    durations_ms
        By sender, as it was timed; tangents are laid there.

    Attributes
    ----------
    effects
        Key to row to the change of the row's limit per unit of the key.

    Raises
    ------
    ValueError
        The program has no solution.
    """

    def __init__(
        self,
        topology: Topology,
        trees: Sequence[Tree],
        demand: Demand,
        durations_ms: Mapping[int, float],
    ) -> None:
        ways = limits(topology, trees, demand)
        common = demand.rates == "common" or len(set(durations_ms.values())) == 1
        self.topology = topology
        self.program: RateProgram = build_program(trees, demand, ways, common=common)
        lengths_ms = np.empty(self.program.count)
        for sender, group in self.program.groups.items():
            lengths_ms[group] = durations_ms[sender]
        for step in _TANGENTS:
            self.program.add_tangents(lengths_ms * step)
        self._box = np.zeros(self.program.count), lengths_ms * _MAX_DURATIONS
        solution = self.program.solve(*self._box, tie_break=False)
        if solution is None:
            raise ValueError("the round's program has no solution")
        self.solution = solution
        self.effects: dict[Key, dict[int, float]] = {}
        for row, tag in enumerate(self.program.program.tags):
            for key, change in self._effects(*tag):
                rows = self.effects.setdefault(key, {})
                rows[row] = rows.get(row, 0.0) + change

    def marginals(self) -> dict[Key, float]:
        """T's change in ms per unit of each key, by this program's duals; zeros are left out."""
        found = {
            key: float(sum(self.solution.marginals[row] * by for row, by in rows.items()))
            for key, rows in sorted(self.effects.items())
        }
        return {key: value for key, value in found.items() if abs(value) > _TOO_LITTLE}

    def gain_ms(self, keys: Sequence[Key]) -> float:
        """What T loses, in ms per unit, if the keys get better together: less delay, more else."""
        shift = np.zeros(len(self.program.program.tags))
        for key in keys:
            for row, change in self.effects.get(key, {}).items():
                shift[row] += -change if key[0] == "delay" else change
        largest = float(np.abs(shift).max())
        if not largest:
            return 0.0
        step = _STEP_MS / largest
        better = self.program.solve(*self._box, tie_break=False, shift=shift * step)
        return 0.0 if better is None else (self.solution.cost - better.cost) / step

    def _effects(self, kind: str, first: int, second: int) -> Iterator[tuple[Key, float]]:
        """What a row's limit depends on, by its tag."""
        trees = self.program.trees
        if kind in ("link", "out", "in"):
            yield self._of_rate(kind, first, second)
        elif kind in ("end", "last", "lag"):
            yield from self._delays(trees[first], second, -1.0)
        elif kind in ("lead", "first"):
            yield from self._delays(trees[first], second, 1.0)
        elif kind == "hold":
            for tree in trees:
                if second in tree.delays_ms:
                    yield from self._delays(tree, second, 1.0)
        if kind in ("lead", "lag", "hold"):
            # The row's limit grows with the memory as the duration times M / P.
            group = self.program.groups[trees[first].sender]
            length_ms = float(self.program.durations_ms(self.solution)[group])
            yield ("memory", second), length_ms * 1e9 / self.program.demand.payload_bytes

    def _delays(self, tree: Tree, city: int, sign: float) -> Iterator[tuple[Key, float]]:
        for edge in tree.paths[city]:
            yield ("delay", edge), sign

    def _of_rate(self, kind: str, index: int, copies: int) -> tuple[Key, float]:
        payload_bytes = self.program.demand.payload_bytes
        key: Key
        if kind == "link":
            key, rate_gbps = ("capacity", index), self.topology.edges[index].rate_gbps
        else:
            key, rate_gbps = ("access", index), self.topology.cities[index].access_rate_gbps
        alone_ms = link_time_ms(payload_bytes, rate_gbps)
        # One group: D ≥ copies · alone; more: Σ n ρ ≤ unit / alone.
        step = copies * alone_ms if copies else self.program.unit_ms / alone_ms
        return key, step / rate_gbps

"""The linear program of a round: offsets, durations and T of given trees.

Paper: the last byte arrives within T, and what is held between the first and
the last arrival of a weight fits the memory. The rows are ours. Sender j
starts at t_j and sends for D_j; its stream reaches receiver i from
s_ji = t_j + d_ji on. Streams of one group share one duration.

- completion: s_ji + D_j ≤ T;
- a link that carries n_g copies of group g: Σ n_g · P / D_g ≤ C_e. One group:
  D ≥ n P / C_e. More: convex, so ρ_g ≥ 1 / D_g is kept above tangents of 1 / D;
- access links: the same for the copies that leave a city, and for the streams
  (with aggregation: each one alone) that enter it;
- memory M, ``accumulate``, with m = M / P: for each pair (j, k) of a receiver's
  senders s_k ≤ s_j + m D_j and s_k + (1 − m) D_k ≤ s_j + D_j. What is held is
  linear between starts and ends, so the two ends decide. One column for the
  last start, one for the last (1 − m)-point, instead of a row for each pair;
- memory, ``hold``, senders at one rate: Σ_j (max_k s_k − s_j) ≤ m D. Exact as
  long as a stream lasts longer than the spread, else on the safe side;
- a resend buffer: M is what it leaves of a receiver's memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.demand import Demand
from controller.linear import LinearProgram, Solution, Vector
from controller.multicast import Tree, link_time_ms
from controller.offsets import TIE_BREAK
from testbed.topology import Topology


@dataclass(frozen=True)
class Limit:
    """One way that streams share.

    Attributes
    ----------
    kind
        ``link``, ``out`` (of a city) or ``in`` (to a city).
    index
        Directed edge, or city.
    rate_gbps
        Its capacity.
    copies
        Sender to the number of copies of its stream on the way.
    """

    kind: str
    index: int
    rate_gbps: float
    copies: Mapping[int, int]


def limits(topology: Topology, trees: Sequence[Tree], demand: Demand) -> list[Limit]:
    """All ways that limit the rates of a round's streams, links first."""
    links: dict[int, dict[int, int]] = {}
    access: list[Limit] = []
    entering: dict[int, dict[int, int]] = {}
    for tree in trees:
        paths = tree.paths.values()
        used = tree.edges if demand.multicast else [edge for path in paths for edge in path]
        for edge in used:
            on_edge = links.setdefault(edge, {})
            on_edge[tree.sender] = on_edge.get(tree.sender, 0) + 1
        copies = 1 if demand.multicast else len(tree.paths)
        rate_gbps = topology.cities[tree.sender].access_rate_gbps
        access.append(Limit("out", tree.sender, rate_gbps, {tree.sender: copies}))
        for city in tree.receivers:
            entering.setdefault(city, {})[tree.sender] = 1
    for city, copies_in in sorted(entering.items()):
        rate_gbps = topology.cities[city].access_rate_gbps
        # Sums leave the aggregator no faster than the fastest stream arrives.
        shares = [{j: 1} for j in copies_in] if demand.aggregation else [copies_in]
        access.extend(Limit("in", city, rate_gbps, share) for share in shares)
    on_links = [
        Limit("link", edge, topology.edges[edge].rate_gbps, copies)
        for edge, copies in sorted(links.items())
    ]
    return [*on_links, *access]


def kept_bytes(ways: Sequence[Limit], demand: Demand) -> dict[int, float]:
    """Each receiver's resend buffer."""
    return {way.index: demand.kept_bytes(way.rate_gbps) for way in ways if way.kind == "in"}


class RateProgram:
    """Build and solve it for one division of the senders into groups.

    Parameters
    ----------
    trees
        One per sender; column j is the offset of ``trees[j]``.
    demand
        Payload, memory and rules.
    ways
        What the streams share; see `limits`.
    groups
        Sender to its group, 0 to g − 1. Where the memory binds and it is
        ``hold``, the senders to one receiver must be of one group.
    least_ms
        Shortest duration of any stream that stands alone.
    binding
        Whether the memory limits the round.
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        demand: Demand,
        ways: Sequence[Limit],
        groups: Mapping[int, int],
        least_ms: float,
        *,
        binding: bool,
    ) -> None:
        self.trees, self.demand, self.groups = trees, demand, groups
        self.count = max(groups.values()) + 1
        self.unit_ms = least_ms
        self.kept_bytes = kept_bytes(ways, demand)
        self.program = LinearProgram()
        self.program.columns(len(trees))
        self.duration = self.program.columns(self.count)
        self.rate = self.program.columns(self.count) if self.count > 1 else 0
        self.t = self.program.columns(1)
        self._completion()
        for way in ways:
            self._limit(way)
        if binding:
            self._memory()

    def solve(
        self,
        lower_ms: Vector,
        upper_ms: Vector,
        *,
        tie_break: bool,
        shift: Vector | None = None,
    ) -> Solution | None:
        """Minimise T with durations in a box; ``None`` if there is no solution.

        Parameters
        ----------
        lower_ms, upper_ms
            One duration per group.
        tie_break
            Whether to prefer early and short streams among equals; without, the
            marginals are those of T alone.
        shift
            Added to the rows' limits.
        """
        size = self.program.size
        cost, lower, upper = np.zeros(size), np.zeros(size), np.full(size, np.inf)
        cost[self.t] = 1.0
        span = slice(self.duration, self.duration + self.count)
        lower[span], upper[span] = lower_ms, upper_ms
        if tie_break:
            cost[: len(self.trees)] = TIE_BREAK / len(self.trees)
            if self.count > 1:
                cost[span] = TIE_BREAK / len(self.trees)
        return self.program.solve(cost, lower, upper, shift=shift)

    def durations_ms(self, solution: Solution) -> Vector:
        """One duration per group."""
        values: Vector = solution.values[self.duration : self.duration + self.count]
        return values

    def add_tangents(self, durations_ms: Vector) -> None:
        """Keep ρ_g above the tangent of unit / D at one duration per group."""
        if self.count == 1:
            return
        for group, at_ms in enumerate(durations_ms):
            slope = self.unit_ms / at_ms**2
            terms = {self.duration + group: -slope, self.rate + group: -1.0}
            self.program.add(terms, -2 * self.unit_ms / at_ms, ("tangent", group, 0))

    def _share(self, city: int) -> float:
        """The m of a receiver: what is left of its memory for streams, in payloads."""
        demand = self.demand
        return (demand.memory_bytes - self.kept_bytes[city]) / demand.payload_bytes

    def _duration(self, sender: int) -> int:
        return self.duration + self.groups[sender]

    def _completion(self) -> None:
        for j, tree in enumerate(self.trees):
            city = max(tree.delays_ms, key=lambda city: (tree.delays_ms[city], -city))
            terms = {j: 1.0, self._duration(tree.sender): 1.0, self.t: -1.0}
            self.program.add(terms, -tree.delays_ms[city], ("end", j, city))

    def _limit(self, way: Limit) -> None:
        alone_ms = link_time_ms(self.demand.payload_bytes, way.rate_gbps)
        copies: dict[int, int] = {}
        for sender, count in way.copies.items():
            copies[self.groups[sender]] = copies.get(self.groups[sender], 0) + count
        if len(copies) == 1:
            ((group, count),) = copies.items()
            tag = (way.kind, way.index, count)
            self.program.add({self.duration + group: -1.0}, -count * alone_ms, tag)
        else:
            terms = {self.rate + group: float(count) for group, count in copies.items()}
            self.program.add(terms, self.unit_ms / alone_ms, (way.kind, way.index, 0))

    def _memory(self) -> None:
        senders_to: dict[int, list[int]] = {}
        for j, tree in enumerate(self.trees):
            for city in tree.receivers:
                senders_to.setdefault(city, []).append(j)
        for city, arriving in senders_to.items():
            if len(arriving) == 1 and self._share(city) >= 0:
                continue
            if self.demand.memory_model == "hold":
                self._hold(city, arriving)
            else:
                self._accumulate(city, arriving)

    def _accumulate(self, city: int, arriving: Sequence[int]) -> None:
        add, share = self.program.add, self._share(city)
        last = self.program.columns(1)
        groups = {self.groups[self.trees[j].sender] for j in arriving}
        end = self.program.columns(1) if len(groups) > 1 else 0
        for j in arriving:
            delay_ms = self.trees[j].delays_ms[city]
            length = self._duration(self.trees[j].sender)
            add({j: 1.0, last: -1.0}, -delay_ms, ("last", j, city))
            terms = {last: 1.0, j: -1.0, length: -share}
            add(terms, delay_ms, ("lead", j, city))
            if end:
                terms = {j: 1.0, length: 1 - share, end: -1.0}
                add(terms, -delay_ms, ("lag", j, city))
                add({end: 1.0, j: -1.0, length: -1.0}, delay_ms, ("first", j, city))

    def _hold(self, city: int, arriving: Sequence[int]) -> None:
        last = self.program.columns(1)
        for j in arriving:
            delay_ms = self.trees[j].delays_ms[city]
            self.program.add({j: 1.0, last: -1.0}, -delay_ms, ("last", j, city))
        length = self._duration(self.trees[arriving[0]].sender)
        terms = {last: float(len(arriving)), length: -self._share(city)}
        terms.update(dict.fromkeys(arriving, -1.0))
        total_ms = sum(self.trees[j].delays_ms[city] for j in arriving)
        self.program.add(terms, total_ms, ("hold", arriving[0], city))

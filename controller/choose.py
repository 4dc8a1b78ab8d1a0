"""Which trees a round gets: the families of trees, and the best of them.

``shortest-path``, ``least-load`` (least T with memory to spare), ``hub`` (one
shared tree per clique), and ``best``: least T with delay, load and, where the
memory binds, alignment weighed together. ``best`` is exact at a common rate
where the network has few enough trees to list; elsewhere it is the best of the
heuristics, with a bound. It never leads a stream through a city twice, so hub
trees are had by asking for them only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from controller.bounds import access_duration_ms, lower_bound_ms
from controller.demand import Demand
from controller.hub import best_hubs
from controller.jointtrees import JointTrees, joint_trees
from controller.leastload import least_load_trees
from controller.listedtrees import ListedTrees
from controller.loadaware import load_aware_trees
from controller.multicast import Tree, shortest_path_trees
from controller.overtime import time_rates
from controller.roundtiming import RoundTiming
from controller.timing import time_demand
from controller.treeset import TreeCatalogue, count_spanning_trees
from testbed.routing import Routing
from testbed.topology import Topology

TREE_FAMILIES = ("best", "shortest-path", "least-load", "hub")
# A difference in T that is not worth leaving the shortest paths for.
_EQUAL_MS = 0.01
_CLOSE = 1e-3
_MOST_TREES = 2_000
# Beyond, flows along edges make a better integer program than whole trees.
_MOST_LISTED = 1_000
# Without a feasible round to start from, T is looked for up to this many bounds.
_FAR = 50.0


@dataclass(frozen=True)
class Candidate:
    """One choice of trees for one round, and what it leads to.

    Attributes
    ----------
    family
        How the trees were found, with a note if they are not proved best.
    trees
        One per sender.
    timing
        Times, or why not feasible.
    bound_ms
        No choice of trees of this kind has a smaller T; 0 where nothing is known.
    """

    family: str
    trees: tuple[Tree, ...]
    timing: RoundTiming
    bound_ms: float = 0.0

    def worse_than(self, other: "Candidate") -> bool:
        """Whether the other one is feasible first, then clearly faster."""
        mine, others = self.timing, other.timing
        if mine.shortfall is None or others.shortfall is None:
            if (mine.shortfall is None) != (others.shortfall is None):
                return mine.shortfall is not None
            return mine.t_ms > others.t_ms + _EQUAL_MS
        return mine.shortfall.missing_bytes > others.shortfall.missing_bytes * (1 + 1e-9)


class TreeChooser:
    """Choose the trees of rounds on one network.

    Parameters
    ----------
    routing
        Shortest paths of the network.
    demand
        What each round has to carry.
    family
        One of `TREE_FAMILIES`.
    exact
        Whether to solve an integer program where the network has too many trees
        to list; without, in far less time, a heuristic stands for it.
    """

    def __init__(
        self, routing: Routing, demand: Demand, family: str, *, exact: bool = True
    ) -> None:
        self._routing, self._demand, self._family = routing, demand, family
        self._exact = exact
        few = count_spanning_trees(routing.topology) <= _MOST_TREES
        wanted = demand.multicast and family in ("best", "least-load")
        self._catalogue = TreeCatalogue(routing.topology) if wanted and few else None
        self._listed = ListedTrees(routing.topology) if wanted and few else None

    def choose(self, cliques: Sequence[Sequence[int]], known: Sequence[Tree] = ()) -> Candidate:
        """Choose the trees of one round of disjoint cliques of city indices.

        Parameters
        ----------
        cliques
            The round.
        known
            Trees that a search has found for it, to be considered as well.
        """
        # Trees are weighed at a common rate; rates of their own come on top.
        common = replace(self._demand, rates="common")
        best: Candidate | None = None
        candidates = self._candidates(cliques, common)
        if known:
            candidates = chain(candidates, [self._timed("searched", tuple(known), common)])
        for candidate in candidates:
            timed = candidate
            if self._demand.rates != "common":
                timing = time_rates(self._routing.topology, candidate.trees, self._demand)
                timed = Candidate(candidate.family, candidate.trees, timing)
            if best is None or best.worse_than(timed):
                best = replace(timed, bound_ms=candidate.bound_ms)
            elif self._demand.rates == "common":
                best = replace(best, bound_ms=max(best.bound_ms, candidate.bound_ms))
        if best is None:
            raise ValueError(f"no trees of the family {self._family}")
        return self._noted(best)

    def _candidates(self, cliques: Sequence[Sequence[int]], demand: Demand) -> Iterator[Candidate]:
        routing = self._routing
        if self._family == "hub":
            hubs, trees = best_hubs(routing, cliques, demand)
            codes = " ".join(routing.topology.codes[hub] for hub in hubs)
            yield self._timed(f"hub ({codes})", trees, demand)
            return
        known: list[Candidate] = []
        if self._family != "least-load":
            # Unicast copies are forwarded by the next-hop table, so without
            # multicast there is nothing to choose.
            known.append(
                self._timed("shortest-path", shortest_path_trees(routing, cliques), demand)
            )
            yield known[-1]
        if self._family == "shortest-path" or not demand.multicast:
            return
        known.append(self._least_load(cliques, demand))
        yield known[-1]
        if self._family == "best":
            joint = self._joint(cliques, demand, known)
            if joint is not None:
                yield joint
            yield from self._packed(cliques, demand)

    def _timed(
        self, family: str, trees: tuple[Tree, ...], demand: Demand, bound_ms: float = 0.0
    ) -> Candidate:
        timing = time_demand(self._routing.topology, trees, demand)
        return Candidate(family, trees, timing, bound_ms)

    def _least_load(self, cliques: Sequence[Sequence[int]], demand: Demand) -> Candidate:
        """Least T as if the memory were large: also a bound for any memory."""
        topology = self._routing.topology
        floor_ms = lower_bound_ms(self._routing, cliques, demand)
        if self._catalogue is not None:
            access_ms = access_duration_ms(topology, cliques, demand)
            found = joint_trees(
                self._catalogue,
                cliques,
                _ample(demand),
                access_ms=access_ms,
                floor_ms=floor_ms,
                below_ms=float("inf"),
                most=_MOST_LISTED,
            )
            if found.trees is not None:
                return self._timed("least-load", found.trees, demand, found.bound_ms)
        if not self._exact:
            near = load_aware_trees(self._routing, cliques, demand.payload_bytes)
            return self._timed("least-load (heuristic)", near, demand, floor_ms)
        exact = least_load_trees(self._routing, cliques, demand.payload_bytes)
        family = f"least-load ({exact.note})" if exact.note else "least-load"
        timed = self._timed(family, exact.trees, demand)
        if not exact.note:
            floor_ms = max(floor_ms, time_demand(topology, exact.trees, _ample(demand)).t_ms)
        return replace(timed, bound_ms=floor_ms)

    def _joint(
        self, cliques: Sequence[Sequence[int]], demand: Demand, known: Sequence[Candidate]
    ) -> Candidate | None:
        """Trees that are also aligned for the memory; ``None`` where nothing better is found."""
        topology = self._routing.topology
        floor_ms = known[-1].bound_ms
        access_ms = access_duration_ms(topology, cliques, demand)
        binding = _binds(topology, demand, cliques)
        times = [c.timing.t_ms for c in known if c.timing.shortfall is None]
        if self._catalogue is None or not binding:
            return None
        if times and min(times) <= floor_ms * (1 + _CLOSE):
            return None
        below_ms = min(times) if times else floor_ms * _FAR
        found = self._jointly(cliques, demand, access_ms, floor_ms, below_ms)
        if found.trees is None:
            if not times:
                return None
            winner = min(known, key=lambda c: (c.timing.shortfall is not None, c.timing.t_ms))
            return replace(winner, bound_ms=found.bound_ms)
        return self._timed("joint", found.trees, demand, found.bound_ms)

    def _jointly(
        self,
        cliques: Sequence[Sequence[int]],
        demand: Demand,
        access_ms: float,
        floor_ms: float,
        below_ms: float,
    ) -> JointTrees:
        """Without memory by listing what is aligned, else by the integer program."""
        if self._catalogue is None or self._listed is None:
            return JointTrees(None, floor_ms)
        if demand.memory_bytes == 0 and demand.resend_ms == 0:
            found = self._listed.aligned(
                cliques,
                demand.payload_bytes,
                access_ms=access_ms,
                floor_ms=floor_ms,
                below_ms=below_ms,
            )
            if found is not None:
                return found
        return joint_trees(
            self._catalogue,
            cliques,
            demand,
            access_ms=access_ms,
            floor_ms=floor_ms,
            below_ms=below_ms,
        )

    def _packed(self, cliques: Sequence[Sequence[int]], demand: Demand) -> Iterator[Candidate]:
        """Trees that are best for rates of their own, with no memory and with ample memory."""
        if self._listed is None or self._demand.rates != "per-stream":
            return
        binding = _binds(self._routing.topology, demand, cliques)
        regimes = [False] if not binding else [True, False] if demand.memory_bytes else [True]
        for aligned in regimes:
            trees = self._listed.packed(cliques, demand.payload_bytes, aligned=aligned)
            if trees is not None:
                yield self._timed("packed", trees, demand)

    def _noted(self, best: Candidate) -> Candidate:
        """Say how far from the least T a choice may be, where it may be far."""
        gap = 1 - best.bound_ms / best.timing.t_ms
        open_question = self._family == "best" and self._demand.multicast and best.bound_ms > 0
        if not open_question or best.timing.shortfall is not None or gap <= _CLOSE:
            return best
        return replace(best, family=f"{best.family} (within {gap:.1%} of the optimum)")


def _ample(demand: Demand) -> Demand:
    return replace(demand, memory_bytes=demand.payload_bytes * 1e6, resend_ms=0.0)


def _binds(topology: Topology, demand: Demand, cliques: Sequence[Sequence[int]]) -> bool:
    """Whether some receiver's memory can limit the round."""
    return demand.memory_binds(max(map(len, cliques)) - 1, topology.fastest_access_gbps)

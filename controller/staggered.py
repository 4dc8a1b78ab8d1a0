"""Unpaced senders that start at chosen times: nothing but the order of a queue is planned.

Ours. At full speed a busy link is never idle while something waits, which no
pacing at constant rates can say. What is left to choose is whose bytes are last:
those with the shortest way ahead should be. Pattern search over the start times
on the fluid simulation, from all at once on, so never slower than that. Links
queue: this suits a network whose queues are long enough, and a memory that does
not bind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.demand import Demand
from controller.fluid import Unpaced, unpaced_round
from controller.multicast import Tree, link_time_ms
from testbed.topology import Topology

_STEPS_MS = (32.0, 16.0, 8.0, 4.0, 2.0, 1.0)
_COARSE_MS = 0.2
_FINE_MS = 0.05
_BETTER_MS = 1e-6


@dataclass(frozen=True)
class Staggered:
    """Start of each sender in ms, what follows, and what no rates on these trees can beat."""

    starts_ms: dict[int, float]
    round: Unpaced
    bound_ms: float


def staggered(topology: Topology, trees: Sequence[Tree], demand: Demand) -> Staggered | None:
    """Search start times for the least T of unpaced senders.

    Parameters
    ----------
    topology, trees
        The network, and one tree per sender.
    demand
        Payload and memory; with multicast and aggregation.

    Returns
    -------
    Staggered or None
        ``None`` where the simulation does not apply (no multicast or no
        aggregation, another memory model, a resend window) or the memory is
        too small for the result.
    """
    plain = demand.multicast and demand.aggregation and not demand.resend_ms
    if not plain or demand.memory_model != "accumulate":
        return None

    def cost_ms(starts_ms: dict[int, float]) -> tuple[float, float]:
        """T, and among equals the mean arrival, which leads off plateaus."""
        found = unpaced_round(
            topology, trees, demand.payload_bytes, starts_ms=starts_ms, step_ms=_COARSE_MS
        )
        last = [ms for arrivals in found.arrivals_ms.values() for ms in arrivals.values()]
        return found.t_ms, sum(last) / len(last)

    best = dict.fromkeys((tree.sender for tree in trees), 0.0)
    best_ms = cost_ms(best)
    for step_ms in _STEPS_MS:
        for sender in best:
            for start_ms in (best[sender] + step_ms, best[sender] - step_ms):
                if start_ms < 0:
                    continue
                tried = {**best, sender: start_ms}
                tried_ms = cost_ms(tried)
                if tried_ms < (best_ms[0] - _BETTER_MS, 0.0) or (
                    tried_ms[0] <= best_ms[0] and tried_ms[1] < best_ms[1] - _BETTER_MS
                ):
                    best, best_ms = tried, tried_ms
    found = unpaced_round(topology, trees, demand.payload_bytes, starts_ms=best, step_ms=_FINE_MS)
    if max(found.held_bytes.values()) > demand.memory_bytes:
        return None
    return Staggered(best, found, busiest_bound_ms(topology, trees, demand))


def busiest_bound_ms(topology: Topology, trees: Sequence[Tree], demand: Demand) -> float:
    """Bound T of given trees from below, whatever the rates and queues, in ms.

    A link must carry all its streams; nothing reaches it before the shortest
    way to it, and the last byte still has the shortest way from it ahead.
    """
    lead_ms: dict[int, list[float]] = {}
    ahead_ms: dict[int, list[float]] = {}
    bound_ms = 0.0
    for tree in trees:
        access_gbps = topology.cities[tree.sender].access_rate_gbps
        alone_ms = link_time_ms(demand.payload_bytes, access_gbps)
        bound_ms = max(bound_ms, alone_ms + max(tree.delays_ms.values()))
        behind: dict[int, float] = {}
        ahead: dict[int, float] = {}
        for city, path in tree.paths.items():
            so_far_ms = 0.0
            for edge in path:
                behind[edge] = so_far_ms
                # The farthest receiver beyond the edge waits for the stream's last byte.
                rest_ms = tree.delays_ms[city] - so_far_ms
                ahead[edge] = max(ahead.get(edge, 0.0), rest_ms)
                so_far_ms += topology.edges[edge].delay_ms
        for edge, so_far_ms in behind.items():
            lead_ms.setdefault(edge, []).append(so_far_ms)
            ahead_ms.setdefault(edge, []).append(ahead[edge])
    for edge, leads in lead_ms.items():
        alone_ms = link_time_ms(demand.payload_bytes, topology.edges[edge].rate_gbps)
        bound_ms = max(bound_ms, min(leads) + len(leads) * alone_ms + min(ahead_ms[edge]))
    return bound_ms

"""From a schedule in which the network adds and copies to what islands and aggregators run.

Every island sends its data once, up a tree to a hub. Where streams meet, the city's aggregator
adds them and sends one on; that of the hub sends the sum to a multicast group of all islands.
Sends start so that streams meet, and no aggregator needs more than its packet FIFO.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.collectives.hosts import BYTES_PER_US_OF_GBPS, edges_between
from controller.collectives.innetwork import SumTree, sum_schedule, sum_trees
from controller.collectives.network import PS_PER_US, Network
from controller.collectives.program import Kind
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task
from controller.hostplan import HostPath, HostPlan, HostStep, Place
from testbed.errors import InputError
from testbed.topology import Topology

_PS_PER_MS = PS_PER_US * 1e3


def best_sum(network: Network, task: Task, model: Model = "pipelined") -> tuple[SumTree, Schedule]:
    """The tree whose sum is everywhere first, and its schedule.

    Raises
    ------
    InputError
        There is no hub with trees of such switches up and down that share no link.
    """
    made = [
        (sum_schedule(network, task, model, [tree]), tree)
        for tree in sum_trees(network, task.workers)
    ]
    if not made:
        raise InputError(
            f"{network.name}: no hub has a tree up of switches that add and one down of switches "
            "that copy, without a link in both; use a schedule between hosts"
        )
    schedule, tree = min(made, key=lambda pair: pair[0].time_ps)
    return tree, schedule


def sum_plan(
    tree: SumTree, schedule: Schedule, topology: Topology, *, bound_us: float, bound: str
) -> HostPlan:
    """Turn one sum at a hub into what islands and aggregators run.

    Parameters
    ----------
    tree, schedule
        As `best_sum` makes them, on `controller.collectives.generators.cities`. All chunks take
        the same way, one right after the other: together they are one stream.
    topology
        What the network was made of.
    bound_us, bound
        Largest lower bound known for a network that copies and adds, and its name.
    """
    ways = _Ways(schedule, topology, tree)
    ups, relays, downs = ways.up(), ways.relays(), ways.down()
    paths = [leg.path for leg in (*ups.values(), *relays, *downs.values())]
    place = {id(path): i for i, path in enumerate(paths)}

    def step(leg: _Leg, kind: Kind, after: tuple[int, ...] = ()) -> HostStep:
        return HostStep(kind, 0, 0, place[id(leg.path)], leg.start_ms, leg.end_ms, after)

    return HostPlan(
        algorithm=schedule.algorithm,
        model=schedule.model,
        payload_bytes=schedule.task.payload_bytes,
        chunks=1,
        time_ms=max(leg.end_ms for leg in downs.values()),
        bound_ms=bound_us / 1e3,
        bound=bound,
        paths=tuple(paths),
        steps=tuple(
            # What is added must have left before the sum takes its place.
            (step(ups[city], "send"), step(downs[city], "receive", (0,)))
            for city in range(len(topology.codes))
        ),
        hub=ways.city(tree.hub),
        relays=tuple(step(leg, "send") for leg in relays),
    )


@dataclass(frozen=True)
class _Leg:
    """A path with the times of the stream on it."""

    path: HostPath
    start_ms: float
    end_ms: float


class _Ways:
    """The paths between islands and aggregators that a tree consists of."""

    def __init__(self, schedule: Schedule, topology: Topology, tree: SumTree) -> None:
        self.tree = tree
        self._network: Network = schedule.network
        self._topology = topology
        route = int(schedule.route[0])
        self._byte_ps = float(schedule.routes.byte_ps[route])
        self._whole_ps = self._byte_ps * schedule.task.payload_bytes
        self._begin_ps = int(schedule.start_ps.min())
        self._offset_ps = dict(tree.way.hops)
        src, dst = self._network.src.tolist(), self._network.dst.tolist()
        up, down = ([link for link, _ in way.hops] for way in (tree.up, tree.down))
        self._onward: Mapping[int, int] = {src[link]: link for link in up}
        self._inward: Mapping[int, int] = {dst[link]: link for link in down}
        is_worker = [node.worker for node in self._network.nodes]
        self._access = {
            link for link in (*up, *down) if is_worker[src[link]] or is_worker[dst[link]]
        }
        met = Counter(dst[link] for link in up)
        self._junctions = [node for node, count in met.items() if count > 1 or node == tree.hub]
        self._src: Callable[[int], int] = src.__getitem__
        self._dst: Callable[[int], int] = dst.__getitem__

    def city(self, node: int) -> int:
        """City index of an island's or a switch's node."""
        return node % len(self._topology.codes)

    def up(self) -> dict[int, _Leg]:
        """City to the leg from its island to the first aggregator."""
        return {
            self.city(node): self._leg(self._climb(node), "island", "aggregator")
            for node, _ in self.tree.up.sources
        }

    def relays(self) -> list[_Leg]:
        """Legs from aggregators to the next ones."""
        below = sorted(node for node in self._junctions if node != self.tree.hub)
        return [self._leg(self._climb(node), "aggregator", "aggregator") for node in below]

    def down(self) -> dict[int, _Leg]:
        """City to the leg from the hub's aggregator to its island."""
        legs = {}
        for node, _ in self.tree.down.targets:
            links: list[int] = []
            here = node
            while here != self.tree.hub:
                links.insert(0, self._inward[here])
                here = self._src(links[0])
            legs[self.city(node)] = self._leg(links, "aggregator", "island")
        return legs

    def _climb(self, node: int) -> list[int]:
        """Links from a node up to the next junction."""
        links: list[int] = []
        while not links or node not in self._junctions:
            links.append(self._onward[node])
            node = self._dst(links[-1])
        return links

    def _leg(self, links: list[int], starts_at: Place, ends_at: Place) -> _Leg:
        first, last = links[0], links[-1]
        ends = self.city(self._src(first)), self.city(self._dst(last))
        wan = [link for link in links if link not in self._access]
        path = HostPath(
            src=ends[0],
            dst=ends[1],
            tag=0,
            edges=edges_between(self._network, self._topology, ends, wan),
            rate_gbps=PS_PER_US / self._byte_ps / BYTES_PER_US_OF_GBPS,
            starts_at=starts_at,
            ends_at=ends_at,
        )
        end_ps = self._offset_ps[last] + int(self._network.latency_ps[last]) + self._whole_ps
        start_ps = self._begin_ps + self._offset_ps[first]
        return _Leg(path, start_ps / _PS_PER_MS, (self._begin_ps + end_ps) / _PS_PER_MS)

"""Ways around links that are down, for streams and single packets.

A stream none of whose ways crosses a dead link keeps its tree. Any other one gets the
tree of shortest paths through what is left of the network, as a whole: parts of two
trees may enter a city twice. Offsets and rates stay as planned, so that detours may
load links beyond their capacity, where packets then queue. Ours.
"""

from collections.abc import Collection

from controller.plan import Plan, RoundPlan, Stream
from testbed.routing import Routing, path_delay_ms, route
from testbed.topology import Topology


class Detours:
    """Detours of a topology without some of its links.

    Parameters
    ----------
    topology
        The whole network.
    dead
        Indices of links that are down.
    """

    def __init__(self, topology: Topology, dead: Collection[int]) -> None:
        self._topology = topology
        self._dead = frozenset(dead)
        self._routing: Routing = route(topology, without=dead)

    def crosses(self, edges: Collection[int]) -> bool:
        """Whether any of some directed edges belongs to a link that is down."""
        return any(self._topology.edges[edge].link in self._dead for edge in edges)

    def stream(self, planned: Stream, current: Stream | None = None) -> Stream:
        """The tree that a stream should take.

        Parameters
        ----------
        planned
            As it is without faults.
        current
            As it is on its way now: it stays there where it can reach everybody.

        Returns
        -------
        Stream
            Without the receivers that no way is left to.
        """
        for known in (current, planned):
            whole = known is not None and known.receivers == planned.receivers
            if known is not None and whole and not self.crosses(known.edges):
                return known
        topology, routing = self._topology, self._routing
        sender = topology.index(planned.sender)
        paths = {
            code: routing.path(sender, topology.index(code))
            for code in planned.receivers
            if routing.reaches(sender, topology.index(code))
        }
        return planned.model_copy(
            update={
                "receivers": tuple(paths),
                "paths": paths,
                "edges": tuple(sorted({edge for path in paths.values() for edge in path})),
                "delays_ms": {code: path_delay_ms(topology, path) for code, path in paths.items()},
                "hub": None,
            }
        )

    def round(self, planned: RoundPlan, current: RoundPlan | None = None) -> RoundPlan:
        """The trees of a round; see `stream`."""
        now = {s.sender: s for s in current.streams} if current is not None else {}
        streams = tuple(self.stream(s, now.get(s.sender)) for s in planned.streams)
        return planned.model_copy(update={"streams": streams})

    def base(self, plan: Plan) -> Plan:
        """A plan whose single packets go around dead links.

        Who cannot be reached keeps the planned way, at whose dead link packets end.
        """
        unicast = {
            dst: {src: self._onward(src, dst, edge) for src, edge in by_city.items()}
            for dst, by_city in plan.unicast.items()
        }
        return plan.model_copy(update={"unicast": unicast})

    def _onward(self, src: str, dst: str, planned: int) -> int:
        here, there = self._topology.index(src), self._topology.index(dst)
        if not self._dead or not self._routing.reaches(here, there):
            return planned
        return self._routing.path(here, there)[0]


def cut_off(planned: RoundPlan, taken: RoundPlan) -> tuple[tuple[str, str], ...]:
    """Senders and receivers between whom no way is left."""
    streams = zip(planned.streams, taken.streams, strict=True)
    return tuple(
        (before.sender, code)
        for before, now in streams
        for code in before.receivers
        if code not in now.receivers
    )

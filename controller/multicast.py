"""Multicast trees: the ways of each stream from its sender to its receivers.

Trees start at the sender's own city. Each city is entered by at most one edge,
so a switch that copies along the tree never delivers a packet twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from testbed.routing import Routing, path_delay_ms
from testbed.topology import Topology


@dataclass(frozen=True)
class Tree:
    """The ways of one stream.

    Attributes
    ----------
    sender
        City index; the root.
    clique
        Position of the sender's clique in its round.
    paths
        Receiver to the edges of the way there, in order.
    delays_ms
        Receiver to the one-way delay of that way.
    hub
        City that all ways lead through before they come back down a shared tree,
        or ``None``. Only then may a way pass a city twice.
    """

    sender: int
    clique: int
    paths: Mapping[int, tuple[int, ...]]
    delays_ms: Mapping[int, float]
    hub: int | None = None

    @property
    def receivers(self) -> tuple[int, ...]:
        """City indices, in the order of the clique."""
        return tuple(self.paths)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """All edges of the tree, in index order, each once."""
        return tuple(sorted({edge for path in self.paths.values() for edge in path}))


def make_tree(
    topology: Topology,
    sender: int,
    clique: int,
    paths: Mapping[int, tuple[int, ...]],
    *,
    hub: int | None = None,
) -> Tree:
    """Build a tree from its paths, with their delays."""
    delays_ms = {city: path_delay_ms(topology, path) for city, path in paths.items()}
    return Tree(sender, clique, dict(paths), delays_ms, hub)


def shortest_path_trees(routing: Routing, cliques: Sequence[Sequence[int]]) -> tuple[Tree, ...]:
    """One tree per sender, along the shortest paths.

    Parameters
    ----------
    routing
        Shortest paths of the network.
    cliques
        Disjoint cliques of city indices.

    Returns
    -------
    tuple of Tree
        In the order of the cliques and of the cities in them.
    """
    return tuple(
        make_tree(
            routing.topology,
            sender,
            number,
            {city: routing.path(sender, city) for city in clique if city != sender},
        )
        for number, clique in enumerate(cliques)
        for sender in clique
    )


def walk_back(
    into: Mapping[int, int], src: Sequence[int], sender: int, city: int
) -> tuple[int, ...]:
    """List the edges from a sender to a city.

    Parameters
    ----------
    into
        City to the one edge of the tree that enters it.
    src
        Edge index to the city where the edge starts.
    sender, city
        The two ends.
    """
    path: list[int] = []
    while city != sender:
        path.append(into[city])
        city = src[into[city]]
    return tuple(reversed(path))


def edge_copies(trees: Iterable[Tree], *, multicast: bool) -> dict[int, int]:
    """Count the stream copies on each edge that carries any.

    Parameters
    ----------
    trees
        The streams of one round.
    multicast
        On: one copy per edge of a tree. Off: one per path that uses the edge.
    """
    copies: Counter[int] = Counter()
    for tree in trees:
        if multicast:
            copies.update(tree.edges)
        else:
            copies.update(edge for path in tree.paths.values() for edge in path)
    return dict(sorted(copies.items()))


def link_time_ms(payload_bytes: float, rate_gbps: float) -> float:
    """Time that one payload takes at a rate, in ms."""
    return payload_bytes * 8e-6 / rate_gbps


def round_cost_ms(topology: Topology, trees: Sequence[Tree], payload_bytes: float) -> float:
    """Largest delay plus the busiest link's time, with multicast on, in ms."""
    largest = max(max(tree.delays_ms.values()) for tree in trees)
    copies = edge_copies(trees, multicast=True)
    busiest = max(
        count * link_time_ms(payload_bytes, topology.edges[edge].rate_gbps)
        for edge, count in copies.items()
    )
    return largest + busiest


def check_tree(
    topology: Topology, sender: str, edges: Iterable[int], receivers: Iterable[str]
) -> list[str]:
    """Find whatever keeps a set of edges from being a multicast tree.

    Walks the edges from the root, without regard to how they were chosen.

    Parameters
    ----------
    topology
        The network.
    sender
        Code of the root.
    edges
        Directed edges.
    receivers
        Codes that the tree must reach.

    Returns
    -------
    list of str
        One sentence per fault; empty for a tree.
    """
    faults: list[str] = []
    entries: Counter[str] = Counter()
    onward: dict[str, list[str]] = {}
    for index in edges:
        if not 0 <= index < len(topology.edges):
            faults.append(f"tree of {sender}: edge {index} does not exist")
            continue
        edge = topology.edges[index]
        entries[edge.dst] += 1
        onward.setdefault(edge.src, []).append(edge.dst)
    entries[sender] += 1
    for city, count in entries.items():
        if count > 1:
            faults.append(f"tree of {sender}: {city} is entered {count} times")
    reached = {sender}
    frontier = [sender]
    while frontier:
        new = [city for city in onward.get(frontier.pop(), []) if city not in reached]
        reached.update(new)
        frontier.extend(new)
    wanted = set(receivers)
    for city in sorted(wanted - reached):
        faults.append(f"tree of {sender}: {city} is not reached")
    for city in sorted(set(entries) - reached):
        faults.append(f"tree of {sender}: the edge into {city} hangs loose")
    for city in sorted(reached - wanted - {sender} - set(onward)):
        faults.append(f"tree of {sender}: the branch to {city} serves nobody")
    return faults


def check_walks(sender: str, edges: Iterable[int], paths: Mapping[str, Sequence[int]]) -> list[str]:
    """Find whatever keeps the ways through a hub from being forwarded by incoming port.

    Parameters
    ----------
    sender
        Code of the root.
    edges
        Directed edges of all ways.
    paths
        Receiver to its way.

    Returns
    -------
    list of str
        One sentence per fault: an edge that is entered from two sides, so that
        a packet would cross it twice, or one that no way uses.
    """
    faults: list[str] = []
    before: dict[int, int] = {}
    for path in paths.values():
        for previous, edge in zip((-1, *path), path, strict=False):
            if before.setdefault(edge, previous) != previous:
                faults.append(f"ways of {sender}: edge {edge} is entered from two sides")
    if set(before) != set(edges):
        faults.append(f"ways of {sender}: their edges are not the edges of the stream")
    return faults

"""Hub trees: all streams of a clique go up one shared tree to a hub and down again.

Ours. If a_j is the way from island j to the hub and b_i the way from the hub to
island i, then d_ji = a_j + b_i by construction: offsets t_j = max(a) − a_j let
all streams arrive together at every island, so that any clique is feasible
without memory, and with delays of any symmetry. The price is a longer latency
part, and load: the hub's links carry almost every stream.

A stream may pass a city twice, once on its way up, once on its way down; it is
delivered on the way down only. Switches tell both by the port that a packet came
in by (`controller.rules`), and a hub may send one back where it came from.
"""

import itertools
from collections.abc import Sequence

from controller.demand import Demand
from controller.multicast import Tree, make_tree
from controller.rateprogram import limits
from controller.timing import common_duration_ms
from testbed.routing import Routing

_MAX_CHOICES = 800
_SWEEPS = 3


def hub_trees(routing: Routing, hub: int, clique: Sequence[int], number: int) -> tuple[Tree, ...]:
    """Lead all streams of one clique through one hub.

    Parameters
    ----------
    routing
        The shared tree is the hub's shortest paths, used in both directions.
    hub
        City index, inside the clique or not.
    clique
        City indices.
    number
        Position of the clique in its round.
    """
    down = {city: routing.path(hub, city) for city in clique}
    up = {city: tuple(edge ^ 1 for edge in reversed(path)) for city, path in down.items()}
    return tuple(
        make_tree(
            routing.topology,
            sender,
            number,
            {city: up[sender] + down[city] for city in clique if city != sender},
            hub=hub,
        )
        for sender in clique
    )


def best_hubs(
    routing: Routing, cliques: Sequence[Sequence[int]], demand: Demand
) -> tuple[tuple[int, ...], tuple[Tree, ...]]:
    """Choose one hub per clique, among all cities, for the least T of the round.

    All choices are tried if they are few, else one clique's hub after the other.
    T is taken with aligned streams if the memory can limit the round, and with
    all streams at once if it cannot.

    Returns
    -------
    hubs : tuple of int
        City index per clique.
    trees : tuple of Tree
        In the order of `controller.multicast.shortest_path_trees`.
    """
    cities = range(len(routing.topology.cities))
    options = [
        [hub_trees(routing, hub, clique, number) for hub in cities]
        for number, clique in enumerate(cliques)
    ]

    def cost_ms(hubs: Sequence[int]) -> float:
        trees = [tree for number, hub in enumerate(hubs) for tree in options[number][hub]]
        duration_ms = common_duration_ms(
            limits(routing.topology, trees, demand), demand.payload_bytes
        )
        latency_ms = max(
            _latency_ms(routing, options[number][hub], demand) for number, hub in enumerate(hubs)
        )
        return latency_ms + duration_ms

    if len(cities) ** len(cliques) <= _MAX_CHOICES:
        hubs = min(itertools.product(cities, repeat=len(cliques)), key=cost_ms)
    else:
        hubs = tuple(
            min(cities, key=lambda hub: _latency_ms(routing, options[number][hub], demand))
            for number in range(len(cliques))
        )
        for _ in range(_SWEEPS):
            before = hubs
            for number in range(len(cliques)):
                hubs = min(
                    ((*hubs[:number], hub, *hubs[number + 1 :]) for hub in cities), key=cost_ms
                )
            if hubs == before:
                break
    return hubs, tuple(tree for number, hub in enumerate(hubs) for tree in options[number][hub])


def aligned_latency_ms(trees: Sequence[Tree]) -> float:
    """Latency part of T if all streams of a hub arrive together at every island, in ms."""
    if len(trees) == 2:
        return max(max(tree.delays_ms.values()) for tree in trees)
    # Delays are a_j + b_i: what two streams differ by is the same at any common receiver.
    first = trees[0]
    ahead = {first.sender: 0.0}
    for tree in trees[1:]:
        shared = next(city for city in tree.receivers if city in first.delays_ms)
        ahead[tree.sender] = tree.delays_ms[shared] - first.delays_ms[shared]
    latest = max(ahead.values())
    return max(latest - ahead[tree.sender] + max(tree.delays_ms.values()) for tree in trees)


def _latency_ms(routing: Routing, trees: Sequence[Tree], demand: Demand) -> float:
    if demand.memory_binds(len(trees) - 1, routing.topology.fastest_access_gbps):
        return aligned_latency_ms(trees)
    return max(max(tree.delays_ms.values()) for tree in trees)

"""The classic algorithms as trees: for each chunk one along which it spreads, or is added up.

A tree lists ``(parent, child, step)`` from its root on; ``step`` says when, counted in sends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from controller.collectives.network import Floats
from controller.tour import shortest_tour

Edge = tuple[int, int, int]
Tree = list[Edge]


def ring_tree(root: int, order: Sequence[int], *, forward: bool) -> Tree:
    """A chain once around a ring."""
    place, count, way = list(order).index(root), len(order), 1 if forward else -1
    stops = [order[(place + way * step) % count] for step in range(count)]
    return [(a, b, step) for step, (a, b) in enumerate(pairwise(stops))]


def direct_tree(root: int, members: Sequence[int]) -> Tree:
    """The root to each other member, beginning with the next one, so that roots keep apart."""
    place, count = list(members).index(root), len(members)
    others = [members[(place + step) % count] for step in range(1, count)]
    return [(root, other, step) for step, other in enumerate(others)]


def binomial_tree(root: int, members: Sequence[int]) -> Tree:
    """Recursive doubling from the root; backwards recursive halving (Thakur et al. 2005).

    Members beyond the largest power of two hang on a partner each.
    """
    ranks = 1 << (len(members).bit_length() - 1)
    place = list(members).index(root)
    tree: Tree = []
    reached = [place % ranks]
    step = 0
    if place >= ranks:
        tree.append((root, members[place - ranks], 0))
        step = 1
    bit = 1
    while bit < ranks:
        tree += [(members[r], members[r ^ bit], step) for r in reached]
        reached += [r ^ bit for r in reached]
        bit, step = bit * 2, step + 1
    for extra in range(ranks, len(members)):
        if extra != place:
            tree.append((members[extra - ranks], members[extra], step))
    return tree


def balanced_tree(members: Sequence[int]) -> Tree:
    """In-order binary tree, whose leaves are every second member (Sanders et al. 2009)."""
    tree: Tree = []

    def grow(low: int, high: int, depth: int) -> int:
        middle = (low + high) // 2
        for below, above in ((low, middle), (middle + 1, high)):
            if below < above:
                tree.append((members[middle], members[grow(below, above, depth + 1)], depth))
        return middle

    grow(0, len(members), 0)
    return sorted(tree, key=lambda edge: edge[2])


def group_tree(root: int, groups: Sequence[Sequence[int]], turn: int) -> Tree:
    """From the root to one member of each other group, from those to their groups."""
    tree: Tree = []
    heads = [root]
    for group in groups:
        if root not in group:
            head = group[turn % len(group)]
            tree.append((root, head, len(heads) - 1))
            heads.append(head)
    first = len(groups) - 1
    for group in groups:
        head = next(h for h in heads if h in group)
        others = [m for m in group if m != head]
        tree += [(head, other, first + k) for k, other in enumerate(others)]
    return tree


def rooted_at(tree: Tree, root: int) -> Tree:
    """The same tree hung up at another node; steps are depths."""
    near: dict[int, list[int]] = {}
    for a, b, _ in tree:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    found: Tree = []
    depth = {root: 0}
    queue = [root]
    for node in queue:
        for other in near.get(node, []):
            if other not in depth:
                depth[other] = depth[node] + 1
                found.append((node, other, depth[node]))
                queue.append(other)
    return found


TreeOf = Callable[[int, int], Tree]
"""A tree for a root and the running number of the chunk among those with that root."""


@dataclass(frozen=True)
class Family:
    """The trees of one algorithm.

    Attributes
    ----------
    tree
        For a root, and the running number of the chunk among those with it.
    own
        Trees whose roots the algorithm chooses itself, for an all-reduce; chunks take them in
        turn. Empty if every worker is the root of as many chunks.
    """

    tree: TreeOf
    own: tuple[Tree, ...] = ()


def classic_trees(
    members: Sequence[int], away: Floats, groups: Sequence[Sequence[int]], server: int
) -> Mapping[str, Family]:
    """Every classic algorithm by name.

    Parameters
    ----------
    members
        Workers.
    away
        Time of a chunk between each two of them, for the order of the ring.
    groups
        Workers by region or site; one group, or none, makes no hierarchy.
    server
        The worker that is the parameter server.
    """
    tour = [members[i] for i in shortest_tour(away)]
    binary = (balanced_tree(tour), balanced_tree([*tour[1:], tour[0]]))
    star = direct_tree(server, members)
    made = {
        "ring": Family(lambda root, _: ring_tree(root, tour, forward=True)),
        "two-way-ring": Family(lambda root, turn: ring_tree(root, tour, forward=turn % 2 == 0)),
        "halving-doubling": Family(lambda root, _: binomial_tree(root, members)),
        "direct": Family(lambda root, _: direct_tree(root, members)),
        "double-binary-tree": Family(lambda root, turn: rooted_at(binary[turn % 2], root), binary),
        "parameter-server": Family(lambda root, _: rooted_at(star, root), (star,)),
    }
    if len(groups) > 1:
        made["hierarchical"] = Family(lambda root, turn: group_tree(root, groups, turn))
    return MappingProxyType(made)

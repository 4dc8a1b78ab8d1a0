"""Where the search starts: families of rotations that are known to mix well.

Families are written over positions 0 … N−1; which city sits at which position
is the search's business. Relabelling leaves A as it is and changes T.

- Grid: N = m₁ m₂ … as a box; round s averages along axis s. After one round per
  axis all agree exactly (Moshpit SGD; with m = 2 the hypercube). Where N has no
  such factors the box is cut short, and agreement is only near.
- Affine plane: N = q², q prime: the q + 1 classes of parallel lines; any two
  agree exactly, and longer rotations spread the load over more links.
- Radix: the grid with each axis at most k + 1 long, as in the Base-(k+1) graphs
  (Takezawa et al. 2023), but with plain averages inside cliques.
- Matchings: odd–even on a line, and the rounds of a round-robin tournament.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.schedule import NAMED, named_schedule
from controller.search.partitions import Labels, canonical, labels_of
from controller.tour import shortest_tour
from testbed.errors import InputError
from testbed.routing import route
from testbed.topology import Topology


@dataclass(frozen=True)
class Start:
    """A rotation to start from, as labels of cities."""

    family: str
    rounds: tuple[Labels, ...]


def starts(topology: Topology, max_period: int) -> list[Start]:
    """List named schedules and families, laid out along a short tour of the cities."""
    found: dict[tuple[Labels, ...], Start] = {}
    for start in (*_named(topology), *_laid_out(topology, max_period)):
        if 1 <= len(start.rounds) <= max_period:
            found.setdefault(start.rounds, start)
    return list(found.values())


def _named(topology: Topology) -> Iterator[Start]:
    for name in NAMED:
        try:
            schedule = named_schedule(name, topology)
        except InputError:
            continue
        rounds = tuple(
            labels_of(([topology.index(c) for c in q] for q in cliques), len(topology.cities))
            for cliques in schedule.rounds
        )
        yield Start(name, rounds)


def _laid_out(topology: Topology, max_period: int) -> Iterator[Start]:
    tour = shortest_tour(route(topology).delays_ms())
    for family, rounds in families(len(tour), max_period):
        yield Start(family, tuple(relabel(labels, tour) for labels in rounds))


def relabel(labels: Labels, cities: Sequence[int]) -> Labels:
    """Put the city ``cities[p]`` at position p."""
    raw = [0] * len(labels)
    for position, city in enumerate(cities):
        raw[city] = labels[position]
    return canonical(raw)


def families(count: int, max_period: int) -> Iterator[tuple[str, tuple[Labels, ...]]]:
    """Rotations over positions, each with its family's name."""
    for sizes in _boxes(count, max_period):
        name = "grid " + "×".join(map(str, sizes))
        rounds = _grid(count, sizes)
        yield name, rounds
        if len(rounds) == 2 and max_period >= 3:
            yield f"{name}, rows twice", (rounds[0], rounds[0], rounds[1])
    order = math.isqrt(count)
    if order * order == count and all(order % d for d in range(2, order)) and order > 1:
        classes = _affine_plane(order)
        for period in range(2, min(len(classes), max_period) + 1):
            yield f"affine plane, {period} classes", classes[:period]
    matchings = _round_robin(count)
    for period in range(2, min(len(matchings), max_period) + 1):
        spread = [matchings[i * len(matchings) // period] for i in range(period)]
        yield f"round robin, {period} matchings", tuple(spread)
    line = [[(i, i + 1) for i in range(first, count - 1, 2)] for first in (0, 1)]
    if all(line):
        yield "odd–even line", tuple(labels_of(pairs, count) for pairs in line)


def _boxes(count: int, max_axes: int) -> list[tuple[int, ...]]:
    """Box sizes whose product is N, and for each radix the least box that holds N."""
    boxes: set[tuple[int, ...]] = set()

    def factor(rest: int, least: int, taken: tuple[int, ...]) -> None:
        for size in range(least, math.isqrt(rest) + 1):
            if rest % size == 0 and len(taken) + 2 <= max_axes:
                boxes.add((*taken, size, rest // size))
                factor(rest // size, size, (*taken, size))

    factor(count, 2, ())
    for radix in range(2, math.isqrt(count) + 2):
        axes = math.ceil(round(math.log(count) / math.log(radix), 9))
        if 2 <= axes <= max_axes:
            boxes.add((radix,) * axes)
    return sorted(boxes)


def _grid(count: int, sizes: tuple[int, ...]) -> tuple[Labels, ...]:
    """One round per axis; positions beyond N do not exist."""
    rounds = []
    stride = 1
    for size in reversed(sizes):
        # Same line along the axis: all coordinates but this one are equal.
        raw = [p - (p // stride % size) * stride for p in range(count)]
        rounds.append(canonical(raw))
        stride *= size
    return tuple(labels for labels in rounds if max(labels) < count - 1)


def _affine_plane(order: int) -> tuple[Labels, ...]:
    """Classes of parallel lines of the plane over the integers modulo a prime."""
    points = [divmod(p, order) for p in range(order * order)]
    slopes = [canonical([(y - slope * x) % order for x, y in points]) for slope in range(order)]
    return (canonical([x for x, _ in points]), *slopes)


def _round_robin(count: int) -> list[Labels]:
    """Circle method: all pairs meet once; with an odd number one sits out each round."""
    places = list(range(count + count % 2))
    rounds = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        rounds.append(labels_of([q for q in pairs if max(q) < count], count))
        places = [places[0], places[-1], *places[1:-1]]
    return rounds

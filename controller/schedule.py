"""Schedules: which cities average with which, round by round.

A schedule is a period of rounds; each round splits the cities into disjoint
cliques, and who is in no clique sits the round out. The four named schedules
follow the paper's description; how they are built for an arbitrary topology is
ours.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from controller.tour import shortest_tour
from testbed.errors import InputError, suggestion
from testbed.routing import Routing, route
from testbed.topology import Topology
from testbed.yamlfile import Value, Where, YamlFile, describe, read_yaml

Clique: TypeAlias = tuple[str, ...]
Round: TypeAlias = tuple[Clique, ...]

NAMED = ("triangles", "pairs", "all-to-all", "regional")
_MAX_ASSIGNMENTS = 20_000


@dataclass(frozen=True)
class Schedule:
    """A period of rounds of disjoint cliques, as city codes."""

    name: str
    rounds: tuple[Round, ...]

    def check(self, topology: Topology) -> None:
        """Refuse a schedule that a topology cannot run.

        Raises
        ------
        InputError
            No round, an empty round, a clique of one, or a city that is
            unknown or twice in a round.
        """
        for _, message in _faults(self.rounds, topology.codes):
            raise InputError(f'schedule "{self.name}": {message}')


def load_schedule(name_or_path: str | Path, topology: Topology) -> Schedule:
    """Build a named schedule for a topology, or read one from a YAML file.

    Parameters
    ----------
    name_or_path
        One of `NAMED`, or a path: whatever ends in ``.yaml`` or ``.yml``, or
        has a directory in it.
    topology
        The network that it is for; its regions and delays shape the named ones.

    Raises
    ------
    InputError
        No such schedule, a file that is wrong, or a topology that the named
        schedule cannot be built for.
    """
    text = str(name_or_path)
    if text in NAMED:
        return named_schedule(text, topology)
    path = Path(text)
    if path.suffix not in (".yaml", ".yml") and len(path.parts) < 2:
        hint = suggestion(text, NAMED)
        raise InputError(f'unknown schedule "{text}"; {hint} (a file must end in .yaml)')
    return _parse(read_yaml(path), topology)


def named_schedule(name: str, topology: Topology) -> Schedule:
    """Build one of the four named schedules; see `load_schedule`."""
    if name == "all-to-all":
        rounds: tuple[Round, ...] = ((topology.codes,),)
    elif name == "regional":
        rounds = (_regional(topology),)
    elif name == "triangles":
        rounds = (_regional(topology), _cross_regional(route(topology)))
    elif name == "pairs":
        rounds = _pairs(route(topology))
    else:
        raise InputError(f'unknown schedule "{name}"; {suggestion(name, NAMED)}')
    return Schedule(name, rounds)


def regions(topology: Topology) -> dict[str, list[str]]:
    """Region to the codes of its cities, both in index order."""
    members: dict[str, list[str]] = {}
    for city in topology.cities:
        members.setdefault(city.region, []).append(city.code)
    return members


def latency_part_ms(delays_ms: Sequence[Sequence[float]], clique: Sequence[int]) -> float:
    """How much of the round time of one clique is latency, in ms.

    For three cities the delay of the last byte when the offsets align all
    streams without memory: longest + middle − shortest edge (the zero-memory
    lemma, ours). For other sizes the largest delay.
    """
    pairs = itertools.combinations(clique, 2)
    longest = sorted(max(delays_ms[a][b], delays_ms[b][a]) for a, b in pairs)
    if len(clique) == 3:
        return longest[2] + longest[1] - longest[0]
    return longest[-1]


def _regional(topology: Topology) -> Round:
    """One clique for each region that has at least two cities."""
    cliques = tuple(tuple(codes) for codes in regions(topology).values() if len(codes) > 1)
    if not cliques:
        raise InputError(
            f'topology "{topology.name}": regional cliques need a region with two cities or more'
        )
    return cliques


def _cross_regional(routing: Routing) -> Round:
    """Columns of the grid whose rows are the regions.

    Of all assignments the one with the least latency part of its slowest
    clique; among equals the first in index order.
    """
    topology = routing.topology
    rows = [[topology.index(code) for code in codes] for codes in regions(topology).values()]
    size = len(rows[0])
    if len(rows) < 2 or size < 2 or any(len(row) != size for row in rows):
        sizes = ", ".join(f"{region} {len(row)}" for region, row in regions(topology).items())
        raise InputError(
            f'topology "{topology.name}": triangles need two or more regions of the same size, '
            f"two or more cities each; found {sizes}"
        )
    count = math.factorial(size) ** (len(rows) - 1)
    if count > _MAX_ASSIGNMENTS:
        raise InputError(
            f'topology "{topology.name}": {count} ways to pair up {len(rows)} regions of {size} '
            f"cities are too many to try; write the rounds into a schedule file"
        )
    delays_ms = routing.delays_ms().tolist()
    best: tuple[float, tuple[tuple[int, ...], ...]] | None = None
    for others in itertools.product(*(itertools.permutations(row) for row in rows[1:])):
        columns = tuple(zip(rows[0], *others, strict=True))
        cost = max(latency_part_ms(delays_ms, column) for column in columns)
        if best is None or cost < best[0] - 1e-9:
            best = (cost, columns)
    chosen = best[1] if best else ()
    return tuple(tuple(topology.codes[city] for city in column) for column in chosen)


def _pairs(routing: Routing) -> tuple[Round, ...]:
    """Odd–even matching on a line: the shortest tour, opened before its start."""
    codes = routing.topology.codes
    line = [codes[city] for city in shortest_tour(routing.delays_ms())]
    even = tuple(itertools.pairwise(line))[0::2]
    odd = tuple(itertools.pairwise(line))[1::2]
    return (even, odd) if odd else (even,)


def _parse(file: YamlFile, topology: Topology) -> Schedule:
    """Read ``name`` and ``rounds`` of a schedule file."""
    top = file.mapping((), file.data, ("name", "rounds"))
    for key in ("name", "rounds"):
        if key not in top:
            raise file.error((), f'key "{key}" is missing')
    name = top["name"]
    if not isinstance(name, str) or not name:
        raise file.error(("name",), "name: expected a text")
    rounds = tuple(
        tuple(
            tuple(_code(file, ("rounds", r, c, i), code) for i, code in enumerate(clique))
            for c, clique in enumerate(_lists(file, ("rounds", r), cliques))
        )
        for r, cliques in enumerate(_lists(file, ("rounds",), top["rounds"]))
    )
    for where, message in _faults(rounds, topology.codes):
        raise file.error(("rounds", *where), message)
    return Schedule(name, rounds)


def _lists(file: YamlFile, where: Where, value: Value) -> list[list[Value]]:
    """Check that a value is a list of lists, and return it."""
    items = file.sequence(where, value)
    return [file.sequence((*where, i), item) for i, item in enumerate(items)]


def _code(file: YamlFile, where: Where, value: Value) -> str:
    """Check that a value is a text, and return it."""
    if not isinstance(value, str):
        raise file.error(where, f"expected the code of a city, found {describe(value)}")
    return value


def _faults(rounds: Sequence[Round], codes: Sequence[str]) -> Iterator[tuple[Where, str]]:
    """Find what is wrong with rounds: where, as indices, and one sentence each."""
    if not rounds:
        yield (), "a schedule has one round or more"
    for r, cliques in enumerate(rounds):
        taken: set[str] = set()
        if not cliques:
            yield (r,), f"round {r} has no clique"
        for c, clique in enumerate(cliques):
            for i, code in enumerate(clique):
                if code not in codes:
                    hint = suggestion(code, codes)
                    yield (r, c, i), f'round {r}: unknown city "{code}"; {hint}'
                if code in taken:
                    yield (r, c, i), f'round {r}: city "{code}" appears twice in the round'
                taken.add(code)
            if len(clique) < 2:
                hint = "leave out a city that sits the round out"
                yield (r, c), f"round {r}: a clique has two cities or more; {hint}"

"""What would shorten a plan's T: links, access links, delays, memories, and by how much.

Ours. T is convex in the limits of a round's program, so what one thing brings
alone is the least of its marginals over all duals: where several links are
equally busy one dual blames one of them, but only all of them together bring
anything. Each figure here is therefore the program's own answer to a small step
(`controller.sensitivity.DualView.gain_ms`), and a marginal only says what is
worth asking. Trees stay as they are. If several rounds of the period are the
slowest, only what shortens all of them counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from controller.demand import Demand
from controller.multicast import Tree, link_time_ms
from controller.plan import Plan, RoundPlan
from controller.rateprogram import limits
from controller.sensitivity import DualView, Key
from testbed.topology import Topology

What: TypeAlias = Literal["link", "access", "rate", "delay", "memory"]
UNITS: Final[dict[What, str]] = {
    "link": "Gbit/s",
    "access": "Gbit/s",
    "rate": "Gbit/s",
    "delay": "ms",
    "memory": "GB",
}

_EQUAL_MS = 1e-6
_FULL = 1 - 1e-6
_LEAST_GAIN = 1e-3
_DIGITS = 6


@dataclass(frozen=True)
class Bottleneck:
    """Something that would shorten T.

    Attributes
    ----------
    what
        ``link`` (its capacity), ``access`` (that of an access link), ``rate``
        (of links and access links), ``delay`` (of a link) or ``memory``. A link
        counts in both directions.
    places
        Links (``lon-nyc``) and cities; several have to get better together.
    gain_ms
        ms that T loses per Gbit/s or GB more, or per ms of delay less, at first.
    """

    what: What
    places: tuple[str, ...]
    gain_ms: float

    @property
    def unit(self) -> str:
        """Unit of what gets better."""
        return UNITS[self.what]


@dataclass(frozen=True)
class Bottlenecks:
    """What would shorten T, most first, sets after single things; ``note`` says what is odd."""

    found: tuple[Bottleneck, ...]
    note: str


_Ask: TypeAlias = tuple[What, tuple[Key, ...]]
"""Whose gain is asked for."""


def find_bottlenecks(plan: Plan) -> Bottlenecks:
    """Find what would shorten the slowest round of a plan.

    Parameters
    ----------
    plan
        Feasible and with constant rates (``common``, ``per-stream``); else
        nothing is found and the note says so.
    """
    if not plan.feasible:
        return Bottlenecks((), "not worked out: the schedule is infeasible")
    if plan.rates not in ("common", "per-stream"):
        return Bottlenecks((), f"not worked out for {plan.rates} rates")
    slowest = [r for r in plan.period if r.t_ms >= plan.prediction.t_ms - _EQUAL_MS]
    rounds = [_Round(plan, planned) for planned in slowest]
    single = dict.fromkeys(ask for each in rounds for ask in each.blamed())
    found = _gains(plan.topology, rounds, single)
    full = _full_sets(rounds)
    missing = [ask for ask in full if ask[0] not in {b.what for b in found}]
    together = _gains(plan.topology, rounds, missing)
    if not {b.what for b in (*found, *together)} & {"link", "access"}:
        both = tuple(key for what, keys in full if what != "memory" for key in keys)
        together += _gains(plan.topology, rounds, [("rate", both)])
    return Bottlenecks((*found, *together), _note(found, together, len(rounds)))


def planned_trees(topology: Topology, planned: RoundPlan) -> tuple[Tree, ...]:
    """The trees of a planned round, by city index."""
    index = {code: city for city, code in enumerate(topology.codes)}
    return tuple(
        Tree(
            index[s.sender],
            s.clique,
            {index[code]: path for code, path in s.paths.items()},
            {index[code]: delay_ms for code, delay_ms in s.delays_ms.items()},
            None if s.hub is None else index[s.hub],
        )
        for s in planned.streams
    )


class _Round:
    """One of the slowest rounds."""

    def __init__(self, plan: Plan, planned: RoundPlan) -> None:
        self.plan, self.planned = plan, planned
        self.demand = Demand(
            plan.payload_bytes,
            plan.memory_bytes,
            plan.multicast,
            plan.aggregation,
            plan.rates,
            plan.memory_model,
            plan.resend_ms,
        )
        self.trees = planned_trees(plan.topology, planned)
        index = plan.topology.index
        self.durations_ms = {index(s.sender): s.duration_ms for s in planned.streams}
        self.dual = DualView(plan.topology, self.trees, self.demand, self.durations_ms)

    def blamed(self) -> Iterator[_Ask]:
        """Whatever has a marginal; nothing else can shorten the round alone."""
        for kind, index in self.dual.marginals():
            if kind == "capacity":
                yield "link", _both_ways(kind, index)
            elif kind == "delay":
                edges = self.plan.topology.edges
                ways = _both_ways(kind, index)
                # What takes no time cannot take less.
                yield "delay", tuple(key for key in ways if edges[key[1]].delay_ms > 0)
            else:
                yield kind, ((kind, index),)

    def full(self) -> Iterator[tuple[What, Key]]:
        """Links, access links and memories of which nothing is left."""
        for way in limits(self.plan.topology, self.trees, self.demand):
            rate = sum(count / self.durations_ms[j] for j, count in way.copies.items())
            if rate * link_time_ms(self.demand.payload_bytes, way.rate_gbps) >= _FULL:
                if way.kind == "link":
                    yield from (("link", key) for key in _both_ways("capacity", way.index))
                else:
                    yield "access", ("access", way.index)
        for code, held in self.planned.held_bytes.items():
            taken = held + self.planned.resend_bytes.get(code, 0.0)
            alone = len(self.planned.senders_to(code)) < 2
            if not alone and taken >= self.plan.memory_bytes * _FULL:
                yield "memory", ("memory", self.plan.topology.index(code))


def _both_ways(kind: Literal["capacity", "delay"], edge: int) -> tuple[Key, ...]:
    return (kind, edge & ~1), (kind, edge | 1)


def _full_sets(rounds: Sequence[_Round]) -> list[_Ask]:
    """All that is full, kind by kind."""
    full: dict[What, set[Key]] = {}
    for each in rounds:
        for what, key in each.full():
            full.setdefault(what, set()).add(key)
    return [(what, tuple(sorted(keys))) for what, keys in full.items()]


def _gains(
    topology: Topology, rounds: Sequence[_Round], wanted: Iterable[_Ask]
) -> list[Bottleneck]:
    """What each brings in the round where it brings least, most first; nothing is left out."""
    found = []
    for what, keys in wanted:
        gain_ms = round(min(each.dual.gain_ms(keys) for each in rounds), _DIGITS)
        if gain_ms >= _LEAST_GAIN:
            places = dict.fromkeys(_place(topology, key) for key in keys)
            found.append(Bottleneck(what, tuple(places), gain_ms))
    return sorted(found, key=lambda b: -b.gain_ms)


def _place(topology: Topology, key: Key) -> str:
    kind, index = key
    if kind in ("access", "memory"):
        return topology.codes[index]
    link = topology.links[index // 2]
    return f"{link.a}-{link.b}"


def _note(found: Sequence[Bottleneck], together: Sequence[Bottleneck], rounds: int) -> str:
    if found:
        return ""
    where = f"all of the {rounds} slowest rounds" if rounds > 1 else "the round"
    if together:
        return f"degenerate: no single link, delay or memory shortens {where}"
    return f"degenerate: nothing of one kind shortens {where}"

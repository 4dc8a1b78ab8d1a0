"""Networks and rounds for the planner's tests: drawn ones and the published one."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from controller.multicast import Tree
from testbed.topology import City, Link, Topology, load_topology

PAYLOAD_BYTES = 1.79e9
STREAM_MS = 143.2
"""8 · 1.79e9 bit / 100 Gbit/s."""

NINE = load_topology("nine-cities")
CODES = NINE.codes

# One-way ms between the nine cities as published beside the link table, rounded
# to 0.01, with the optional direct link Frankfurt–Tokyo (99.28).
_ORDER = ("nyc", "chi", "lax", "lon", "fra", "ams", "tyo", "sin", "hkg")
_ROWS = """
8.26 27.32 32.12 37.79 34.94 68.89 101.14 91.18
19.06 40.38 46.05 43.20 60.63 92.88 82.92
59.45 65.12 62.26 49.36 81.61 71.65
5.67 2.82 101.01 74.00 91.60
2.85 99.28 72.63 90.23
102.13 75.38 92.99
32.25 22.29
17.60
"""


def published_delays_ms() -> npt.NDArray[np.float64]:
    """Published matrix in the index order of the nine-city topology."""
    delays_ms = np.zeros((9, 9))
    for src, row in zip(_ORDER, _ROWS.strip().splitlines(), strict=False):
        values = [float(value) for value in row.split()]
        for dst, value in zip(_ORDER[_ORDER.index(src) + 1 :], values, strict=True):
            i, j = CODES.index(src), CODES.index(dst)
            delays_ms[i, j] = delays_ms[j, i] = value
    return delays_ms


def direct_trees(
    delays_ms: npt.NDArray[np.float64], cliques: list[tuple[int, ...]]
) -> tuple[Tree, ...]:
    """Trees of given delays that load no link at all."""
    return tuple(
        Tree(
            sender,
            number,
            {city: () for city in clique if city != sender},
            {city: float(delays_ms[sender, city]) for city in clique if city != sender},
        )
        for number, clique in enumerate(cliques)
        for sender in clique
    )


def indices(cliques: tuple[tuple[str, ...], ...]) -> list[list[int]]:
    """City codes of the nine cities to indices."""
    return [[CODES.index(code) for code in clique] for clique in cliques]


@st.composite
def networks(draw: st.DrawFn, most: int = 6) -> Topology:
    """Small connected networks with uneven delays, directions and capacities."""
    count = draw(st.integers(2, most))
    delay = st.integers(0, 400).map(lambda quarter: quarter / 4)
    rate = st.sampled_from([10.0, 40.0, 100.0])
    chain = [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    extra = [pair for pair in draw(st.lists(pairs, max_size=5)) if pair[0] != pair[1]]
    return Topology(
        name="drawn",
        cities=tuple(
            City(code=f"c{i}", name="C", region="r", lat=0, lon=0, access_rate_gbps=draw(rate))
            for i in range(count)
        ),
        links=tuple(
            Link(
                a=f"c{a}",
                b=f"c{b}",
                delay_ms=draw(delay),
                delay_back_ms=draw(delay),
                rate_gbps=draw(rate),
            )
            for a, b in [*chain, *extra]
        ),
    )


@st.composite
def rounds_of(draw: st.DrawFn, codes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """One round of disjoint cliques of at least two."""
    order = draw(st.permutations(codes))
    size = draw(st.integers(2, len(codes)))
    cliques = [tuple(order[i : i + size]) for i in range(0, len(codes), size)]
    return tuple(clique for clique in cliques if len(clique) > 1)

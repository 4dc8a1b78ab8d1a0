"""Made-up networks of any size, for benchmarks and tests: regions on a sphere, a plausible mesh."""

import math

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError
from testbed.topology import MAX_ISLANDS, City, Link, Topology

Floats = npt.NDArray[np.float64]

_EARTH_KM = 6371.0
# Light in fibre goes at two thirds of c; real routes are longer than great circles.
_FIBRE_KM_PER_MS = 200.0
_DETOUR = 1.3
_REGION_DEGREES = 8.0
_MAX_LATITUDE = 60.0
_INNER_LINKS = 2
_OUTER_LINKS = 3
_RATE_GBPS = 100.0


def make_topology(count: int, seed: int, *, regions: int | None = None) -> Topology:
    """Make up a network: cities in regions, linked inside and between them.

    Cities scatter around the centres of their regions. Inside a region each
    city has links to its nearest neighbours, and a path joins them all. Each region is
    joined to its nearest regions by several links between different cities, so
    that no region hangs on a single link. Delays are great circles at two
    thirds of the speed of light, with a detour of 30 %.

    Parameters
    ----------
    count
        Number of cities, 2 to 64.
    seed
        Equal seeds make equal networks.
    regions
        Number of regions; about √count by default.

    Raises
    ------
    InputError
        A number of cities or regions that cannot be had.
    """
    if not 2 <= count <= MAX_ISLANDS:
        raise InputError(f"a topology has 2 to {MAX_ISLANDS} cities, not {count}")
    groups = max(1, round(math.sqrt(count))) if regions is None else regions
    if not 1 <= groups <= count:
        raise InputError(f"{count} cities make 1 to {count} regions, not {groups}")
    rng = np.random.default_rng((seed, count, groups))
    places, region = _places(rng, count, groups)
    cities = tuple(
        City(
            code=f"c{i}" if i > 9 else f"c0{i}",
            name=f"City {i}",
            region=f"region-{region[i]}",
            lat=round(float(places[i, 0]), 4),
            lon=round(float(places[i, 1]), 4),
        )
        for i in range(count)
    )
    km = great_circles_km(places)
    pairs = sorted(_inside(km, region) | _between(km, region))
    links = tuple(
        Link(
            a=cities[a].code,
            b=cities[b].code,
            delay_ms=fibre_delay_ms(float(km[a, b])),
            delay_back_ms=fibre_delay_ms(float(km[a, b])),
            rate_gbps=_RATE_GBPS,
        )
        for a, b in pairs
    )
    return Topology(name=f"generated-{count}", cities=cities, links=links, source=f"seed {seed}")


def great_circles_km(places: Floats) -> Floats:
    """Distances on the sphere, shape (places, places), from latitudes and longitudes."""
    lat, lon = np.radians(places).T
    points = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    distances: Floats = _EARTH_KM * np.arccos(np.clip(points @ points.T, -1.0, 1.0))
    np.fill_diagonal(distances, 0.0)
    return distances


def fibre_delay_ms(km: float) -> float:
    """One-way delay over a great circle of so many km, in fibre and with the usual detour."""
    return round(max(km * _DETOUR / _FIBRE_KM_PER_MS, 0.05), 3)


def _places(rng: np.random.Generator, count: int, groups: int) -> tuple[Floats, list[int]]:
    """Scatter cities around region centres that keep apart from each other."""
    drawn = _uniform(rng, 40 * groups)
    centres = [drawn[0]]
    while len(centres) < groups:
        apart = great_circles_km(np.array([*centres, *drawn]))[: len(centres), len(centres) :]
        centres.append(drawn[int(np.argmax(apart.min(axis=0)))])
    region = [i * groups // count for i in range(count)]
    scatter = rng.normal(0.0, _REGION_DEGREES, (count, 2))
    places = np.array(centres)[region] + scatter
    places[:, 0] = np.clip(places[:, 0], -80.0, 80.0)
    places[:, 1] = (places[:, 1] + 180.0) % 360.0 - 180.0
    return places, region


def _uniform(rng: np.random.Generator, count: int) -> Floats:
    """Places spread evenly over the inhabited part of the sphere."""
    highest = math.sin(math.radians(_MAX_LATITUDE))
    lat = np.degrees(np.arcsin(rng.uniform(-highest, highest, count)))
    return np.column_stack([lat, rng.uniform(-180.0, 180.0, count)])


def _inside(km: Floats, region: list[int]) -> set[tuple[int, int]]:
    """Links inside regions: each city to the nearest ones, all joined."""
    pairs: set[tuple[int, int]] = set()
    for group in sorted(set(region)):
        members = [i for i, other in enumerate(region) if other == group]
        joined = members[:1]
        for city in members[1:]:
            near = min(joined, key=lambda other: (km[city, other], other))
            pairs.add((min(city, near), max(city, near)))
            joined.append(city)
        for city in members:
            others = sorted((m for m in members if m != city), key=lambda m: (km[city, m], m))
            pairs |= {(min(city, o), max(city, o)) for o in others[:_INNER_LINKS]}
    return pairs


def _between(km: Floats, region: list[int]) -> set[tuple[int, int]]:
    """Links between regions: to the nearest ones, and along a path through all of them."""
    groups = sorted(set(region))
    members = {g: [i for i, other in enumerate(region) if other == g] for g in groups}
    gap = {(a, b): km[np.ix_(members[a], members[b])].min() for a in groups for b in groups}
    joins: set[tuple[int, int]] = set()
    for number, group in enumerate(groups):
        others = sorted((g for g in groups if g != group), key=lambda g: gap[group, g])
        joins |= {(min(group, g), max(group, g)) for g in others[:2]}
        if number:
            near = min(groups[:number], key=lambda g: gap[group, g])
            joins.add((near, group))
    pairs: set[tuple[int, int]] = set()
    for a, b in sorted(joins):
        ranked = sorted((km[i, j], i, j) for i in members[a] for j in members[b])
        used: set[int] = set()
        for _, i, j in ranked:
            if len(used) < 2 * _OUTER_LINKS and i not in used and j not in used:
                used |= {i, j}
                pairs.add((min(i, j), max(i, j)))
    return pairs

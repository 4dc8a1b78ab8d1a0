"""A short closed tour through all cities: exact for few, a heuristic for many."""

import numpy as np
import numpy.typing as npt

_MAX_EXACT = 12


def shortest_tour(delays_ms: npt.NDArray[np.float64]) -> list[int]:
    """Order the cities along a short closed tour.

    Exact (Held and Karp 1962) up to 12 cities; beyond, nearest neighbour
    improved by 2-opt until no exchange helps. The tour starts at city 0 and
    goes to the nearer one of its two neighbours first.

    Parameters
    ----------
    delays_ms
        One-way delays, shape (cities, cities); asymmetric ones are averaged.

    Returns
    -------
    list of int
        City indices in tour order.
    """
    costs = (delays_ms + delays_ms.T) / 2
    count = len(costs)
    if count <= 3:
        tour = list(range(count))
    elif count <= _MAX_EXACT:
        tour = _held_karp(costs)
    else:
        tour = _two_opt(costs, _nearest_neighbour(costs))
    if costs[tour[0], tour[-1]] < costs[tour[0], tour[1]]:
        tour[1:] = tour[:0:-1]
    return tour


def _held_karp(costs: npt.NDArray[np.float64]) -> list[int]:
    """Exact shortest tour from city 0, by dynamic programming over sets of cities."""
    count = len(costs)
    full = 1 << (count - 1)
    # best[s, j]: shortest path from city 0 through the set s, ending at city j + 1.
    best = np.full((full, count - 1), np.inf)
    before = np.zeros((full, count - 1), dtype=np.int64)
    for j in range(count - 1):
        best[1 << j, j] = costs[0, j + 1]
    inner = costs[1:, 1:]
    for visited in range(1, full):
        for j in range(count - 1):
            rest = visited & ~(1 << j)
            if visited >> j & 1 and rest:
                through = best[rest] + inner[:, j]
                before[visited, j] = int(np.argmin(through))
                best[visited, j] = through[before[visited, j]]
    visited = full - 1
    city = int(np.argmin(best[visited] + costs[1:, 0]))
    tour: list[int] = []
    while visited:
        tour.append(city + 1)
        visited, city = visited & ~(1 << city), int(before[visited, city])
    return [0, *reversed(tour)]


def _nearest_neighbour(costs: npt.NDArray[np.float64]) -> list[int]:
    """Tour from city 0 that always goes to the nearest city not visited yet."""
    tour = [0]
    left = set(range(1, len(costs)))
    while left:
        tour.append(min(left, key=lambda city: (costs[tour[-1], city], city)))
        left.remove(tour[-1])
    return tour


def _two_opt(costs: npt.NDArray[np.float64], tour: list[int]) -> list[int]:
    """Reverse parts of a tour for as long as that makes it shorter."""
    count = len(tour)
    improved = True
    while improved:
        improved = False
        for i in range(1, count - 1):
            for j in range(i + 1, count):
                a, b, c, d = tour[i - 1], tour[i], tour[j], tour[(j + 1) % count]
                if costs[a, c] + costs[b, d] < costs[a, b] + costs[c, d] - 1e-9:
                    tour[i : j + 1] = tour[i : j + 1][::-1]
                    improved = True
    return tour

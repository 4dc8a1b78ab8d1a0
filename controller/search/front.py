"""The Pareto front of round time and disagreement lifetime."""

from collections.abc import Iterable
from dataclasses import dataclass

from controller.search.partitions import Labels

_EQUAL = 1e-9


@dataclass(frozen=True)
class Point:
    """A rotation with its round time and lifetime.

    Attributes
    ----------
    t_ms, lifetime
        T and A (rms).
    rounds
        Labels of each round.
    """

    t_ms: float
    lifetime: float
    rounds: tuple[Labels, ...]

    @property
    def objective_ms(self) -> float:
        """T (A + ½), the paper's objective."""
        return self.t_ms * (self.lifetime + 0.5)

    @property
    def rank(self) -> tuple[float, int, tuple[Labels, ...]]:
        """Order of preference: objective, then the shorter period, then the labels."""
        return (round(self.objective_ms, 6), len(self.rounds), self.rounds)


def pareto(points: Iterable[Point]) -> tuple[Point, ...]:
    """Keep the points that no other one beats in T and in A, by rising T."""
    ordered = sorted(points, key=lambda p: (round(p.t_ms, 6), round(p.lifetime, 9), p.rank))
    kept: list[Point] = []
    for point in ordered:
        if not kept or point.lifetime < kept[-1].lifetime - _EQUAL:
            kept.append(point)
    return tuple(kept)

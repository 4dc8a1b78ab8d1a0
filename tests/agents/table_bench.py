"""A small table together with everything that leaves it."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from agents.aggregator.table import Emission, Table
from agents.wire import StreamLayout

ELEMENTS, LAST = 6, 2
LAYOUT = StreamLayout(blocks=20, elements=ELEMENTS, last_elements=LAST)
A, B, C = 1, 2, 4


@cache
def stream(round_index: int, bitmap: int) -> np.ndarray:
    """Random int32, the same for the same place; the sum of three stays in the range."""
    generator = np.random.default_rng([round_index, bitmap])
    return generator.integers(-(2**29), 2**29, (LAYOUT.blocks, ELEMENTS), np.int32)


def contribution(round_index: int, bitmap: int, block: int, count: int = 1) -> np.ndarray:
    width = LAYOUT.elements_of(block)
    return stream(round_index, bitmap)[block : block + count, :width]


@dataclass
class Bench:
    """A table together with everything that it emits."""

    table: Table = field(init=False)
    out: list[Emission] = field(default_factory=list)

    @classmethod
    def make(cls, slots: int = 100, mask: int = A | B | C, **options: Any) -> "Bench":
        bench = cls()
        bench.table = Table(slots, LAYOUT, bench._take, **options)
        bench.table.open_round(0, mask)
        bench.table.open_round(1, mask)
        return bench

    def _take(self, emission: Emission) -> None:
        self.out.append(emission._replace(values=emission.values.copy()))

    def add(
        self, bitmap: int, block: int, count: int = 1, round_index: int = 0, t: int = 0
    ) -> None:
        values = contribution(round_index, bitmap, block, count)
        self.table.add(round_index, bitmap, block, values, t)

    def left(self) -> list[tuple[int, int, int, str]]:
        """What has left: (block, count, bitmap, cause)."""
        return [(e.block, len(e.values), e.bitmap, e.cause.name.lower()) for e in self.out]

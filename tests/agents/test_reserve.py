"""Reserved memory has the size asked for, is zero, and takes no page before it is used."""

from pathlib import Path

import numpy as np
import pytest

from agents.reserve import reserve


@pytest.mark.parametrize("size", [1, 4096, 1 << 20, (2 << 20) + 1, 5_000_000])
def test_it_has_so_many_zeros_that_can_be_written(size: int) -> None:
    memory = np.frombuffer(reserve(size), np.uint8)
    assert memory.shape == (size,)
    assert not memory.any()
    memory[-1] = 7
    assert memory.sum() == 7


def test_what_is_not_used_takes_no_memory() -> None:
    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    before = resident_pages()
    memory = reserve(1 << 30)
    assert resident_pages() - before < 1024
    memory[0] = 1
    assert resident_pages() - before < 2048

"""Rounds as labels: counts, neighbours, averaging."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.mixing import averaging_matrix
from controller.search.partitions import (
    all_partitions,
    averaging_stack,
    canonical,
    cliques_of,
    labels_of,
    neighbours,
)


# Bell numbers 2, 5, 15, 52, … 21147, less the round in which all sit out.
@pytest.mark.parametrize(("count", "bell"), [(2, 2), (3, 5), (4, 15), (5, 52), (9, 21147)])
def test_all_partitions_are_listed_once(count: int, bell: int) -> None:
    rows = all_partitions(count)
    assert rows.shape == (bell - 1, count)
    assert len(np.unique(rows, axis=0)) == bell - 1
    assert all(canonical(row) == tuple(row) for row in rows[:200].tolist())


@given(raw=st.lists(st.integers(0, 5), min_size=3, max_size=9), seed=st.integers(0, 9))
def test_labels_cliques_and_matrices_agree(raw: list[int], seed: int) -> None:
    labels = canonical(raw)
    assert labels_of(cliques_of(labels), len(labels)) == labels
    stack = averaging_stack(np.array([labels], dtype=np.int8))
    np.testing.assert_allclose(stack[0], averaging_matrix(cliques_of(labels), len(labels)))
    near = list(neighbours(labels, np.random.default_rng(seed), 20))
    assert len(near) == len(set(near)) <= 20
    assert labels not in near
    assert all(canonical(other) == other and cliques_of(other) for other in near)

"""Lifetimes in bulk against the plain ones, and the bounds against both."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.mixing import mix
from controller.schedule import Schedule
from controller.search.lifetimes import rms_lifetimes, two_round_bounds
from controller.search.partitions import Labels, averaging_stack, canonical, cliques_of

LIMIT = 50.0


def rounds_of(count: int, length: int) -> st.SearchStrategy[tuple[Labels, ...]]:
    labels = st.lists(st.integers(0, 4), min_size=count, max_size=count).map(canonical)
    return st.lists(labels, min_size=length, max_size=length).map(tuple)


def plain(rounds: tuple[Labels, ...]) -> float:
    codes = [f"c{i}" for i in range(len(rounds[0]))]
    named = tuple(tuple(tuple(codes[i] for i in q) for q in cliques_of(r)) for r in rounds)
    return mix(Schedule("drawn", named), codes).lifetime["rms"]


def stack_of(rounds: tuple[Labels, ...]) -> np.ndarray:
    return averaging_stack(np.array(rounds, dtype=np.int8))


@given(data=st.data(), count=st.integers(2, 10), length=st.integers(1, 6))
def test_bulk_agrees_with_the_plain_sums(data: st.DataObject, count: int, length: int) -> None:
    rounds = data.draw(rounds_of(count, length))
    others = data.draw(rounds_of(count, length))
    found = rms_lifetimes(np.stack([stack_of(rounds), stack_of(others)]), LIMIT)
    for value, own in zip(found, (rounds, others), strict=True):
        exact = plain(own)
        assert value == pytest.approx(exact if exact <= LIMIT else math.inf, rel=1e-5)


@given(rounds=rounds_of(9, 2))
def test_two_round_bound_is_below_the_lifetime(rounds: tuple[Labels, ...]) -> None:
    stack = stack_of(rounds)
    bound = two_round_bounds(stack[:1], stack[1:])[0, 0]
    assert bound <= plain(rounds) * (1 + 1e-9)


# Rows and columns of a grid have nothing in common but the mean: the bound is exact.
def test_two_round_bound_of_the_grid() -> None:
    rows, columns = (0, 0, 0, 1, 1, 1, 2, 2, 2), (0, 1, 2, 0, 1, 2, 0, 1, 2)
    stack = stack_of((rows, columns))
    assert two_round_bounds(stack[:1], stack[1:])[0, 0] == pytest.approx(1.5)


@given(data=st.data(), rounds=rounds_of(9, 3))
def test_lifetime_does_not_depend_on_names(data: st.DataObject, rounds: tuple[Labels, ...]) -> None:
    order = data.draw(st.permutations(range(9)))
    renamed = tuple(canonical([labels[i] for i in order]) for labels in rounds)
    found = rms_lifetimes(np.stack([stack_of(rounds), stack_of(renamed)]), LIMIT)
    assert found[0] == pytest.approx(found[1], rel=1e-6)

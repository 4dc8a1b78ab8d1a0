"""Sums of every element type against arithmetic on Python's own numbers."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.aggregator.arithmetic import (
    I32_MAX,
    I32_MIN,
    MAX_EXPONENT,
    Part,
    add,
    add_scaled,
    magnitude,
    narrow,
    round_to_bf16,
    shift_right,
    widen,
)
from agents.wire import DType, Flag

int32s = st.integers(I32_MIN, I32_MAX) | st.sampled_from([I32_MIN, I32_MAX, 0, -1])
vectors = st.lists(int32s, min_size=3, max_size=3)
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def block(values: list, dtype: type = np.int32) -> np.ndarray:
    return np.array([values], dtype)


@given(vectors, vectors)
def test_i32_saturates_and_says_so(first: list[int], second: list[int]) -> None:
    total = block(first)
    exponent, flags = add(total, 0, Part(block(second), 1), DType.I32)
    exact = [a + b for a, b in zip(first, second, strict=True)]
    cut = [max(I32_MIN, min(I32_MAX, value)) for value in exact]
    assert total.tolist() == [cut]
    assert (exponent, flags) == (0, Flag.SATURATED if cut != exact else 0)


def half_up(value: Fraction) -> int:
    return (value + Fraction(1, 2)).__floor__()


@given(int32s, st.integers(0, 40))
def test_shifts_round_halves_up(value: int, bits: int) -> None:
    assert shift_right(block([value]), bits).tolist() == [[half_up(Fraction(value, 2**bits))]]


@given(vectors, st.integers(-50, 50), vectors, st.integers(-50, 50))
def test_scaled_sums_take_the_least_exponent_that_fits(
    first: list[int], first_exponent: int, second: list[int], second_exponent: int
) -> None:
    total = block(first)
    exponent, flags = add_scaled(total, first_exponent, block(second), second_exponent)
    least = max(first_exponent, second_exponent)

    def at(e: int) -> list[int]:
        a = [half_up(Fraction(value, 2 ** (e - first_exponent))) for value in first]
        b = [half_up(Fraction(value, 2 ** (e - second_exponent))) for value in second]
        return [x + y for x, y in zip(a, b, strict=True)]

    fitting = [e for e in range(least, least + 3) if all(I32_MIN <= s <= I32_MAX for s in at(e))]
    assert exponent == fitting[0]
    assert total.tolist() == [at(exponent)]
    assert flags == 0


def test_the_greatest_sum_needs_two_shifts() -> None:
    total = block([I32_MAX])
    # (2³¹ − 1 + 1) / 2 = 2³⁰ twice is 2³¹, one too much; (2³¹ − 1 + 2) / 4 rounds down to 2²⁹
    assert add_scaled(total, 0, block([I32_MAX]), 0) == (2, 0)
    assert total.tolist() == [[1 << 30]]


def test_an_exponent_that_cannot_rise_saturates() -> None:
    total = block([I32_MAX, -5])
    assert add_scaled(total, MAX_EXPONENT, block([1, 1]), MAX_EXPONENT) == (
        MAX_EXPONENT,
        Flag.SATURATED,
    )
    assert total.tolist() == [[I32_MAX, -4]]


def test_exponents_as_far_apart_as_can_be() -> None:
    total = block([I32_MIN, I32_MAX])
    assert add_scaled(total, -(1 << 15), block([3, -3]), MAX_EXPONENT) == (MAX_EXPONENT, 0)
    assert total.tolist() == [[3, -3]]


@given(floats, floats)
def test_f32_is_rounded_to_the_nearest(a: float, b: float) -> None:
    total = block([a], np.float32)
    add(total, 0, Part(block([b], np.float32), 1), DType.F32)
    exact = Fraction(a) + Fraction(b)
    got = float(total[0, 0])
    if np.isinf(got):
        assert abs(exact) >= (2 - Fraction(1, 2**24)) * 2**127
        return
    with np.errstate(over="ignore"):
        nearer = [np.nextafter(np.float32(got), np.float32(side)) for side in (-np.inf, np.inf)]
    off = abs(Fraction(got) - exact)
    assert all(np.isinf(n) or off <= abs(Fraction(float(n)) - exact) for n in nearer)


def test_every_bf16_survives_the_way_through_memory() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)[np.newaxis]
    back = round_to_bf16(widen(patterns, DType.BF16))
    nan = (patterns & 0x7F80 == 0x7F80) & (patterns & 0x7F != 0)
    np.testing.assert_array_equal(back, np.where(nan, 0x7FC0, patterns))


@pytest.mark.parametrize(
    ("f32_bits", "bf16_bits"),
    [
        (0x3F808000, 0x3F80),  # half way, down to the even one
        (0x3F818000, 0x3F82),  # half way, up to the even one
        (0x3F808001, 0x3F81),
        (0xBF807FFF, 0xBF80),
        (0x7F7FFFFF, 0x7F80),  # the largest float32 becomes infinite
        (0xFF800000, 0xFF80),
        (0x7F800001, 0x7FC0),
        (0xFFFFFFFF, 0x7FC0),
        (0x80000001, 0x8000),  # a subnormal, to zero
        (0x00018000, 0x0002),
    ],
)
def test_bf16_rounding(f32_bits: int, bf16_bits: int) -> None:
    value = np.array([[f32_bits]], np.uint32).view(np.float32)
    assert round_to_bf16(value).tolist() == [[bf16_bits]]


@given(floats)
def test_bf16_is_never_further_than_half_a_step(value: float) -> None:
    bits = int(round_to_bf16(block([value], np.float32))[0, 0])
    (back,) = struct.unpack(">f", struct.pack(">HH", bits, 0))
    if not np.isinf(back):
        step = max(Fraction(2) ** -133, Fraction(2) ** (int(np.frexp(value)[1]) - 8))
        assert abs(Fraction(back) - Fraction(value)) <= step / 2


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_blocks_that_are_not_finite_are_named_and_have_one_nan(dtype: DType) -> None:
    bits = [[0, 1], [0xFFC00001, 0], [0x3F800000, 0xFF800000], [0x7F800001, 0xFFFFFFFF]]
    values = np.array(bits, np.uint32).view(np.float32)
    packed, nonfinite = narrow(values, dtype)
    assert nonfinite is not None
    assert nonfinite.tolist() == [False, True, True, True]
    words = packed.view(np.uint32).tolist() if dtype is DType.F32 else packed.tolist()
    nan, one, infinite = (
        (0x7FC00000, 0x3F800000, 0xFF800000) if dtype is DType.F32 else (0x7FC0, 0x3F80, 0xFF80)
    )
    assert words == [[0, 1 if dtype is DType.F32 else 0], [nan, 0], [one, infinite], [nan, nan]]
    assert values.view(np.uint32).tolist() == bits


def test_integers_leave_as_they_are() -> None:
    values = block([I32_MIN, I32_MAX])
    assert narrow(values, DType.I32)[0] is values
    assert narrow(values, DType.I32)[1] is None


@given(st.lists(vectors, min_size=1, max_size=4))
def test_magnitude(rows: list[list[int]]) -> None:
    assert magnitude(np.array(rows, np.int32)) == max(abs(v) for row in rows for v in row)

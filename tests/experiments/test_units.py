import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.units import (
    format_bytes,
    format_rate_gbps,
    format_time_ms,
    parse_bytes,
    parse_rate_gbps,
    parse_time_ms,
)
from testbed.errors import InputError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        (0, 0),
        (17_900_000, 17_900_000),
        ("200MB", 200_000_000),
        ("32GB", 32_000_000_000),
        ("32 GB", 32_000_000_000),
        ("1.79GB", 1_790_000_000),
        ("1GiB", 1_073_741_824),
        (".5kB", 500),
        ("1e9", 1_000_000_000),
        (1e9, 1_000_000_000),
        ("1_000B", 1000),
    ],
)
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("32Gb", 'did you mean "GB"?'),
        ("32gb", 'did you mean "GB"?'),
        ("32GBs", 'did you mean "GB"?'),
        ("-1GB", "negative"),
        ("0.5B", "whole number of bytes"),
        ("", "write it like 200MB"),
        ("GB", "write it like 200MB"),
        ("ten", "write it like 200MB"),
        ("1 2GB", "unknown unit"),
        ("nan", "write it like 200MB"),
        (True, "write it like 200MB"),
        (float("inf"), "write it like 200MB"),
    ],
)
def test_wrong_sizes_are_refused_with_what_to_write(text, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "gbps"),
    [("100Gbit/s", 100.0), ("10 Mbit/s", 0.01), ("1.5Tbit/s", 1500.0), ("8bit/s", 8e-9)],
)
def test_rates(text, gbps):
    assert parse_rate_gbps(text) == gbps


def test_a_rate_without_a_unit_is_refused():
    with pytest.raises(InputError, match="has no unit"):
        parse_rate_gbps("100")


def test_a_byte_rate_is_not_mistaken_for_a_bit_rate():
    with pytest.raises(InputError, match='unknown unit "GB/s"'):
        parse_rate_gbps("100GB/s")


@pytest.mark.parametrize(
    ("text", "ms"), [("5ms", 5.0), ("0.2s", 200.0), ("250us", 0.25), ("250µs", 0.25), (7, 7.0)]
)
def test_times(text, ms):
    assert parse_time_ms(text) == ms


@given(st.integers(min_value=0, max_value=10**18))
def test_sizes_survive_writing_and_reading(size):
    assert parse_bytes(format_bytes(size)) == size


@given(st.floats(min_value=1e-9, max_value=1e6))
def test_rates_survive_writing_and_reading(rate_gbps):
    assert parse_rate_gbps(format_rate_gbps(rate_gbps)) == rate_gbps


@given(st.floats(min_value=0, max_value=1e9))
def test_times_survive_writing_and_reading(time_ms):
    assert parse_time_ms(format_time_ms(time_ms)) == time_ms


@given(st.text(max_size=12))
def test_any_text_gives_a_size_or_an_input_error(text):
    with contextlib.suppress(InputError):
        assert parse_bytes(text) >= 0


@pytest.mark.parametrize(
    ("size", "digits", "text"),
    [
        (1_790_000_000, None, "1.79GB"),
        (32_000_000_000, None, "32GB"),
        (0, None, "0B"),
        (999, None, "999B"),
        (1_234_567, 3, "1.23MB"),
        (99.6, 2, "100B"),
    ],
)
def test_sizes_are_shown_with_the_largest_fitting_unit(size, digits, text):
    assert format_bytes(size, digits) == text

"""Figures of a direction, from frames as they came."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.linkfigures import (
    Tally,
    Train,
    jitter,
    link_figures,
    percentile,
    reordered,
    train_rate_mbps,
)
from testbed.linkprobe import ARRIVAL
from testbed.shaping import Shape, serialisation_ns

SHAPE = Shape(delay_ns=8_260_000, rate_bytes_per_s=125_000_000, limit_packets=1000)
TALLY = Tally(
    sent=12,
    mtu_asked_bytes=9000,
    mtu_bytes=9000,
    shaper_drops=0,
    interface_drops=0,
    socket_drops=0,
    shaper="",
)


def arrivals(rows: list[tuple[int, int, int, int, int]]) -> np.ndarray:
    return np.array(rows, dtype=ARRIVAL)


def ideal(shape: Shape, spaced: int = 8, burst: int = 4) -> list[tuple[int, int, int, int, int]]:
    """What a link of that shape does: (train, number, size, sent, arrived)."""
    rows, at_ns = [], 1_000_000_000
    for number in range(spaced):
        came_ns = at_ns + shape.delay_ns + serialisation_ns(60, shape.rate_bytes_per_s)
        rows.append((Train.SPACED, number, 60, at_ns, came_ns))
        at_ns += 1_000_000
    full_ns = serialisation_ns(9014, shape.rate_bytes_per_s)
    for k in range(burst):
        came_ns = at_ns + shape.delay_ns + (k + 1) * full_ns
        rows.append((Train.BURST, spaced + k, 9014, at_ns, came_ns))
    return rows


@given(st.integers(0, 200_000_000), st.integers(1250, 1_250_000_000))
def test_an_ideal_link_has_no_errors(delay_ns: int, rate_bytes_per_s: int) -> None:
    shape = Shape(delay_ns, rate_bytes_per_s, 1000)
    found = link_figures("a→b", shape, arrivals(ideal(shape)), TALLY)
    assert found.delay_error_us == pytest.approx(0, abs=1e-6)
    assert found.p99_error_us == pytest.approx(0, abs=1e-6)
    assert found.jitter_us == pytest.approx(0, abs=1e-6)
    # Its shaper cuts each frame's time to whole nanoseconds.
    assert abs(found.rate_error_percent) <= 100 / serialisation_ns(9014, rate_bytes_per_s)
    assert (found.sent, found.received, found.lost, found.unaccounted) == (12, 12, 0, 0)
    assert (found.reordered, found.duplicated) == (0, 0)
    assert found.sustained_mbps is None


def test_a_later_delay_and_a_lower_rate_show_each_in_its_figure() -> None:
    slow = Shape(SHAPE.delay_ns + 500, SHAPE.rate_bytes_per_s // 2, 1000)
    found = link_figures("a→b", SHAPE, arrivals(ideal(slow)), TALLY)
    # 60 bytes take 480 ns longer at half of the rate.
    assert found.delay_error_us == pytest.approx(0.98)
    assert found.rate_error_percent == pytest.approx(-50, abs=1e-3)
    assert found.jitter_us == 0


def test_losses_are_accounted_by_who_dropped_them() -> None:
    rows = [row for row in ideal(SHAPE) if row[1] not in (2, 9, 10)]
    tally = Tally(
        sent=12,
        mtu_asked_bytes=9000,
        mtu_bytes=9000,
        shaper_drops=1,
        interface_drops=0,
        socket_drops=1,
        shaper="",
    )
    found = link_figures("a→b", SHAPE, arrivals(rows), tally)
    assert (found.lost, found.unaccounted) == (3, 1)
    assert found.errors()["unaccounted"] == 1


def test_frames_for_the_mtu_count_for_nothing_else() -> None:
    rows = [*ideal(SHAPE), (Train.SIZES, 12, 9014, 0, 5), (Train.SIZES + 3, 13, 9015, 0, 6)]
    found = link_figures("a→b", SHAPE, arrivals(rows), TALLY)
    assert (found.received, found.duplicated) == (12, 0)


def test_nothing_that_came_gives_no_figures() -> None:
    found = link_figures("a→b", SHAPE, arrivals([]), TALLY)
    assert found.received == 0
    measured = (found.delay_mean_us, found.delay_p99_us, found.jitter_us, found.rate_mbps)
    assert measured == (None,) * 4


def test_a_train_that_comes_all_at_once_has_no_rate() -> None:
    rows = [(Train.BURST, k, 9014, 0, 77) for k in range(5)]
    assert train_rate_mbps(arrivals(rows)) is None


@pytest.mark.parametrize(
    ("numbers", "late"),
    [([], 0), ([0, 1, 2], 0), ([0, 2, 1, 3], 1), ([3, 0, 1, 2], 3), ([0, 0, 1, 1, 2], 0)],
)
def test_who_comes_after_a_later_one_is_reordered(numbers: list[int], late: int) -> None:
    assert reordered(np.array(numbers, dtype=np.int64)) == late


def test_jitter_is_the_mean_of_differences_and_percentiles_are_measured_values() -> None:
    assert jitter(np.array([1.0, 2.0, 1.0, 4.0])) == pytest.approx(5 / 3)
    assert jitter(np.array([1.0])) is None
    values = np.arange(100, 0, -1, dtype=np.float64)
    assert percentile(values, 99.0) == 99.0
    assert percentile(values[:8], 99.0) == 100.0
    assert percentile(np.array([]), 99.0) is None

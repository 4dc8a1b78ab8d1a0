"""The histogram of gap times."""

import pytest

from agents.recovery.histogram import Histogram


def test_bins_double() -> None:
    times = Histogram()
    for took_ns, count in ((500, 1), (1_000, 2), (3_999, 1), (4_000, 3)):
        times.add(took_ns, count)
    assert times.report() == {
        "count": 7,
        "mean_us": pytest.approx((0.5 + 2 + 3.999 + 12) / 7),
        "max_us": 4.0,
        "below_us": {"1": 1, "2": 2, "4": 1, "8": 3},
    }


def test_without_any_there_is_no_mean() -> None:
    report = Histogram().report()
    assert report == {"count": 0, "mean_us": None, "max_us": None, "below_us": {}}

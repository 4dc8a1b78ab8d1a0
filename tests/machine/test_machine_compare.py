"""A tiny comparison on real packets: two schedules, then once more from what was run."""

from pathlib import Path

import pytest

from experiments.comparison.compare import Comparison, Request, compare
from experiments.sources import load_config
from testbed.progress import Step

pytestmark = pytest.mark.machine


def compared(results: Path) -> Comparison:
    config = load_config(None, {"payload": "179MB"})
    request = Request(config, schedules=("regional", "all-to-all"), searches=False, sweeps=False)
    return compare(request, results, progress=Step)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Path, Comparison]:
    results = tmp_path_factory.mktemp("comparison")
    return results, compared(results)


def test_every_row_is_measured_within_one_percent_or_refused_with_a_reason(first) -> None:
    _, made = first
    for row in made.rows:
        if row.feasible:
            assert row.source == "ran"
            assert row.verdict == "PASS", (row.run_id, row.reason)
            assert abs(row.t_error_percent) <= 1.0
            assert row.packets_lost == 0
            if row.a_start is None:
                assert row.a_measured is None
                assert row.a_seen == pytest.approx(1 + 0.5 * row.rounds, abs=1e-6)
            else:
                assert row.a_measured == pytest.approx(row.a_start, abs=1e-6)
    (refused,) = [row for row in made.rows if not row.feasible]
    assert (refused.schedule, refused.memory_bytes) == ("all-to-all", 0)
    assert "must hold" in refused.reason


def test_what_multicast_and_aggregation_save_is_in_the_table(first) -> None:
    _, made = first
    moved = {
        (row.multicast, row.aggregation): (row.island_out_bytes, row.island_in_bytes)
        for row in made.rows
        if row.schedule == "all-to-all" and row.memory_bytes == 32e9
    }
    assert moved[True, True] == pytest.approx((179e6, 179e6), rel=1e-3)
    assert moved[False, True] == pytest.approx((8 * 179e6, 179e6), rel=1e-3)
    assert moved[True, False] == pytest.approx((179e6, 8 * 179e6), rel=1e-3)
    assert moved[False, False] == pytest.approx((8 * 179e6, 8 * 179e6), rel=1e-3)


def test_a_second_comparison_runs_nothing_again(first) -> None:
    results, made = first
    before = sorted(path.name for path in results.iterdir())
    again = compared(results)
    assert {row.source for row in again.rows} == {"reused", "refused"}
    assert again.folder == made.folder
    assert [row.t_measured_ms for row in again.rows] == [row.t_measured_ms for row in made.rows]
    assert sorted(path.name for path in results.iterdir()) == before

"""When an aggregator's log gets a line, and what becomes of its socket."""

import time
from pathlib import Path

import pytest
from agent_plans import make_plan
from agent_processes import context
from test_status import make_status

from agents.aggregator.reporting import LEAD_NS, StatusReporter
from agents.aggregator.status import LOG_SUFFIX, SOCKET_SUFFIX, Status, status_file

MS = 1_000_000


class Clock:
    """Takes the place of this machine's."""

    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic_ns", made.monotonic_ns)
    return made


def times_ms(folder: Path) -> list[float]:
    lines = status_file(folder, "nyc", LOG_SUFFIX).read_text().splitlines()
    return [Status.model_validate_json(line).time_ms for line in lines]


def test_a_line_shortly_before_each_change_of_rounds_and_one_at_the_end(
    clock: Clock, tmp_path: Path
) -> None:
    ctx = context(make_plan(rounds=3, interval_ms=100), 0, tmp_path, start_ns=1000 * MS)
    with StatusReporter(ctx, lambda: make_status(time_ms=clock.now_ns / MS)) as reporter:
        for now_ms in range(0, 1400, 10):
            clock.now_ns = now_ms * MS
            reporter.poll()
    lead_ms = LEAD_NS // MS
    assert times_ms(tmp_path) == [1050 - lead_ms, 1150 - lead_ms, 1250 - lead_ms, 1390]


def test_an_aggregator_that_failed_leaves_no_socket_and_no_last_line(tmp_path: Path) -> None:
    ctx = context(make_plan(), 0, tmp_path, time.monotonic_ns(), status_socket=True)
    socket_path = status_file(tmp_path, "nyc", SOCKET_SUFFIX)
    reporter = StatusReporter(ctx, make_status)
    assert socket_path.is_socket()
    with pytest.raises(ValueError, match="broken"), reporter:
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []


def test_without_the_setting_there_is_no_socket(tmp_path: Path) -> None:
    ctx = context(make_plan(), 0, tmp_path, time.monotonic_ns())
    with StatusReporter(ctx, make_status) as reporter:
        reporter.poll()
        assert list(tmp_path.iterdir()) == []

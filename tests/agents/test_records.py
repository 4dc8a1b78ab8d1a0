"""Event records survive the way to disk, however many there are."""

from pathlib import Path

import pytest

from agents.records import CHUNK_EVENTS, EVENT_DTYPE, NOT_CHECKED, Kind, Recorder, read_events


@pytest.mark.parametrize("count", [0, 1, CHUNK_EVENTS, CHUNK_EVENTS + 1, 3 * CHUNK_EVENTS + 5])
def test_round_trip(tmp_path: Path, count: int) -> None:
    recorder = Recorder()
    for i in range(count):
        recorder.add(-5 + i, i % 7, Kind.HELD, i % 64, i, 4, 2**64 - 1 - i, cause=3)
    recorder.write(tmp_path / "x.bin")
    events = read_events(tmp_path / "x.bin")
    assert events.dtype == EVENT_DTYPE
    assert len(events) == count
    assert (events == recorder.array()).all()
    for i in range(0, count, 997):
        expected = (-5 + i, i % 7, Kind.HELD, i % 64, 3, NOT_CHECKED, i, 4, 2**64 - 1 - i)
        assert events[i].item() == expected

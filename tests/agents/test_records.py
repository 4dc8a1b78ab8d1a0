"""Event records reach the disk, however many there are, and outlive a process that is killed."""

import os
import signal
from pathlib import Path

import pytest

from agents.records import CHUNK_EVENTS, EVENT_DTYPE, NOT_CHECKED, Kind, Recorder, read_events


def add(recorder: Recorder, count: int) -> None:
    for i in range(count):
        recorder.add(-5 + i, i % 7, Kind.HELD, i % 64, i, 4, 2**64 - 1 - i, cause=3)


@pytest.mark.parametrize("count", [0, 1, CHUNK_EVENTS, CHUNK_EVENTS + 1, 3 * CHUNK_EVENTS + 5])
def test_round_trip(tmp_path: Path, count: int) -> None:
    recorder, in_memory = Recorder(tmp_path / "x.bin"), Recorder()
    add(recorder, count)
    add(in_memory, count)
    assert recorder.array().tolist() == in_memory.array().tolist()
    recorder.close()
    events = read_events(tmp_path / "x.bin")
    assert events.dtype == EVENT_DTYPE
    assert events.tolist() == in_memory.array().tolist()
    assert (tmp_path / "x.bin").stat().st_size == count * EVENT_DTYPE.itemsize
    for i in range(0, count, 997):
        expected = (-5 + i, i % 7, Kind.HELD, i % 64, 3, NOT_CHECKED, i, 4, 2**64 - 1 - i)
        assert events[i].item() == expected


@pytest.mark.parametrize("count", [0, 3, CHUNK_EVENTS, CHUNK_EVENTS + 3])
def test_whoever_is_killed_leaves_every_event(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.bin"
    pid = os.fork()
    if pid == 0:
        add(Recorder(path), count)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    in_memory = Recorder()
    add(in_memory, count)
    assert read_events(path).tolist() == in_memory.array().tolist()

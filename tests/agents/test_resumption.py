"""What is known of an island's earlier lives, from the files that they left."""

from collections import Counter
from pathlib import Path

import numpy as np
from agent_plans import make_plan

from agents.averaging import Replay, start_tables
from agents.records import Kind, Recorder
from agents.resumption import Former, read_former, rows_behind

SHAPE = (2, 3)


class Bench:
    """Files of lives in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, suffix: str, life: int) -> Path:
        return self.folder / f"island-nyc.{life}{suffix}"

    def leave(self, life: int, vectors: int, *events: tuple[Kind, int, int, int]) -> None:
        """Leave a life's vectors, and events (kind, round, block, count)."""
        np.arange(vectors * 6, dtype="<i4").tofile(self.path(".state", life))
        recorder = Recorder(self.path(".bin", life))  # not closed: it was killed
        for kind, round_index, block, count in events:
            recorder.add(0, round_index, kind, 0, block, count, 0)

    def read(self, lives: int) -> Former | None:
        return read_former(self.path, lives, SHAPE)


def test_a_first_life_and_one_after_nothing_have_nothing_to_go_on_from(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.read(0) is None
    assert bench.read(1) is None
    bench.path(".state", 0).write_bytes(b"")
    assert bench.read(1) is None


def test_all_lives_have_sent_but_only_the_last_has_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    came = Kind.AGGREGATE_IN
    bench.leave(0, 1, (Kind.EMIT, 0, 0, 4), (came, 0, 0, 4), (Kind.EMIT, 0, 4, 4))
    bench.leave(1, 2, (Kind.EMIT, 0, 4, 4), (came, 1, 8, 2), (Kind.DATA_IN, 1, 3, 1))
    former = bench.read(2)
    assert former is not None
    assert former.round == 1
    assert former.history[1].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert former.sent == Counter({(0, 0): 1, (0, 4): 2})
    assert former.received == ((1, 8, 2), (1, 3, 1))


def test_rows_that_the_replay_does_not_have_are_behind() -> None:
    plan = make_plan(rounds=2)
    starts = start_tables(1, 3, (4, 32))
    replay = Replay(plan, 0, starts)
    replay.step()
    averaged = replay.tables[0].copy()
    averaged[2] = starts[0][2]
    former = Former(np.stack([starts[0], averaged]), Counter(), ())
    behind = rows_behind(former, Replay(plan, 0, starts), 0)
    assert behind.tolist() == [False, False, True, False]

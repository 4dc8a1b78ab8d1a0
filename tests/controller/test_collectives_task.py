import numpy as np
import pytest
from made_collectives import line

from controller.collectives.generators import star
from controller.collectives.task import COLLECTIVES, make_task, with_chunks
from testbed.errors import InputError


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("split", [1, 3])
def test_chunks_cover_the_payload_once(collective: str, split: int) -> None:
    task = make_task(line(4), collective, 1001)
    task = with_chunks(task, split * task.parts)
    ranges = [task.chunk_range(chunk) for chunk in range(task.chunks)]
    for owner in {int(o) for o in task.owner}:
        mine = ranges
        if collective == "all-to-all":
            mine = [r for r, o in zip(ranges, task.owner, strict=True) if o == owner]
            # Its own part stays where it is.
            assert len(mine) == 3 * split
        covered = sorted(byte for begin, end in mine for byte in range(begin, end))
        assert len(covered) == len(set(covered))
        if collective != "all-to-all":
            assert covered == list(range(1001))
    assert max(end - begin for begin, end in ranges) <= task.chunk_bytes


def test_an_all_to_all_has_a_chunk_for_each_pair() -> None:
    task = make_task(line(3), "all-to-all", 300)
    pairs = set(zip(task.owner.tolist(), task.receiver.tolist(), strict=True))
    assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}
    assert task.chunk_bytes == 100


def test_who_begins_and_who_ends() -> None:
    gather = make_task(line(3), "all-gather", 300)
    assert np.array_equal(gather.begins(3), np.eye(3, dtype=bool))
    assert gather.ends(3).all()
    scatter = make_task(line(3), "reduce-scatter", 300)
    assert scatter.begins(3).all()
    assert np.array_equal(scatter.ends(3), np.eye(3, dtype=bool))
    reduce = make_task(line(3), "reduce", 300, root=1)
    assert reduce.ends(3).tolist() == [[False], [True], [False]]


@pytest.mark.parametrize(
    ("collective", "payload", "chunks", "root", "message"),
    [
        ("all-reduc", 100, 0, None, 'did you mean "all-reduce"'),
        ("all-reduce", 0, 0, None, "write a size above 0"),
        ("all-reduce", -1, 0, None, "write a size above 0"),
        ("all-reduce", 100, 4, None, "takes a multiple of 3"),
        ("all-gather", 5, 6, None, "does not fit a payload of 5 bytes"),
        ("broadcast", 10**9, 10**6, None, "are too many"),
        ("all-gather", 2, 0, None, "does not fit a payload of 2 bytes"),
        ("broadcast", 100, 0, 7, "node 7 is not a worker"),
    ],
)
def test_what_does_not_fit_is_refused(
    collective: str, payload: int, chunks: int, root: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make_task(line(3), collective, payload, chunks=chunks, root=root)


def test_what_would_not_fit_into_memory_is_refused() -> None:
    with pytest.raises(InputError, match="8192 for 8192 workers are too many: at most 4096"):
        make_task(star(8192), "all-gather", 1 << 30)

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.collectives.kernels.bits import (
    common,
    copies_of,
    has,
    lowest,
    ones,
    pack,
    put,
    random_step,
    rarest,
)
from controller.collectives.kernels.events import make_queue, next_time, pop_event, push_event
from controller.collectives.kernels.lanes import arrange, take_fewest
from controller.collectives.kernels.packing import pack_trees
from controller.collectives.kernels.ported import pop, push
from controller.collectives.kernels.timing import earliest, reserve

SETS = st.lists(st.sets(st.integers(0, 149)), min_size=2, max_size=4)


def table(sets: list[set[int]]) -> np.ndarray:
    rows = np.zeros((len(sets), 150), dtype=bool)
    for row, items in zip(rows, sets, strict=True):
        row[list(items)] = True
    return pack(rows)


@given(st.integers(1, 2**64 - 1))
def test_a_word_is_counted_and_its_lowest_one_found(value: int) -> None:
    with np.errstate(over="ignore"):
        assert ones(np.uint64(value)) == value.bit_count()
        assert lowest(np.uint64(value)) == (value & -value).bit_length() - 1


@given(SETS, st.integers(0, 2))
def test_sets_of_bits_are_sets(sets: list[set[int]], first_word: int) -> None:
    words = table(sets)
    have, taken = sets[0], sets[1]
    with np.errstate(over="ignore"):
        assert common(words[0], words[1]) == len(have - taken)
        copies = copies_of(words)
        for item in (0, 63, 64, 149):
            assert has(words[0], item) == (item in have)
            assert copies[item] == sum(item in each for each in sets)
        found = rarest(words[0], words[1], copies, first_word, 1000)
    if not have - taken:
        assert found == -1
    else:
        assert found in have - taken
        assert copies[found] == min(copies[item] for item in have - taken)


def test_an_item_is_put() -> None:
    words = table([set(), {3}])
    put(words[0], 100)
    assert has(words[0], 100)
    assert not has(words[1], 100)


def test_random_steps_are_below_their_limit_and_repeat() -> None:
    def draw() -> list[int]:
        state = np.array([7], dtype=np.uint64)
        with np.errstate(over="ignore"):
            return [random_step(state, 5) for _ in range(100)]

    assert draw() == draw()
    assert set(draw()) == set(range(5))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_events_come_in_order(pushed: list[tuple[int, int]]) -> None:
    delays = (3, 5, 5, 11)
    queue = make_queue(len(delays), len(pushed) + 1)
    now, waiting = 0, []
    for event, (delay, pause) in enumerate(pushed):
        now += pause
        push_event(queue, delay, event, now + delays[delay])
        waiting.append((now + delays[delay], event))
    times = []
    while next_time(queue) >= 0:
        times.append(next_time(queue))
        event = pop_event(queue)
        assert (times[-1], event) in waiting
        waiting.remove((times[-1], event))
    assert times == sorted(times)
    assert not waiting


@given(st.lists(st.integers(0, 50), max_size=60))
def test_the_heap_is_a_heap(times: list[int]) -> None:
    heap = (np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(1, np.int64))
    for event, time in enumerate(times):
        push(heap, time, event)
    popped = []
    while heap[2][0]:
        assert heap[0][0] == min(times[event] for event in range(len(times)) if event not in popped)
        popped.append(pop(heap))
    assert sorted(popped) == list(range(len(times)))
    assert [times[event] for event in popped] == heapq.nsmallest(len(times), times)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(2, 9)), max_size=25))
def test_a_link_is_reserved_as_early_as_it_is_free(wishes: list[tuple[int, int]]) -> None:
    size = len(wishes) + 1
    reserved = (
        np.full(1, -1, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    busy: set[int] = set()
    for wish, length in wishes:
        found = earliest(reserved, 0, wish, length)
        expected = wish
        while busy & set(range(expected, expected + length)):
            expected += 1
        assert found == expected
        busy |= set(range(found, found + length))
        reserve(reserved, 0, found, length, 2)


def test_trees_avoid_the_slow_way_in() -> None:
    # A ring one way round with one slow link, 3→0: who sits at its end must not be passed.
    source, destination = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])
    root = np.zeros(20, dtype=np.int64)
    up, down = np.zeros((20, 4), dtype=np.int64), np.zeros((20, 4), dtype=np.int64)
    busy = np.array([0.1, 0.1, 0.1, 1.0])
    pack_trees(arrange(source, destination, 4), busy, 0.2, 4, 1, root, up, down)
    assert set(root.tolist()) <= {0, 3}
    for sums, copies in zip(up, down, strict=True):
        assert [*sums, *copies].count(3) == 1


def test_trees_share_equal_links() -> None:
    # Both ways round a ring of four: no link may be in every tree.
    source = np.array([0, 1, 2, 3, 1, 2, 3, 0])
    destination = np.array([1, 2, 3, 0, 0, 1, 2, 3])
    root = np.zeros(64, dtype=np.int64)
    up, down = np.zeros((64, 4), dtype=np.int64), np.zeros((64, 4), dtype=np.int64)
    pack_trees(arrange(source, destination, 4), np.ones(8), 0.2, 4, 1, root, up, down)
    used = np.bincount(np.concatenate([up[up >= 0], down[down >= 0]]), minlength=8)
    assert used.sum() == 64 * 6
    assert used.max() < 1.2 * used.mean()


def test_links_are_arranged_by_either_end() -> None:
    source, destination = np.array([0, 2, 1, 0]), np.array([1, 1, 0, 2])
    _, _, into, into_lanes, out, out_lanes = arrange(source, destination, 3)
    assert [set(into_lanes[into[v] : into[v + 1]]) for v in range(3)] == [{2}, {0, 1}, {3}]
    assert [set(out_lanes[out[v] : out[v + 1]]) for v in range(3)] == [{0, 3}, {2}, {1}]


def test_who_has_the_fewest_options_is_taken() -> None:
    near, options = np.array([4, 5, 6, 7]), np.array([3, 1, 2, 0])
    assert take_fewest(near, options, 3) == 5
    assert sorted(near[:2]) == [4, 6]
    assert near[2] == 5
    assert options[2] == 1

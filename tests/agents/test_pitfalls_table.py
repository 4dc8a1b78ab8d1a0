"""One test for each known way in which such a table goes wrong."""

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from table_bench import ELEMENTS, LAST, A, B, Bench, C, contribution
from traces import Trace

from agents.admission import misfit
from agents.bursts import parse, runs
from agents.wire import DType, Flag, PacketType
from testbed.errors import InputError

both_models = pytest.mark.parametrize("memory_model", ["accumulate", "hold"])
I32_MAX, I32_MIN = (1 << 31) - 1, -(1 << 31)


def give(bench: Bench, bitmap: int, elements: Any, dtype: type = np.int32, **more: Any) -> None:
    """Give the same element to all of block 0."""
    bench.table.add(0, bitmap, 0, np.full((1, ELEMENTS), elements, dtype), 0, **more)


@both_models
def test_duplicate_before_completion(memory_model: str) -> None:
    bench = Bench.make(mask=A | B, memory_model=memory_model)
    for sender in (A, A, B):
        bench.add(sender, 0, 2)
    total = contribution(0, A, 0, 2) + contribution(0, B, 0, 2)
    assert [row.tolist() for e in bench.out for row in e.values] == total.tolist()
    assert bench.table.counters.drops == {"duplicate": 2}


@both_models
def test_duplicate_after_completion(memory_model: str) -> None:
    bench = Bench.make(mask=A | B, memory_model=memory_model)
    for sender in (A, B, A, B):
        bench.add(sender, 0)
    assert bench.left() == [(0, 1, A | B, "complete")]
    assert bench.table.counters.drops == {"duplicate": 2}
    assert bench.table.occupied == 0


@both_models
def test_late_arrival_after_timeout(memory_model: str) -> None:
    bench = Bench.make(timeout_ns=100, memory_model=memory_model)
    bench.add(A, 0, t=0)
    bench.table.expire(100)
    bench.add(A, 0, t=101)  # known, though nothing of it is held any more
    bench.add(B, 0, t=102)
    bench.add(C, 0, t=103)
    assert bench.left() == [(0, 1, A, "timeout"), (0, 1, B | C, "complete")]
    assert bench.table.counters.late == 2
    assert bench.table.counters.drops == {"duplicate": 1}
    assert bench.table.progress(0) == (3, 1)


@both_models
@pytest.mark.parametrize("collision", ["evict-old", "forward-new", "priority"])
def test_partials_are_disjoint(memory_model: str, collision: str) -> None:
    bench = Bench.make(2, timeout_ns=4, memory_model=memory_model, collision=collision)
    for t, (sender, block) in enumerate([(A, 0), (B, 0), (A, 2), (B, 2), (C, 0), (A, 0), (C, 2)]):
        bench.table.expire(t)
        bench.add(sender, block, t=t)
    bench.table.drain()
    for block in (0, 2):
        bitmaps = [e.bitmap for e in bench.out if e.block == block]
        assert sum(bitmaps) == A | B | C  # a shared bit would carry


def test_partials_that_overlap_are_refused_whole() -> None:
    bench = Bench.make()
    bench.add(A | B, 3)
    bench.add(B | C, 3)
    bench.add(C, 3)
    assert bench.left() == [(3, 1, A | B | C, "complete")]
    assert bench.table.counters.drops == {"overlap": 1}


def test_stale_round() -> None:
    bench = Bench.make(mask=A | B)
    bench.add(A, 0)
    bench.table.close_round(0)
    bench.add(B, 0)
    bench.add(B, 0, round_index=1)
    assert bench.left() == [(0, 1, A, "flush")]
    assert bench.table.counters.drops == {"round": 1}


@pytest.mark.parametrize("hashing", ["mod", "mix"])
def test_round_numbers_wrap(hashing: str) -> None:
    bench = Bench.make(1, mask=A | B, collision="priority", hashing=hashing)
    bench.table.drain()
    last, first = 0xFFFFFFFF, 0
    bench.table.open_round(last, A | B)
    bench.table.open_round(first, A | B)
    bench.add(A, 5, round_index=first)
    bench.add(A, 7, round_index=last)  # older, so more urgent, though its number is greater
    bench.add(A, 0, round_index=first)
    bench.table.drain()
    assert [(e.round, e.block, e.cause.name) for e in bench.out] == [
        (first, 5, "COLLISION"),
        (first, 0, "BYPASS"),
        (last, 7, "FLUSH"),
    ]


@both_models
def test_collision_order(memory_model: str) -> None:
    bench = Bench.make(4, mask=A | B, ways=2, memory_model=memory_model)
    for t, block in enumerate((4, 0, 1, 2)):
        bench.add(A, block, t=t)
    bench.add(A, 6, t=4)
    bench.add(B, 6, t=5)
    # 2, 6 want set 0, where 4 came before 0; its partial leaves before anything of the newcomer
    assert bench.left() == [
        (4, 1, A, "collision"),
        (0, 1, A, "collision"),
        (6, 1, A | B, "complete"),
    ]


def parsed(trace: Trace, data: bytes, segment: int) -> tuple[int, Counter[str]]:
    """How many datagrams are fit to be added, and why the others are not."""
    rejects: Counter[str] = Counter()
    buffer = np.frombuffer(bytearray(data), np.uint8)
    known = {"kind": PacketType.DATA, "job_id": trace.job_id, "dtype": trace.dtype}
    for batch in parse(buffer, len(data), segment, rejects=rejects, **known):
        for run in runs(batch):
            rejects[misfit(run, PacketType.DATA, trace)] += len(run.values)
    return rejects.pop("", 0), rejects


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("dtype", {"dtype": DType.F32}),
        ("length", {"n_elem": 5}),
        ("clique", {"clique": 99}),
        ("round", {"round_index": 4}),
        ("contributor", {"bitmap": 0b110}),
    ],
)
def test_mismatched_dtype_length_round_or_clique(reason: str, changes: dict[str, Any]) -> None:
    trace = Trace(seed=1)
    data = trace.datagram(0, 1, 3)
    bad = trace.datagram(changes.pop("round_index", 0), 1, 4, **changes).ljust(len(data), b"\0")
    assert parsed(trace, data + bad + data, len(data)) == (2, {reason: 1})


@both_models
def test_a_block_of_another_length_is_refused(memory_model: str) -> None:
    bench = Bench.make(memory_model=memory_model)
    bench.table.add(0, A, 3, np.zeros((1, LAST), np.int32), 0)
    bench.table.add(0, A, 19, np.zeros((1, ELEMENTS), np.int32), 0)
    assert bench.table.counters.drops == {"block": 2}


@both_models
def test_short_last_block(memory_model: str) -> None:
    bench = Bench.make(4, memory_model=memory_model)
    for sender in (A, B, C):
        bench.add(sender, 18)
        bench.add(sender, 19)
    assert [e.values.shape for e in bench.out] == [(1, ELEMENTS), (1, LAST)]
    total = sum(contribution(0, s, 19) for s in (A, B, C))
    np.testing.assert_array_equal(bench.out[1].values, total)


@both_models
def test_int32_overflow_saturates_and_is_flagged(memory_model: str) -> None:
    bench = Bench.make(memory_model=memory_model)
    for sender, value in ((A, I32_MAX - 1), (B, 1), (C, 1)):
        give(bench, sender, value)
    assert bench.out[0].values.tolist() == [[I32_MAX] * ELEMENTS]
    assert bench.out[0].flags == Flag.SATURATED
    assert bench.table.counters.saturated == 1
    bench = Bench.make(memory_model=memory_model)
    for sender, value in ((A, I32_MIN), (B, I32_MAX), (C, 1)):
        give(bench, sender, value)
    assert bench.out[0].values.tolist() == [[0] * ELEMENTS]
    assert bench.out[0].flags == 0


@both_models
def test_a_flag_that_came_leaves_with_the_sum(memory_model: str) -> None:
    bench = Bench.make(memory_model=memory_model)
    for sender, flags in ((A, 0), (B, Flag.SATURATED), (C, 0x40)):
        give(bench, sender, 1, flags=flags)
    bench.add(A, 1)
    bench.table.drain()
    assert [e.flags for e in bench.out] == [Flag.SATURATED | 0x40, 0]


@both_models
def test_a_block_exponent_leaves_with_the_sum(memory_model: str) -> None:
    bench = Bench.make(memory_model=memory_model, dtype=DType.I32_EXPONENT)
    for sender, value, exponent in ((A, 6, -2), (B, 3, 0), (C, I32_MAX, 0)):
        give(bench, sender, value, exponent=exponent)
    # 6 / 4 = 1.5 is rounded up to 2; 2 + 3 = 5; with 2³¹ − 1 it does not fit, so 3 + 2³⁰ at 2¹
    assert bench.out[0].values.tolist() == [[3 + (1 << 30)] * ELEMENTS]
    assert (bench.out[0].exponent, bench.out[0].flags) == (1, 0)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_float_order(dtype: DType) -> None:
    bits = {A: 0x4B80, B: 0x3F80, C: 0xCB80}  # 2²⁴, 1, −2²⁴: (2²⁴ + 1) − 2²⁴ is 0 or 1
    for ordered in (False, True):
        totals = set()
        for order in permutations((A, B, C)):
            bench = Bench.make(memory_model="hold", ordered=ordered, dtype=dtype)
            for sender in order:
                words = np.full((1, ELEMENTS), bits[sender], np.uint32)
                wide = (words << 16).view(np.float32)
                values = words.astype(np.uint16) if dtype is DType.BF16 else wide
                bench.table.add(0, sender, 0, values, 0)
            totals.add(bench.out[0].values.tobytes())
        assert len(totals) == (1 if ordered else 2)


@both_models
def test_nan_and_inf_are_flagged_and_stay_in_their_element(memory_model: str) -> None:
    bench = Bench.make(memory_model=memory_model, dtype=DType.F32, mask=A | B)
    values = np.ones((3, ELEMENTS), np.float32)
    values[0, 1], values[0, 2] = np.inf, np.nan
    values[1, 0] = 3e38
    bench.table.add(0, A, 0, values, 0)
    bench.table.add(0, B, 0, np.where(np.isinf(values), -values, values), 0)
    sums = [(row.tolist(), e.flags) for e in bench.out for row in e.values]
    # ∞ − ∞ is no number; 3e38 + 3e38 is beyond float32
    expected = [2.0, np.nan, np.nan, 2.0, 2.0, 2.0], [np.inf, 2.0, 2.0, 2.0, 2.0, 2.0], [2.0] * 6
    assert [flags for _, flags in sums] == [Flag.NONFINITE, Flag.NONFINITE, 0]
    np.testing.assert_array_equal([row for row, _ in sums], expected)
    words = {int(w) for e in bench.out for w in e.values[np.isnan(e.values)].view(np.uint32)}
    assert words == {0x7FC00000}
    assert bench.table.counters.nonfinite == 2


@both_models
def test_expected_set_changes_while_the_old_round_is_open(memory_model: str) -> None:
    bench = Bench.make(mask=A | B, ways=2, memory_model=memory_model)
    bench.table.open_round(2, B | C)
    bench.add(A, 0, round_index=1)
    bench.add(C, 0, round_index=2)
    bench.add(C, 0, round_index=1)  # not expected there
    bench.add(A, 0, round_index=2)
    bench.add(B, 0, round_index=2)
    bench.add(B, 0, round_index=1)
    assert [(e.round, e.bitmap) for e in bench.out] == [(2, B | C), (1, A | B)]
    assert bench.table.counters.drops == {"contributor": 2}


def test_own_contribution_is_refused() -> None:
    trace = Trace(seed=3)  # city 0; its senders are 1 to 3
    bench = Bench.make(mask=trace.expectations[0].mask)
    bench.add(1 << trace.city, 0)
    bench.add(1 << trace.city | 2, 0)
    assert bench.table.counters.drops == {"contributor": 2}
    assert bench.table.occupied == 0


@both_models
def test_timers_fire_without_traffic(memory_model: str) -> None:
    bench = Bench.make(timeout_ns=50, memory_model=memory_model)
    bench.add(A, 0, 3, t=0)
    bench.add(A, 7, t=20)
    for now_ns, held in ((49, 4), (50, 1), (69, 1), (70, 0)):
        assert (bench.table.next_timeout_ns <= now_ns) == (now_ns in (50, 70))
        bench.table.expire(now_ns)
        assert bench.table.occupied == held
    assert [cause for *_, cause in bench.left()] == ["timeout"] * 4


def test_more_than_64_islands_are_refused() -> None:
    bench = Bench.make()
    bench.table.open_round(2, 1 << 63)
    bench.add(1 << 63, 0, round_index=2)
    assert bench.left() == [(0, 1, 1 << 63, "complete")]
    with pytest.raises(InputError, match="65 islands"):
        bench.table.open_round(3, 1 << 64)


@pytest.mark.parametrize("dtype", list(DType))
def test_garbage_and_truncated_datagrams_are_never_added(dtype: DType) -> None:
    trace = Trace(seed=2, dtype=dtype)
    good = trace.datagram(0, 1, 3)
    for length in range(len(good)):
        assert parsed(trace, good[:length], max(1, length))[0] == 0
    rng = np.random.default_rng(1)
    for _ in range(300):
        data = rng.bytes(int(rng.integers(1, 500)))
        segment = int(rng.integers(1, 200))
        fit, rejects = parsed(trace, data, segment)
        assert (fit, rejects.total()) == (0, -(-len(data) // segment))
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        assert parsed(trace, good + bytes(data), len(good))[0] == 1

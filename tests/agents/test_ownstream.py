"""What an island's own bursts say of themselves: exponents, and which rows are behind."""

from collections import Counter
from io import BufferedWriter, BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from agent_plans import make_plan

from agents.averaging import start_tables
from agents.bursts import Batch, parse
from agents.context import AgentContext
from agents.ownstream import OwnStream
from agents.state import State
from agents.weights import Weights
from agents.wire import DType, Flag, PacketType


class Bench:
    """One island of three, whose row 2 lacks the sum of round 0."""

    def __init__(self, dtype: Any) -> None:
        self.ctx = ctx = AgentContext(
            plan=make_plan(blocks=100, rounds=2), city=0, start_ns=0, out_dir=Path(), dtype=dtype
        )
        self.weights = Weights(1, ctx.layout, ctx.element_type)
        start = start_tables(1, 3, self.weights.shape, ctx.element_type)[0]
        file = cast(BufferedWriter, BytesIO())
        history = np.stack([start, start // 2])
        behind = np.arange(len(start)) == 2
        self.state = State(start, 1, ctx.expectations, self.weights, file, (history, behind))
        self.stream = OwnStream(ctx, self.weights, self.state, 7)

    def pack(self, round_index: int, block: int, count: int) -> Batch:
        burst = np.frombuffer(
            bytearray(self.stream.pack(round_index, block, count, 5000)), np.uint8
        )
        rejects: Counter[str] = Counter()
        (batch,) = parse(
            burst,
            len(burst),
            len(burst) // count,
            kind=PacketType.DATA,
            job_id=self.ctx.job_id,
            rejects=rejects,
            dtype=self.ctx.element_type,
        )
        assert not rejects
        return batch


def test_only_rows_that_are_behind_are_marked() -> None:
    bench = Bench("i32")
    assert not bench.pack(0, 0, 4).headers["flags"].any()
    for block in range(0, 96, 4):
        flags = bench.pack(1, block, 4).headers["flags"].tolist()
        rows = [bench.weights.row(1, block + i) for i in range(4)]
        assert flags == [int(Flag.STALE) if row == 2 else 0 for row in rows]
    assert not bench.pack(0, 0, 4).headers["flags"].any()


def test_blocks_carry_their_exponents_and_numbers_go_on() -> None:
    bench = Bench("i32-exponent")
    first, second = bench.pack(0, 62, 4).headers, bench.pack(1, 62, 4).headers
    expected = bench.weights.exponents(62, 4).tolist()
    assert len(set(expected)) == 2
    assert first["exponent"].tolist() == second["exponent"].tolist() == expected
    assert [*first["seq"], *second["seq"]] == list(range(8))
    assert first["t_send_us"].tolist() == [5] * 4


@pytest.mark.parametrize("dtype", ["i32", "f32"])
def test_elements_are_the_vector_in_the_type_of_the_run(dtype: str) -> None:
    bench = Bench(dtype)
    batch = bench.pack(1, 3, 1)
    assert batch.headers["dtype"].tolist() == [DType[dtype.upper()]]
    row = batch.values[0].astype(np.int64) - bench.weights.offset(1, 1, 3)
    np.testing.assert_array_equal(row, bench.state.table(1)[bench.weights.row(1, 3)])

"""What came, what was of use, and when a round was over."""

import numpy as np
import pytest
from synthetic_run import triangle_plan

from agents.records import EVENT_DTYPE, Kind
from experiments.accounting import count_legs, deliver
from experiments.analysis import island_traffic, round_times
from experiments.events import Trace, stream_table

MS = 1_000_000
DTYPE = np.dtype([("role", "u1"), ("city", "u1"), *EVENT_DTYPE.descr])
PLAN = triangle_plan()
AAA, BBB, CCC = range(3)
BLOCKS = 10
BLOCK_BYTES = np.full(BLOCKS, 8290)


def trace(*events: tuple[int, Kind, int, int, int]) -> Trace:
    """Events at island aaa in round 0: (ms, kind, src, block, contributors)."""
    rows = np.zeros(len(events), DTYPE)
    for row, (at_ms, kind, src, block, value) in zip(rows, events, strict=True):
        row["t_ns"], row["kind"], row["src"] = at_ms * MS, kind, src
        row["block"], row["count"], row["value"] = block, 1, value
    return Trace(rows, PLAN.topology)


REPAIRED = trace(
    (20, Kind.AGGREGATE_IN, AAA, 0, 0b110),
    (30, Kind.DATA_IN, BBB, 1, 0b010),
    (40, Kind.DATA_IN, CCC, 1, 0b100),
    (90, Kind.SURPLUS_IN, AAA, 1, 0b010),  # the part that the aggregator still held
    (95, Kind.SURPLUS_IN, CCC, 1, 0b100),  # asked for twice
)


def test_a_round_lasts_until_a_repair_but_not_until_what_is_of_no_use() -> None:
    streams = stream_table(REPAIRED, PLAN, BLOCK_BYTES)
    assert round_times(streams, PLAN)[0].measured_ms == pytest.approx(40)
    assert set(streams["leg"]) == {"access", "repair", "surplus"}
    assert set(streams[streams["leg"] == "surplus"]["sender"]) == {"sum", "ccc"}


def test_what_is_of_no_use_has_still_crossed_the_link() -> None:
    traffic = island_traffic(stream_table(REPAIRED, PLAN, BLOCK_BYTES), PLAN)
    assert traffic["aaa"]["ingress_bytes"] == 5 * 8290 * PLAN.scale
    assert count_legs(REPAIRED, PLAN).access_received == 2


def test_only_what_was_of_use_has_arrived() -> None:
    got = deliver(REPAIRED, PLAN, BLOCKS)
    assert got.arrived == 4
    assert got.twice == 2
    refused = trace(
        (30, Kind.DATA_IN, BBB, 1, 0b010),
        (90, Kind.SURPLUS_IN, AAA, 1, 0b110),  # overlaps with it, so ccc's part is still missing
    )
    assert deliver(refused, PLAN, BLOCKS).arrived == 1

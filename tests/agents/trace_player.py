"""Gives a trace to the reference table, as the daemon does, and keeps what leaves."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from traces import Step, Trace

from agents.admission import misfit
from agents.aggregator.ledger import Emission, TableCounters
from agents.aggregator.table import Table
from agents.bursts import parse, runs
from agents.wire import PacketType


class Leaving(NamedTuple):
    """One datagram that would leave."""

    round: int
    block: int
    bitmap: int
    cause: str
    flags: int
    exponent: int
    elements: bytes


class Outcome(NamedTuple):
    """What a table made of a trace; ``occupied`` after every step."""

    leaving: list[Leaving]
    counters: TableCounters
    rejects: Counter[str]
    occupied: list[int]
    high_water: int


def play(trace: Trace, slots: int, **options: Any) -> Outcome:
    """Play a trace; the options are those of the table."""
    leaving: list[Leaving] = []
    rejects: Counter[str] = Counter()
    occupied: list[int] = []

    def take(emission: Emission) -> None:
        where, _, values, bitmap, cause, flags, exponent = emission
        leaving.extend(
            Leaving(where, emission.block + i, bitmap, cause.name, flags, exponent, row.tobytes())
            for i, row in enumerate(values)
        )

    table = Table(slots, trace.layout, take, dtype=trace.dtype, **options)
    for step in trace.steps:
        if step.what == "open":
            table.open_round(step.round, trace.expectations[step.round].mask)
        elif step.what == "close":
            table.close_round(step.round)
        elif step.what == "expire":
            table.expire(step.now_ns)
        else:
            _take(table, trace, step, rejects)
        occupied.append(table.occupied)
    return Outcome(leaving, table.counters, rejects, occupied, table.high_water)


def _take(table: Table, trace: Trace, step: Step, rejects: Counter[str]) -> None:
    buffer = np.frombuffer(bytearray(step.data), np.uint8)
    batches = parse(
        buffer,
        len(step.data),
        step.segment,
        kind=PacketType.DATA,
        job_id=trace.job_id,
        rejects=rejects,
        dtype=trace.dtype,
    )
    for batch in batches:
        for run in runs(batch):
            reason = misfit(run, PacketType.DATA, trace)
            if reason:
                rejects[reason] += len(run.values)
                continue
            exact = {"flags": run.flags, "exponent": run.exponent}
            table.add(run.round, run.bitmap, run.block, run.values, step.now_ns, **exact)

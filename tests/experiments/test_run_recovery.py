"""Recovery as both ends recorded it."""

import numpy as np
from synthetic_run import triangle_topology

from agents.records import EVENT_DTYPE, Kind
from experiments.events import Trace
from experiments.recovery import measure_recovery

MS = 1_000_000
DTYPE = np.dtype([("role", "u1"), ("city", "u1"), *EVENT_DTYPE.descr])


def trace(*events: tuple[Kind, int, int, int]) -> Trace:
    """Events of (kind, count, value, cause)."""
    rows = np.zeros(len(events), DTYPE)
    for row, (kind, count, value, cause) in zip(rows, events, strict=True):
        row["kind"], row["count"], row["value"], row["cause"] = kind, count, value, cause
    return Trace(rows, triangle_topology())


def test_a_run_without_losses_recovered_nothing() -> None:
    found = measure_recovery(trace((Kind.EMIT, 4, 0, 0)), {"aaa": {}}, 100)
    assert (found.requests, found.resent, found.recovered, found.unavailable) == (0, 0, 0, 0)
    assert (found.p50_ms, found.max_ms, found.ring_bytes) == (None, None, 0.0)


def test_counts_and_times_by_hand() -> None:
    events = (
        (Kind.NACK, 3, 0, 0),
        (Kind.NACK, 1, 0, 0),
        (Kind.RESEND, 3, 0, 0),
        (Kind.GAP_CLOSED, 2, 1 * MS, 1),
        (Kind.GAP_CLOSED, 1, 3 * MS, 2),
        (Kind.GAP_CLOSED, 5, 9 * MS, 0),  # only late: nobody asked
        (Kind.UNAVAILABLE, 1, 0, 0),
        (Kind.REPAIR, 6, 1, 0),
    )
    rings = {code: {"recovery": {"ring_bytes": size}} for code, size in (("aaa", 10), ("bbb", 20))}
    found = measure_recovery(trace(*events), rings, 100)
    assert (found.requests, found.resent, found.recovered) == (2, 3, 3)
    assert (found.unavailable, found.repaired, found.gaps) == (1, 6, 2)
    assert (found.p50_ms, found.max_ms) == (2.0, 3.0)
    assert found.ring_bytes == 2000

"""What was lost and came all the same: requests, resends, repairs, and how long they took."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.records import Kind
from experiments.events import Trace

NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Recovery:
    """Recovery in a whole run.

    Attributes
    ----------
    requests
        Ranges of datagrams that islands asked for.
    resent, recovered, unavailable
        Datagrams that aggregators sent again; that islands had asked for and got; that
        had left the resend buffer.
    repaired
        Blocks that senders sent again.
    gaps
        Gaps that closed after a request.
    p50_ms, p99_ms, max_ms
        From the notice of such a gap to its end; ``None`` without one.
    ring_bytes
        What the largest resend buffer takes from the memory, unscaled.
    """

    requests: int
    resent: int
    recovered: int
    unavailable: int
    repaired: int
    gaps: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    ring_bytes: float


def measure_recovery(
    trace: Trace, aggregators: Mapping[str, Mapping[str, Any]], scale: float
) -> Recovery:
    """Work out what recovery did, from the records of both ends.

    Parameters
    ----------
    trace
        All events of the run.
    aggregators
        Counters by city.
    scale
        Divisor of memories.
    """
    closed = trace.of(Kind.GAP_CLOSED)
    closed = closed[closed["cause"] > 0]
    times_ms = closed["value"].astype(np.float64) / NS_PER_MS
    quantiles = np.quantile(times_ms, (0.5, 0.99, 1.0)) if len(times_ms) else (None,) * 3
    p50_ms, p99_ms, max_ms = (None if q is None else float(q) for q in quantiles)
    rings = [
        float(counted.get("recovery", {}).get("ring_bytes", 0.0))
        for counted in aggregators.values()
    ]
    return Recovery(
        requests=len(trace.of(Kind.NACK)),
        resent=int(trace.of(Kind.RESEND)["count"].sum()),
        recovered=int(closed["count"].sum()),
        unavailable=int(trace.of(Kind.UNAVAILABLE)["count"].sum()),
        repaired=int(trace.of(Kind.REPAIR)["count"].sum()),
        gaps=len(closed),
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        max_ms=max_ms,
        ring_bytes=max(rings, default=0.0) * scale,
    )

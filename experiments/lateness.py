"""How late the islands' bursts left: the emulation's own health on the real clock.

In virtual time a burst leaves when it is due, to a few microseconds. A machine that has
too much to do in real time is late, and everything measured there is late with it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.pacing import burst_schedule
from agents.records import Kind
from experiments.rundata import RunData
from experiments.verdict import Promise
from testbed.findings import Finding

NS_PER_MS = 1_000_000
NS_PER_US = 1_000


@dataclass(frozen=True)
class Lateness:
    """Of all bursts of a run, in ms: median, 99th percentile and worst."""

    bursts: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def send_lateness(run: RunData) -> Lateness | None:
    """When bursts left, after they were due by the plan; None if none left, or none was due.

    Islands that send as soon as they have computed follow no times. One that was started
    again sends late by intention: leave such runs out.
    """
    if run.plan.training is not None and run.plan.training.release == "data":
        return None
    emitted = run.trace.of(Kind.EMIT)
    late: list[npt.NDArray[np.float64]] = []
    for k in range(run.plan.rounds):
        start_ns = round(k * run.plan.round_interval_ms * NS_PER_MS)
        here = emitted[emitted["round"] == k]
        for city in range(len(run.plan.topology.codes)):
            left_ns = here["t_ns"][here["city"] == city] - start_ns
            due_ns = _due_ns(run, city, k)[: len(left_ns)]
            late.append((left_ns[: len(due_ns)] - due_ns) / NS_PER_MS)
    all_ms = np.concatenate(late) if late else np.empty(0)
    if not all_ms.size:
        return None
    p50_ms, p99_ms, max_ms = np.percentile(all_ms, [50, 99, 100])
    return Lateness(all_ms.size, float(p50_ms), float(p99_ms), float(max_ms))


def check_lateness(
    lateness: Lateness | None, promise: Promise, clock: str, limit_ms: float
) -> list[Finding]:
    """Compare the lateness of a run on the real clock with what is allowed."""
    if lateness is None or promise.asked or clock != "real" or lateness.p99_ms <= limit_ms:
        return []
    text = (
        f"this machine was too slow for real time: 1 % of the bursts left more than "
        f"{lateness.p99_ms:.2f} ms late (allowed {limit_ms:g} ms, worst {lateness.max_ms:.2f} ms)"
    )
    return [Finding("DEGRADED", text)]


def _due_ns(run: RunData, city: int, round_index: int) -> npt.NDArray[np.int64]:
    """When the bursts of a city are due in a round, after its start."""
    plan, runtime = run.plan, run.runtime
    stream = plan.round(round_index).stream_of(plan.topology.codes[city])
    if stream is None:
        return np.empty(0, dtype=np.int64)
    bursts = burst_schedule(
        run.layout,
        rate_gbps=stream.rate_gbps / plan.scale,
        offset_ns=round(stream.offset_ms * NS_PER_MS),
        burst_datagrams=runtime.burst_datagrams,
        copies=1 if plan.multicast else len(stream.receivers),
        jitter_ns=round(runtime.jitter_us * NS_PER_US),
        jitter_key=(runtime.seed, city, round_index),
    )
    return np.array([burst.due_ns for burst in bursts], dtype=np.int64)

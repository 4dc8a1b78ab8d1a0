"""The checker's simulation in bytes: what links, access links and memories see over time.

Every stream is a list of pieces of constant rate, so the bytes that have passed
some point are piecewise linear in time, and what is asked of them is answered
exactly at the moments at which some piece starts or ends.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from controller.plan import Plan, RoundPlan, Stream

Flow: TypeAlias = tuple[float, float, float]
"""Start in ms, end in ms, rate in Gbit/s."""
Vector: TypeAlias = npt.NDArray[np.float64]

SLACK_MS = 1e-5
"""The solver's own tolerance, and the rounding of sums."""
_SLACK_SHARE = 1e-6
_BYTES_PER_GBPS_MS = 1e6 / 8


def check_payloads(planned: RoundPlan, payload_bytes: float) -> Iterator[str]:
    """Each stream carries its payload, one piece after the other."""
    for stream in planned.streams:
        flows = _flows(stream, 0.0)
        carried = sum((end - start) * rate for start, end, rate in flows) * _BYTES_PER_GBPS_MS
        if abs(carried - payload_bytes) > _SLACK_SHARE * payload_bytes:
            yield f"{stream.sender} sends {carried:.0f} bytes, not its payload"
        if any(before[1] > after[0] + SLACK_MS for before, after in itertools.pairwise(flows)):
            yield f"{stream.sender} sends two pieces at once"


def check_times(planned: RoundPlan) -> Iterator[str]:
    """The last byte arrives at T."""
    last_ms = max(
        max(stream.delays_ms.values()) + max(end for _, end, _ in _flows(stream, 0.0))
        for stream in planned.streams
    )
    if abs(last_ms - planned.t_ms) > SLACK_MS:
        yield f"the last byte arrives at {last_ms:.6f} ms, T is {planned.t_ms:.6f} ms"


def check_links(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """No link direction and no access link ever carries more than it can."""
    links: defaultdict[int, list[Flow]] = defaultdict(list)
    egress: defaultdict[str, list[Flow]] = defaultdict(list)
    ingress: defaultdict[str, list[list[Flow]]] = defaultdict(list)
    for stream in planned.streams:
        seen: set[int] = set()
        copies = 1 if plan.multicast else len(stream.receivers)
        egress[stream.sender].extend(_flows(stream, 0.0) * copies)
        for receiver, path in stream.paths.items():
            ingress[receiver].append(_flows(stream, stream.delays_ms[receiver]))
            behind_ms = 0.0
            for index in path:
                if not plan.multicast or index not in seen:
                    links[index].extend(_flows(stream, behind_ms))
                seen.add(index)
                behind_ms += plan.topology.edges[index].delay_ms
    for index, flows in links.items():
        edge = plan.topology.edges[index]
        yield from _overload(f"the link {edge.src}–{edge.dst}", edge.rate_gbps, _peak_gbps(flows))
    for code, flows in egress.items():
        access_gbps = plan.topology.cities[plan.topology.index(code)].access_rate_gbps
        yield from _overload(f"the way out of {code}", access_gbps, _peak_gbps(flows))
    for code, arriving in ingress.items():
        access_gbps = plan.topology.cities[plan.topology.index(code)].access_rate_gbps
        if plan.aggregation:
            peak_gbps = _Arrivals(arriving).output_gbps()
        else:
            peak_gbps = _peak_gbps([flow for flows in arriving for flow in flows])
        yield from _overload(f"the way into {code}", access_gbps, peak_gbps)


def check_memory(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """What each aggregator holds and keeps to resend fits its memory, and is as predicted."""
    if not plan.aggregation:
        return
    arriving: defaultdict[str, list[list[Flow]]] = defaultdict(list)
    for stream in planned.streams:
        for receiver in stream.receivers:
            arriving[receiver].append(_flows(stream, stream.delays_ms[receiver]))
    for code, streams in arriving.items():
        arrivals = _Arrivals(streams)
        held_bytes = arrivals.held_bytes(every=plan.memory_model == "hold")
        fastest_gbps = max(rate for flows in streams for _, _, rate in flows)
        slack_bytes = SLACK_MS * fastest_gbps * _BYTES_PER_GBPS_MS * len(streams)
        slack_bytes += _SLACK_SHARE * plan.memory_bytes
        kept_bytes = planned.resend_bytes.get(code, 0.0)
        access_gbps = plan.topology.cities[plan.topology.index(code)].access_rate_gbps
        needed_bytes = plan.resend_ms * access_gbps * _BYTES_PER_GBPS_MS
        if abs(needed_bytes - kept_bytes) > _SLACK_SHARE * needed_bytes:
            yield f"{code} keeps {needed_bytes:.0f} bytes to resend, predicted {kept_bytes:.0f}"
        if held_bytes + kept_bytes > plan.memory_bytes + slack_bytes:
            yield (
                f"{code} holds {held_bytes + kept_bytes:.0f} bytes "
                f"in a memory of {plan.memory_bytes:.0f}"
            )
        if abs(held_bytes - planned.held_bytes[code]) > slack_bytes:
            predicted = planned.held_bytes[code]
            yield f"{code} holds {held_bytes:.0f} bytes, predicted {predicted:.0f}"


def _flows(stream: Stream, behind_ms: float) -> list[Flow]:
    """List the pieces of a stream at a point that it reaches after some delay."""
    if stream.pieces:
        return [
            (piece.start_ms + behind_ms, piece.end_ms + behind_ms, piece.rate_gbps)
            for piece in stream.pieces
        ]
    start_ms = stream.offset_ms + behind_ms
    return [(start_ms, start_ms + stream.duration_ms, stream.rate_gbps)]


def _overload(where: str, rate_gbps: float, peak_gbps: float) -> Iterator[str]:
    if peak_gbps > rate_gbps * (1 + _SLACK_SHARE):
        yield f"{where} carries {peak_gbps:.3f} Gbit/s of {rate_gbps:g}"


def _peak_gbps(flows: Sequence[Flow]) -> float:
    """Sum up the rates at the start of each flow, where the sum has its peaks."""
    starts, ends, rates = np.array(flows).T
    moments = np.unique(starts)[:, None] + SLACK_MS
    return float((((starts <= moments) & (moments < ends)) @ rates).max())


class _Arrivals:
    """Bytes of each stream that have reached one aggregator, at all moments that matter.

    Parameters
    ----------
    streams
        The pieces of each stream, as they arrive.
    """

    def __init__(self, streams: Sequence[Sequence[Flow]]) -> None:
        edges = [moment for flows in streams for start, end, _ in flows for moment in (start, end)]
        self.moments: Vector = np.unique(edges)
        columns = []
        for flows in streams:
            starts, ends, rates = np.array(flows).T
            lasting = np.clip(self.moments[:, None] - starts, 0.0, ends - starts)
            columns.append(lasting @ rates * _BYTES_PER_GBPS_MS)
        self.bytes: Vector = np.stack(columns, axis=1)
        """Shape (moments, streams)."""

    def held_bytes(self, *, every: bool) -> float:
        """Most that is held: of the leading stream, or of every one.

        Between two moments the leading amount, and the sum, are convex in time
        and the trailing one concave, so the difference peaks at a moment.
        """
        trailing = self.bytes.min(axis=1)
        if every:
            return float((self.bytes.sum(axis=1) - self.bytes.shape[1] * trailing).max())
        return float((self.bytes.max(axis=1) - trailing).max())

    def output_gbps(self) -> float:
        """Highest rate of the sums: that of the trailing stream, as it completes them.

        The trailing amount is concave between two moments, so its rate is
        highest right after one.
        """
        steps = np.diff(self.moments)
        lasting = steps > SLACK_MS
        rates = np.diff(self.bytes, axis=0)[lasting] / steps[lasting, None] / _BYTES_PER_GBPS_MS
        before = self.bytes[:-1][lasting]
        slack_bytes = SLACK_MS * max(rates.max(), 1.0) * _BYTES_PER_GBPS_MS
        last = before <= before.min(axis=1, keepdims=True) + slack_bytes
        return float(np.where(last, rates, np.inf).min(axis=1).max())

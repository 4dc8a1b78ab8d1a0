"""The checker's simulation of links that queue: every payload as a train of chunks.

Chunks are sent at the stream's rate, wait in each link's first-in-first-out
queue, and are copied where the paths branch. Store and forward delays a chunk by
its own length at each hop, which bounds the difference to a fluid.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator

from controller.plan import Plan, RoundPlan, Stream

_CHUNKS = 1000


def check_queues(plan: Plan, planned: RoundPlan) -> Iterator[str]:
    """T and the memory of a round whose links queue are as predicted, within some chunks."""
    arrivals = _simulate(plan, planned)
    hops = max(len(path) for stream in planned.streams for path in stream.paths.values())
    slowest_gbps = min(
        *(edge.rate_gbps for edge in plan.topology.edges),
        *(city.access_rate_gbps for city in plan.topology.cities),
    )
    chunk_ms = plan.payload_bytes / _CHUNKS * 8e-6 / slowest_gbps
    # At each hop a chunk may find one more of every other stream before it.
    slack_ms = (hops + 1) * (len(planned.streams) + 1) * chunk_ms
    last_ms = max(times[-1] for streams in arrivals.values() for times in streams)
    if abs(last_ms - planned.t_ms) > slack_ms:
        yield f"through queues the last byte arrives at {last_ms:.3f} ms, T is {planned.t_ms} ms"
    for code, streams in arrivals.items():
        held_bytes = _held(streams) * plan.payload_bytes / _CHUNKS
        slack_bytes = 2 * slack_ms * max(s.rate_gbps for s in planned.streams) * 1e6 / 8
        if abs(held_bytes - planned.held_bytes[code]) > slack_bytes:
            yield f"{code} holds {held_bytes:.0f} bytes, predicted {planned.held_bytes[code]:.0f}"
        if held_bytes > plan.memory_bytes + slack_bytes:
            yield f"{code} holds {held_bytes:.0f} bytes in a memory of {plan.memory_bytes:.0f}"


def _simulate(plan: Plan, planned: RoundPlan) -> dict[str, list[list[float]]]:
    """Receiver to the arrival times of each stream's chunks."""
    edges = plan.topology.edges
    onward: dict[tuple[int, int], list[int]] = {}
    ends: dict[tuple[int, int], str] = {}
    times: defaultdict[str, dict[int, list[float]]] = defaultdict(dict)
    events: list[tuple[float, int, int, int]] = []
    for s, stream in enumerate(planned.streams):
        for receiver, path in stream.paths.items():
            times[receiver][s] = []
            ends[s, path[-1]] = receiver
            for previous, edge in zip((-1, *path), path, strict=False):
                after = onward.setdefault((s, previous), [])
                if edge not in after:
                    after.append(edge)
        for chunk, sent_ms in enumerate(_sent_ms(stream)):
            events.extend((sent_ms, s, chunk, edge) for edge in onward[s, -1])
    heapq.heapify(events)
    free_ms = [0.0] * len(edges)
    while events:
        now_ms, s, chunk, edge = heapq.heappop(events)
        length_ms = plan.payload_bytes / _CHUNKS * 8e-6 / edges[edge].rate_gbps
        free_ms[edge] = max(now_ms, free_ms[edge]) + length_ms
        arrival_ms = free_ms[edge] + edges[edge].delay_ms
        if (s, edge) in ends:
            times[ends[s, edge]][s].append(arrival_ms)
        for after_edge in onward.get((s, edge), ()):
            heapq.heappush(events, (arrival_ms, s, chunk, after_edge))
    return {code: list(found.values()) for code, found in times.items()}


def _sent_ms(stream: Stream) -> list[float]:
    step_ms = stream.duration_ms / _CHUNKS
    return [stream.offset_ms + step_ms * (chunk + 1) for chunk in range(_CHUNKS)]


def _held(streams: list[list[float]]) -> int:
    """Most chunks by which the leading stream is ahead of the trailing one."""
    counts = [0] * len(streams)
    most = 0
    for _, s in sorted((time, s) for s, times in enumerate(streams) for time in times):
        counts[s] += 1
        most = max(most, max(counts) - min(counts))
    return most

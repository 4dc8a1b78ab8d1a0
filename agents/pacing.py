"""When each burst of a stream leaves: absolute times, counted in bytes on the wire."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agents.wire import StreamLayout

_JITTER_STREAM = 2


@dataclass(frozen=True)
class Burst:
    """Consecutive blocks that are sent in one call, to one destination."""

    due_ns: int
    """Since the start of the round."""
    block: int
    count: int
    wire_bytes: int
    copy: int
    """Which of the destinations."""


def burst_schedule(
    layout: StreamLayout,
    *,
    rate_gbps: float,
    offset_ns: int,
    burst_datagrams: int,
    copies: int = 1,
    jitter_ns: int = 0,
    jitter_key: tuple[int, ...] = (),
) -> list[Burst]:
    """Times of all bursts of one stream, in order.

    A burst is due when its predecessors have left a link of the stream's rate,
    so a link that is loaded to its full rate neither starves nor fills up.
    Copies take turns burst by burst and are evenly spread in time.

    Parameters
    ----------
    layout
        Blocks of the stream.
    rate_gbps
        Rate of one copy on the wire, as packets see it (scaled).
    offset_ns
        Time of the first burst.
    burst_datagrams
        Blocks per burst.
    copies
        Number of destinations that get a copy each.
    jitter_ns, jitter_key
        Each burst is late by a random time below ``jitter_ns``, from a
        generator that is seeded with the key. Bursts never change places.
    """
    first = np.arange(0, layout.blocks, burst_datagrams)
    count = np.minimum(burst_datagrams, layout.blocks - first)
    size = [layout.burst_bytes(int(b), int(n)) for b, n in zip(first, count, strict=True)]
    ns_per_byte = 8 / rate_gbps
    full_ns = layout.burst_bytes(0, int(count[0])) * ns_per_byte
    sent = np.concatenate(([0], np.cumsum(size)[:-1]))
    turns = np.arange(copies) * (full_ns / copies)
    due = (offset_ns + sent[:, np.newaxis] * ns_per_byte + turns).ravel()
    if jitter_ns:
        seed = np.random.SeedSequence([*jitter_key, _JITTER_STREAM])
        due += np.random.Generator(np.random.PCG64(seed)).random(due.size) * jitter_ns
        due = np.maximum.accumulate(due)
    return [
        Burst(
            int(t), int(first[i // copies]), int(count[i // copies]), size[i // copies], i % copies
        )
        for i, t in enumerate(np.rint(due))
    ]


def slowed(
    bursts: Sequence[Burst], slow: Sequence[tuple[int, int, float]], free_ns: int
) -> list[Burst]:
    """When bursts leave if their sender is slow for a while; nothing is skipped.

    Parameters
    ----------
    bursts
        A stream, in order.
    slow
        Begin and end of each time, in order, and how many times slower the stream then
        gets on: inf for not at all. Times are since the start of the round, as in all here.
    free_ns
        The first burst leaves no earlier.
    """
    if not bursts:
        return []
    shift_ns = max(0, free_ns - bursts[0].due_ns)
    due = np.array([burst.due_ns + shift_ns for burst in bursts], dtype=np.float64)
    for begin_ns, end_ns, factor in slow:
        from_ns = max(begin_ns, due[0])
        if from_ns >= end_ns:
            continue
        got_on_ns = (end_ns - from_ns) / factor
        behind = due - from_ns
        within = from_ns + np.minimum(behind, got_on_ns) * (factor if np.isfinite(factor) else 0.0)
        after = end_ns + behind - got_on_ns
        due = np.where(behind <= 0, due, np.where(behind < got_on_ns, within, after))
        if not np.isfinite(factor):  # what would leave at once waits as well
            due = np.maximum(due, np.where(behind >= 0, end_ns, 0))
    return [replace(burst, due_ns=int(t)) for burst, t in zip(bursts, np.rint(due), strict=True)]


def catch_up(bursts: Sequence[Burst], sent: Counter[int], since_round_ns: int) -> list[Burst]:
    """What is left of a stream whose sender was away, and when it leaves.

    What is still due leaves on time, for the others' blocks arrive at that time, too.
    What should have left meanwhile follows at the same pace, so that the stream ends
    later by as long as its sender was away, and no link is asked for more than planned.

    Parameters
    ----------
    bursts
        The whole stream, in order.
    sent
        Copies of each burst that have left, by first block.
    since_round_ns
        The time, since the start of the round.
    """
    left = [burst for burst in bursts if burst.copy >= sent[burst.block]]
    on_time = [burst for burst in left if burst.due_ns >= since_round_ns]
    overdue = [burst for burst in left if burst.due_ns < since_round_ns]
    if not overdue:
        return on_time
    pace_ns = (bursts[-1].due_ns - bursts[0].due_ns) // max(1, len(bursts) - 1)
    free_ns = on_time[-1].due_ns + pace_ns if on_time else since_round_ns
    shift_ns = free_ns - overdue[0].due_ns
    return on_time + [replace(burst, due_ns=burst.due_ns + shift_ns) for burst in overdue]

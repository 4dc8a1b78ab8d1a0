"""The joint network again, where a lane is a path through switches that shares its links.

A send reserves every link of its path for the moment at which it gets there. A lane that does
not fit now is woken when it does. All-gather and its like are the case without sums.
"""

from collections.abc import Sequence

import numpy as np

from controller.collectives.kernels.bits import Words, put, random_step
from controller.collectives.kernels.compiled import helper, kernel
from controller.collectives.kernels.gather import Sends
from controller.collectives.kernels.joint import (
    Partials,
    arrive,
    begin_turn,
    choose_chunk,
    drop_option,
    report,
    split_choices,
)
from controller.collectives.kernels.lanes import (
    Flags,
    Lanes,
    Truths,
    all_active,
    take_fewest,
    touch,
    wake_onward,
)
from controller.collectives.kernels.timing import Busy, Ends, fits_from, reserve, reserved_for
from controller.collectives.network import Ints

Heap = tuple[Ints, Ints, Ints]
"""Times, events, and in its only element how many there are."""
Late = tuple[Ints, Ints, Ints, Truths]
"""Node, chunk and time of what completes a node's value; whether it is then the final sum, or
one for which the node's part of the sum has waited."""


def late_events(rows: Sequence[tuple[int, int, int, bool]]) -> Late:
    """Events as arrays."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    node, chunk, time = (table[:, column].copy() for column in range(3))
    return node, chunk, time, table[:, 3] > 0


@helper
def push(heap: Heap, time: int, event: int) -> None:
    """Add an event."""
    times, events, size = heap
    place = size[0]
    size[0] += 1
    while place > 0:
        parent = (place - 1) >> 1
        if times[parent] <= time:
            break
        times[place], events[place] = times[parent], events[parent]
        place = parent
    times[place], events[place] = time, event


@helper
def pop(heap: Heap) -> int:
    """Remove the earliest event and return it."""
    times, events, size = heap
    first = events[0]
    size[0] -= 1
    count = size[0]
    time, event = times[count], events[count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and times[child + 1] < times[child]:
            child += 1
        if times[child] >= time:
            break
        times[place], events[place] = times[child], events[child]
        place = child
    times[place], events[place] = time, event
    return int(first)


@helper
def sum_waits(partials: Partials, lanes: Lanes, lane: int) -> bool:
    """Whether a partial sum could leave over a lane."""
    ready, nearer = partials[1], partials[2]
    for k in range(ready.shape[1]):
        if ready[lanes[0][lane], k] & nearer[lane, k] != np.uint64(0):
            return True
    return False


@helper
def wake_at(heap: Heap, woken: Truths, lane: int, time: int, total: int) -> None:
    """Look at a lane again at some time, unless it is woken earlier anyway."""
    if not woken[lane]:
        woken[lane] = True
        push(heap, time, total + lane)


@helper
def settle_ported(
    event: int,
    lanes: Lanes,
    flags: Flags,
    late: Late,
    sends: Sends,
    adds: Truths,
    partials: Partials,
    woken: Truths,
) -> None:
    """Let a sum or a copy arrive, or wake a lane."""
    total = len(sends[0])
    if event >= total + len(woken):
        i = event - total - len(woken)
        if late[3][i]:
            put(partials[0][late[0][i]], late[1][i])
            wake_onward(lanes, flags, late[0][i])
        else:
            report(late[0][i], late[1][i], lanes, flags, partials)
        return
    if event >= total:
        woken[event - total] = False
        touch(flags, event - total, lanes[1][event - total])
        return
    arrive(event, lanes, flags, sends, adds, partials)


@kernel
def ported(
    lanes: Lanes,
    hops: Ends,
    extra: Ints,
    size: Ints,
    travel: Ints,
    links: int,
    busy: Busy,
    late: Late,
    partials: Partials,
    taken: Words,
    score: Ints,
    mode: int,
    deadline: int,
    seed: int,
    look: int,
    sends: Sends,
    adds: Truths,
) -> int:
    """Schedule all sends; return the time of the last arrival, −1 if the deadline forbids.

    Parameters
    ----------
    lanes
        Ends of the paths.
    hops, extra
        Rows of links per lane; for how much longer than the transmission each is held.
    size, travel
        Transmission time of a chunk per lane, and time until it has arrived.
    links, busy
        Number of links, and what they carry from the beginning.
    late
        What arrives beside the sends.
    partials, taken, score, mode, deadline, seed, look, sends, adds
        See `joint`.
    """
    nodes, words = taken.shape
    total = len(sends[0])
    dice = np.array([seed], dtype=np.uint64)
    events = total + len(size) + len(late[0]) + 1
    heap = (np.zeros(events, np.int64), np.zeros(events, np.int64), np.zeros(1, np.int64))
    uses = (total + 1) * (np.max(hops[0][1:] - hops[0][:-1]))
    least = int(np.min(size))
    reserved = reserved_for(links, uses, busy, least)
    flags = all_active(len(size), nodes)
    woken = np.zeros(len(size), dtype=np.bool_)
    latest = deadline - travel
    near = np.zeros(len(size) + 1, dtype=np.int64)
    options = np.zeros(len(size) + 1, dtype=np.int64)
    turns = np.zeros(nodes, dtype=np.int64)
    spare = np.zeros(words, dtype=np.uint64)
    full = partials[0]
    age = score.copy()
    count = 0
    now = 0
    finish = 0
    for i in range(len(late[0])):
        push(heap, max(late[2][i], 0), total + len(size) + i)
        finish = max(finish, late[2][i])
    while True:
        touches = begin_turn(flags, turns)
        turn = random_step(dice, max(touches, 1))
        for i in range(touches):
            node = turns[(i + turn) % touches]
            choices = split_choices(node, now, lanes, flags, full, taken, latest, near, options)
            while choices:
                lane = take_fewest(near, options, choices)
                choices -= 1
                copies = options[choices] > 0
                if not copies and not sum_waits(partials, lanes, lane):
                    continue
                free = fits_from(reserved, hops, extra, lane, now, size[lane])
                if free > now:
                    wake_at(heap, woken, lane, free, total)
                    continue
                chunk, adding = choose_chunk(
                    lane, copies, mode, lanes, flags, partials, taken, score, age, spare, look, dice
                )
                if not adding:
                    drop_option(chunk, near, options, choices, lanes, full)
                adds[count] = adding
                sends[0][count] = lane
                sends[1][count] = chunk
                sends[2][count] = now
                for j in range(hops[0][lane], hops[0][lane + 1]):
                    length = size[lane] + extra[j]
                    reserve(reserved, hops[1][j], now + hops[2][j], length, least)
                push(heap, now + travel[lane], count)
                wake_at(heap, woken, lane, now + size[lane], total)
                finish = max(finish, now + travel[lane])
                count += 1
        if flags[4][0]:
            continue
        if count == total:
            return finish
        if heap[2][0] == 0:
            return -1
        now = heap[0][0]
        while heap[2][0] and heap[0][0] == now:
            settle_ported(pop(heap), lanes, flags, late, sends, adds, partials, woken)

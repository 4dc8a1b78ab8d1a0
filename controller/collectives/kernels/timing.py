"""Times an ordered list of sends: each as early as its data and all links of its route allow.

What a link is reserved for is a list of intervals in order, linked through arrays:
``(head, begin, end, following, used)``; ``used[0]`` counts entries. Intervals are merged if no
send fits in between, so that a busy link has few.
"""

import numpy as np

from controller.collectives.kernels.compiled import helper, kernel
from controller.collectives.network import Ints

Reserved = tuple[Ints, Ints, Ints, Ints, Ints]
Ends = tuple[Ints, Ints, Ints]
"""Rows of routes: offsets of the rows, what is in them, its time offset."""
Busy = tuple[Ints, Ints, Ints]
"""Link, begin and end of intervals that are taken from the beginning."""


@helper
def earliest(reserved: Reserved, link: int, time: int, length: int) -> int:
    """First moment, not before ``time``, from which a link is free for so long."""
    head, begin, end, following, _ = reserved
    place = head[link]
    while place >= 0:
        if begin[place] >= time + length:
            break
        if end[place] > time:
            time = end[place]
        place = following[place]
    return int(time)


@helper
def fits_from(reserved: Reserved, hops: Ends, extra: Ints, way: int, time: int, size: int) -> int:
    """First moment, not before ``time``, at which a send finds all links of its route free."""
    settled = False
    while not settled:
        settled = True
        for j in range(hops[0][way], hops[0][way + 1]):
            wish = time + hops[2][j]
            found = earliest(reserved, hops[1][j], wish, size + extra[j])
            if found > wish:
                time += found - wish
                settled = False
    return int(time)


@helper
def reserve(reserved: Reserved, link: int, time: int, length: int, least: int) -> None:
    """Take a link for an interval that is free; no later one is shorter than ``least``."""
    head, begin, end, following, used = reserved
    before, place = -1, head[link]
    while place >= 0 and begin[place] < time:
        before, place = place, following[place]
    joins_before = before >= 0 and time - end[before] < least
    joins_after = place >= 0 and begin[place] - (time + length) < least
    if joins_before:
        end[before] = time + length
        if joins_after:
            end[before] = end[place]
            following[before] = following[place]
        return
    if joins_after:
        begin[place] = time
        return
    new = used[0]
    used[0] += 1
    begin[new] = time
    end[new] = time + length
    following[new] = place
    if before >= 0:
        following[before] = new
    else:
        head[link] = new


@helper
def reserved_for(links: int, uses: int, busy: Busy, least: int) -> Reserved:
    """Intervals of links, with those that are taken from the beginning."""
    reserved = (
        np.full(links, -1, dtype=np.int64),
        np.zeros(uses + len(busy[0]), dtype=np.int64),
        np.zeros(uses + len(busy[0]), dtype=np.int64),
        np.zeros(uses + len(busy[0]), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    for i in range(len(busy[0])):
        reserve(reserved, busy[0][i], busy[1][i], busy[2][i] - busy[1][i], least)
    return reserved


@kernel
def time_sends(
    sources: Ends,
    targets: Ends,
    hops: Ends,
    hop_extra: Ints,
    duration: Ints,
    links: int,
    busy: Busy,
    held: Ints,
    route: Ints,
    chunk: Ints,
    start: Ints,
) -> None:
    """Fill in the start of each send, in the order of the list.

    Parameters
    ----------
    sources, targets, hops
        Rows of the routes.
    hop_extra
        For how much longer than a chunk's transmission each hop is held.
    duration
        Transmission time per route.
    links, busy
        Number of links, and what they carry beside the sends.
    held
        From when on each node has each chunk's value, shape (nodes, chunks). Changed.
    route, chunk
        Of each send; a send passes on what earlier ones of the list brought.
    start
        Filled.
    """
    uses = 0
    for i in range(len(route)):
        uses += hops[0][route[i] + 1] - hops[0][route[i]]
    least = int(np.min(duration))
    reserved = reserved_for(links, uses, busy, least)
    # A value may only change once all have left that earlier sends of the list take.
    read = np.full(held.shape, -1, dtype=np.int64)
    for i in range(len(route)):
        way, item = route[i], chunk[i]
        length = int(duration[way])
        time = 0
        for j in range(sources[0][way], sources[0][way + 1]):
            time = max(time, held[sources[1][j], item] - sources[2][j])
        for j in range(targets[0][way], targets[0][way + 1]):
            time = max(time, read[targets[1][j], item] + 1 - targets[2][j] - length)
        time = fits_from(reserved, hops, hop_extra, way, time, length)
        start[i] = time
        for j in range(sources[0][way], sources[0][way + 1]):
            node = sources[1][j]
            read[node, item] = max(read[node, item], time + sources[2][j])
        for j in range(hops[0][way], hops[0][way + 1]):
            reserve(reserved, hops[1][j], time + hops[2][j], length + hop_extra[j], least)
        for j in range(targets[0][way], targets[0][way + 1]):
            arrival = time + targets[2][j] + length
            held[targets[1][j], item] = max(held[targets[1][j], item], arrival)

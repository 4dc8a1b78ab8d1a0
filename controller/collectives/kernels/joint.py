"""All-reduce as one time-expanded network: sums and copies share the links from the start.

Ours. Each chunk has a root. A node passes its partial sum on once all its neighbours that are
farther from the root have passed on theirs, to any neighbour that is nearer; so the sums form a
tree that grows with the load. The root's sum spreads like a chunk of an all-gather, while
other chunks are still being added up.
"""

import numpy as np
import numpy.typing as npt

from controller.collectives.kernels.bits import Words, common, has, put, random_step, rarest
from controller.collectives.kernels.compiled import helper, kernel
from controller.collectives.kernels.events import make_queue, next_time, pop_event
from controller.collectives.kernels.gather import Delays, Sends, release, start_send
from controller.collectives.kernels.lanes import (
    Flags,
    Lanes,
    Truths,
    all_active,
    take_fewest,
    wake_onward,
)
from controller.collectives.network import Ints

Partials = tuple[Words, Words, Words, npt.NDArray[np.int32], Ints]
"""Per node the chunks that are complete, and whose partial sum may leave; per link the chunks
that get nearer to their root on it; per node and chunk how many farther neighbours have not
reported; per chunk its root."""

SUMS_FIRST, COPIES_FIRST, EITHER = 0, 1, 2


@helper
def report(node: int, chunk: int, lanes: Lanes, flags: Flags, partials: Partials) -> None:
    """One farther neighbour less to wait for; the last one makes the sum complete, or ready."""
    full, ready, _, need, root = partials
    need[node, chunk] -= 1
    if need[node, chunk] == 0:
        put(full[node] if root[chunk] == node else ready[node], chunk)
        wake_onward(lanes, flags, node)


@helper
def send_sum(
    lane: int,
    lanes: Lanes,
    flags: Flags,
    partials: Partials,
    score: Ints,
    spare: Words,
    look: int,
) -> int:
    """Take a chunk whose partial sum may leave over a link; −1 if there is none."""
    ready, nearer = partials[1], partials[2]
    node = lanes[0][lane]
    for k in range(len(spare)):
        spare[k] = ~nearer[lane, k]
    chunk = rarest(ready[node], spare, score, 0, look)
    if chunk < 0:
        return -1
    ready[node, chunk >> 6] &= ~(np.uint64(1) << np.uint64(chunk & 63))
    for j in range(lanes[4][node], lanes[4][node + 1]):
        other = lanes[5][j]
        if other != lane and has(nearer[other], chunk):
            report(lanes[1][other], chunk, lanes, flags, partials)
    return chunk


@helper
def arrive(
    number: int, lanes: Lanes, flags: Flags, sends: Sends, adds: Truths, partials: Partials
) -> None:
    """Let a sum or a copy arrive."""
    node, chunk = lanes[1][sends[0][number]], sends[1][number]
    if adds[number]:
        report(node, chunk, lanes, flags, partials)
    else:
        put(partials[0][node], chunk)
        wake_onward(lanes, flags, node)


@helper
def split_choices(
    node: int,
    now: int,
    lanes: Lanes,
    flags: Flags,
    full: Words,
    taken: Words,
    latest: Ints,
    near: Ints,
    options: Ints,
) -> int:
    """Idle links into a node, with how many complete chunks each can bring in time."""
    count = 0
    for j in range(lanes[2][node], lanes[2][node + 1]):
        lane = lanes[3][j]
        if flags[1][lane] and flags[0][lane]:
            flags[1][lane] = False
            near[count] = lane
            timely = now <= latest[lane]
            options[count] = common(full[lanes[0][lane]], taken[node]) if timely else 0
            count += 1
    return count


@helper
def choose_chunk(
    lane: int,
    copies: bool,
    mode: int,
    lanes: Lanes,
    flags: Flags,
    partials: Partials,
    taken: Words,
    score: Ints,
    age: Ints,
    spare: Words,
    look: int,
    dice: Words,
) -> tuple[int, bool]:
    """What an idle link sends, and whether it is a sum; −1 if there is nothing.

    ``copies`` says whether there is a complete chunk for its destination.
    """
    if mode == SUMS_FIRST or not copies or (mode == EITHER and random_step(dice, 2) == 0):
        chunk = send_sum(lane, lanes, flags, partials, age, spare, look)
        if chunk >= 0:
            return chunk, True
    if not copies:
        return -1, False
    node = lanes[1][lane]
    chunk = rarest(partials[0][lanes[0][lane]], taken[node], score, 0, look)
    put(taken[node], chunk)
    score[chunk] += 1
    return chunk, False


@helper
def drop_option(
    chunk: int, near: Ints, options: Ints, count: int, lanes: Lanes, full: Words
) -> None:
    """One choice less for the links that could have brought the same chunk."""
    for k in range(count):
        options[k] -= has(full[lanes[0][near[k]]], chunk)


@helper
def begin_turn(flags: Flags, turns: Ints) -> int:
    """Take the nodes that are to be looked at over into ``turns``; return their number.

    What is touched while they are looked at comes in the next turn of the same moment: a
    partial sum that leaves may free others at once.
    """
    touches = int(flags[4][0])
    for i in range(touches):
        turns[i] = flags[3][i]
        flags[2][turns[i]] = False
    flags[4][0] = 0
    return touches


@kernel
def joint(
    lanes: Lanes,
    delays: Delays,
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
    lanes, delays, partials
        The links, and where the sums stand.
    taken
        Chunks per node that it needs no copy of: those whose root it is. Changed.
    score
        Chunks with the least go first; each copy adds 1 to it. Changed.
    mode
        Whether a link prefers sums, copies, or tosses a coin.
    deadline
        Latest arrival of a copy.
    seed, look, sends
        See `gather`.
    adds
        Filled: whether the send is one of a sum.
    """
    nodes, words = taken.shape
    total = len(sends[0])
    dice = np.array([seed], dtype=np.uint64)
    queue = make_queue(len(delays[0]), 2 * total + 1)
    flags = all_active(len(lanes[0]), nodes)
    latest = deadline - delays[0][delays[2]]
    near = np.zeros(len(lanes[0]) + 1, dtype=np.int64)
    options = np.zeros(len(lanes[0]) + 1, dtype=np.int64)
    turns = np.zeros(nodes, dtype=np.int64)
    spare = np.zeros(words, dtype=np.uint64)
    full = partials[0]
    age = score.copy()
    count = 0
    now = 0
    finish = 0
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
                chunk, adding = choose_chunk(
                    lane, copies, mode, lanes, flags, partials, taken, score, age, spare, look, dice
                )
                if chunk < 0:
                    continue
                if not adding:
                    drop_option(chunk, near, options, choices, lanes, full)
                adds[count] = adding
                flags[0][lane] = False
                start_send(queue, delays, sends, count, lane, chunk, now)
                finish = max(finish, now + delays[0][delays[2][lane]])
                count += 1
        if flags[4][0]:
            continue
        if count == total:
            return finish
        now = next_time(queue)
        if now < 0:
            return -1
        while next_time(queue) == now:
            number = release(pop_event(queue), lanes, flags, delays, sends)
            if number >= 0:
                arrive(number, lanes, flags, sends, adds, partials)

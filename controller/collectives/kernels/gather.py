"""Greedy matching of links and chunks on a time-expanded network, for one copy per receiver.

After TACOS (Won et al., arXiv 2304.05301): at every event each idle link takes a chunk that its
source holds and its destination still wants. Ours: what is in flight counts as held, so that
nothing is sent twice; the link with the fewest candidates chooses first, and takes the rarest
chunk; a send that would arrive after a deadline is left to a link that is faster.
"""

import numpy as np

from controller.collectives.kernels.bits import (
    Words,
    common,
    copies_of,
    has,
    put,
    random_step,
    rarest,
)
from controller.collectives.kernels.compiled import helper, kernel
from controller.collectives.kernels.events import (
    Queue,
    make_queue,
    next_time,
    pop_event,
    push_event,
)
from controller.collectives.kernels.lanes import (
    Flags,
    Lanes,
    all_active,
    take_fewest,
    touch,
    wake_onward,
)
from controller.collectives.network import Ints

Delays = tuple[Ints, Ints, Ints]
"""Distinct delays; per link, which one holds it, and which one a chunk takes to arrive."""

Sends = tuple[Ints, Ints, Ints]
"""Link, chunk and start of each send."""


@helper
def find_choices(
    node: int,
    lanes: Lanes,
    flags: Flags,
    have: Words,
    taken: Words,
    latest: Ints,
    now: int,
    near: Ints,
    options: Ints,
) -> int:
    """Links into a node that can bring it something in time, with how many chunks each."""
    idle, active = flags[0], flags[1]
    count = 0
    for j in range(lanes[2][node], lanes[2][node + 1]):
        lane = lanes[3][j]
        if active[lane] and idle[lane]:
            active[lane] = False
            if now <= latest[lane]:
                found = common(have[lanes[0][lane]], taken[node])
                if found:
                    near[count] = lane
                    options[count] = found
                    count += 1
    return count


@helper
def start_send(
    queue: Queue, delays: Delays, sends: Sends, number: int, lane: int, chunk: int, now: int
) -> None:
    """Note a send, and when it arrives and its link is free."""
    delay, hold, travel = delays
    sends[0][number] = lane
    sends[1][number] = chunk
    sends[2][number] = now
    push_event(queue, travel[lane], number, now + delay[travel[lane]])
    if hold[lane] != travel[lane]:
        push_event(queue, hold[lane], len(sends[0]) + number, now + delay[hold[lane]])


@helper
def release(event: int, lanes: Lanes, flags: Flags, delays: Delays, sends: Sends) -> int:
    """Free the link of an event if it is its time; return the send that arrives, or −1."""
    total = len(sends[0])
    arrives = event < total
    number = event if arrives else event - total
    lane = sends[0][number]
    if not arrives or delays[1][lane] == delays[2][lane]:
        flags[0][lane] = True
        touch(flags, lane, lanes[1][lane])
    return number if arrives else -1


@kernel
def gather(
    lanes: Lanes,
    delays: Delays,
    have: Words,
    taken: Words,
    deadline: int,
    seed: int,
    look: int,
    sends: Sends,
) -> int:
    """Schedule all sends; return the time of the last arrival, −1 if the deadline forbids.

    Parameters
    ----------
    lanes, delays
        The links.
    have, taken
        Sets of chunks per node: held; held or not wanted. Both are changed.
    deadline
        Latest arrival.
    seed
        Of the order among equals, above 0.
    look
        Most candidates that a link looks at.
    sends
        Filled; as long as there are chunks wanted.
    """
    nodes, words = have.shape
    total = len(sends[0])
    state = np.array([seed], dtype=np.uint64)
    copies = copies_of(have)
    queue = make_queue(len(delays[0]), 2 * total + 1)
    flags = all_active(len(lanes[0]), nodes)
    latest = deadline - delays[0][delays[2]]
    near = np.zeros(len(lanes[0]) + 1, dtype=np.int64)
    options = np.zeros(len(lanes[0]) + 1, dtype=np.int64)
    count = 0
    now = 0
    finish = 0
    while True:
        touches = flags[4][0]
        turn = random_step(state, max(touches, 1))
        for i in range(touches):
            node = flags[3][(i + turn) % touches]
            flags[2][node] = False
            choices = find_choices(node, lanes, flags, have, taken, latest, now, near, options)
            while choices:
                lane = take_fewest(near, options, choices)
                choices -= 1
                if options[choices] == 0:
                    continue
                first = random_step(state, words)
                chunk = rarest(have[lanes[0][lane]], taken[node], copies, first, look)
                put(taken[node], chunk)
                copies[chunk] += 1
                flags[0][lane] = False
                start_send(queue, delays, sends, count, lane, chunk, now)
                finish = max(finish, now + delays[0][delays[2][lane]])
                count += 1
                for k in range(choices):
                    options[k] -= has(have[lanes[0][near[k]]], chunk)
        if count == total:
            return finish
        flags[4][0] = 0
        now = next_time(queue)
        if now < 0:
            return -1
        while next_time(queue) == now:
            number = release(pop_event(queue), lanes, flags, delays, sends)
            if number >= 0:
                node = lanes[1][sends[0][number]]
                put(have[node], sends[1][number])
                wake_onward(lanes, flags, node)

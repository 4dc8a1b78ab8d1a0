"""Links as the kernels see them, and which of them are to be looked at next.

``Lanes`` is ``(source, destination, into, into_lanes, out, out_lanes)``: ends per link, and
links by destination and by source, each as offsets and link numbers. ``Flags`` is ``(idle,
active, waiting, touched, touches)``: per link whether it is free and whether something changed
for it, per node whether it stands in ``touched``, whose length is ``touches[0]``.
"""

import numpy as np
import numpy.typing as npt

from controller.collectives.kernels.compiled import helper
from controller.collectives.network import Ints

Truths = npt.NDArray[np.bool_]
Lanes = tuple[Ints, Ints, Ints, Ints, Ints, Ints]
Flags = tuple[Truths, Truths, Truths, Ints, Ints]


@helper
def all_active(links: int, nodes: int) -> Flags:
    """Everything is idle, and is to be looked at."""
    return (
        np.ones(links, dtype=np.bool_),
        np.ones(links, dtype=np.bool_),
        np.ones(nodes, dtype=np.bool_),
        np.arange(nodes),
        np.full(1, nodes),
    )


@helper
def touch(flags: Flags, lane: int, node: int) -> None:
    """Look at a link, and its destination, in the next turn."""
    _, active, waiting, touched, touches = flags
    active[lane] = True
    if not waiting[node]:
        waiting[node] = True
        touched[touches[0]] = node
        touches[0] += 1


@helper
def wake_onward(lanes: Lanes, flags: Flags, node: int) -> None:
    """Look at the idle links out of a node that has gained a chunk."""
    idle = flags[0]
    for j in range(lanes[4][node], lanes[4][node + 1]):
        lane = lanes[5][j]
        if idle[lane]:
            touch(flags, lane, lanes[1][lane])


@helper
def take_fewest(near: Ints, options: Ints, count: int) -> int:
    """Move the link with the fewest options to the end of the first ``count``; return it."""
    best = 0
    for k in range(1, count):
        if options[k] < options[best]:
            best = k
    near[best], near[count - 1] = near[count - 1], near[best]
    options[best], options[count - 1] = options[count - 1], options[best]
    return int(near[count - 1])


def arrange(source: Ints, destination: Ints, nodes: int) -> Lanes:
    """Put links in order by either end."""
    into = np.argsort(destination, kind="stable")
    out = np.argsort(source, kind="stable")
    each = np.arange(nodes + 1)
    return (
        source,
        destination,
        np.searchsorted(destination[into], each),
        into,
        np.searchsorted(source[out], each),
        out,
    )

"""What each node has to do: an ordered list of steps with their dependencies, without times.

This is what an executor on packets runs: each step as soon as those that it waits for are done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from controller.collectives.schedule import Schedule
from testbed.errors import InputError

Kind = Literal["send", "receive", "reduce"]
"""``receive`` stores what arrives, ``reduce`` adds it to what is held."""


@dataclass(frozen=True)
class Step:
    """A step of one node.

    Attributes
    ----------
    kind
        What is done.
    transfer
        Number of the send in the schedule; the same on both sides. A schedule that takes over
        counts on from the former one.
    peer
        Node number of the other side.
    chunk
        Chunk number; `Task.chunk_range` says which bytes.
    after
        Positions, in this node's list, of the steps that must be done first.
    """

    kind: Kind
    transfer: int
    peer: int
    chunk: int
    after: tuple[int, ...]


def node_programs(schedule: Schedule) -> dict[int, tuple[Step, ...]]:
    """The steps of every worker, in the order of their planned times.

    A send waits for all that has arrived of its chunk by then. What arrives waits for the sends
    of its chunk that still need the old value, and for what arrived before it. What is on its way
    at the start of the schedule has an arrival only.

    Returns
    -------
    dict
        By node number.

    Raises
    ------
    InputError
        The schedule uses multicast or aggregation in the network: those sends have no single
        source and target.
    """
    routes = schedule.routes
    used = np.unique(schedule.route)
    if np.any(routes.sources.lengths[used] > 1) or np.any(routes.targets.lengths[used] > 1):
        raise InputError(
            f"{schedule.algorithm}: sends that the network copies or adds up are not steps of hosts"
        )
    steps: dict[int, list[Step]] = {int(w): [] for w in schedule.network.workers}
    touched: dict[tuple[int, int], list[int]] = {}
    for _, leaves, position in schedule.moments:
        transfer = schedule.transfers[position]
        node, peer = transfer.source, transfer.target
        kind: Kind = "send"
        if not leaves:
            node, peer = peer, node
            kind = "reduce" if transfer.adds else "receive"
        mine = steps.setdefault(node, [])
        earlier = touched.setdefault((node, transfer.chunk), [])
        after = _needed(mine, earlier, kind)
        earlier.append(len(mine))
        mine.append(Step(kind, transfer.transfer, peer, transfer.chunk, after))
    return {node: tuple(listed) for node, listed in steps.items()}


def _needed(mine: Sequence[Step], earlier: Sequence[int], kind: Kind) -> tuple[int, ...]:
    """The latest writer, and for a writer also the readers since then."""
    needed: list[int] = []
    for position in reversed(earlier):
        writes = mine[position].kind != "send"
        if writes or kind != "send":
            needed.append(position)
        if writes:
            break
    return tuple(sorted(needed))

"""The classic algorithms, on the same network and by the same clock as what is synthesised."""

from collections.abc import Sequence

import numpy as np

from controller.collectives.network import Network
from controller.collectives.reducing import distances_to
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task
from controller.collectives.transfers import Transfers, routed
from controller.collectives.trees import Family, Tree, classic_trees

MAX_WORKERS = 128
"""With more workers the classics are not tried."""

# No algorithm tells more kinds of trees apart for one root.
_KINDS = 2520


def classic_names(network: Network, task: Task) -> tuple[str, ...]:
    """Which classic algorithms there are for a task; none on very large networks."""
    if len(task.workers) > MAX_WORKERS:
        return ()
    if task.collective == "all-to-all":
        return ("direct",)
    names = ["ring", "two-way-ring", "halving-doubling", "direct", "double-binary-tree"]
    if len(_groups(network, task)) > 1:
        names.append("hierarchical")
    if task.collective == "all-reduce":
        names.append("parameter-server")
    return tuple(names)


def classic_schedule(network: Network, task: Task, model: Model, name: str) -> Schedule:
    """Schedule a task by a classic algorithm; see `classic_names`."""
    away = distances_to(network, task)[network.workers]
    if task.collective == "all-to-all":
        transfers = _exchanges(task)
    else:
        server = int(network.workers[int(np.argmin(away.max(axis=0) + away.max(axis=1)))])
        trees = classic_trees(task.workers, away, _groups(network, task), server)
        transfers = _along_trees(task, trees[name])
    return routed(network, task, model, transfers, name)


def _along_trees(task: Task, family: Family) -> Transfers:
    """Sums up each chunk's tree, copies down it; waves of chunks follow each other."""
    rows: list[tuple[int, int, int, int, int, bool]] = []
    known: dict[tuple[int, int], Tree] = {}
    for chunk in range(task.chunks):
        if task.collective == "all-reduce" and family.own:
            wave, turn = divmod(chunk, len(family.own))
            tree = family.own[turn]
        else:
            owner, wave = int(task.owner[chunk]), chunk % task.split
            root = owner if owner >= 0 else task.workers[chunk // task.split]
            turn = wave % _KINDS
            tree = known.get((root, turn)) or family.tree(root, turn)
            known[root, turn] = tree
        last = max(step for _, _, step in tree)
        begin = wave
        if task.reduces:
            rows += [(begin + last - s, wave, b, a, chunk, True) for a, b, s in reversed(tree)]
            begin += last + 1
        if task.collective not in ("reduce-scatter", "reduce"):
            rows += [(begin + s, wave, a, b, chunk, False) for a, b, s in tree]
    rows.sort(key=lambda row: row[:2])
    return _transfers([row[2:5] for row in rows], [row[5] for row in rows])


def _exchanges(task: Task) -> Transfers:
    """Everybody to its next, then to the one after that, and so on."""
    place = {worker: i for i, worker in enumerate(task.workers)}
    pairs = list(zip(task.owner.tolist(), task.receiver.tolist(), strict=True))
    count = len(task.workers)
    order = sorted(
        range(task.chunks),
        key=lambda c: (c % task.split, (place[pairs[c][1]] - place[pairs[c][0]]) % count),
    )
    return _transfers([(*pairs[c], c) for c in order], [False] * task.chunks)


def _transfers(rows: Sequence[tuple[int, int, int]], adds: Sequence[bool]) -> Transfers:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Transfers(table[:, 0], table[:, 1], table[:, 2], np.array(adds, dtype=np.bool_))


def _groups(network: Network, task: Task) -> list[list[int]]:
    """Workers by group, in order; empty if a node has none, or all are in one."""
    groups: dict[str, list[int]] = {}
    for worker in task.workers:
        groups.setdefault(network.nodes[worker].group, []).append(worker)
    return [] if "" in groups else list(groups.values())

"""Schedules as MSCCL algorithms: thread blocks of steps per GPU, with dependencies.

After the format of the public MSCCL runtime. Each thread block here talks to one peer in one
direction; what it waits for in other blocks is a dependency, further ones are ``nop`` steps.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from controller.collectives.network import Network
from controller.collectives.program import Step, node_programs
from controller.collectives.schedule import Schedule
from controller.collectives.task import Task
from controller.collectives.transfers import Transfers
from testbed.errors import InputError

StepType = Literal["s", "r", "rrc", "rcs", "rrs", "rrcs", "nop"]
"""Send; receive; receive and reduce; receive, or reduce, and send on what was received."""

RECEIVES = ("r", "rrc", "rcs", "rrs", "rrcs")
REDUCES = ("rrc", "rrs", "rrcs")
SENDS = ("s", "rcs", "rrs", "rrcs")

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "all-gather": "allgather",
        "reduce-scatter": "reduce_scatter",
        "all-reduce": "allreduce",
        "broadcast": "broadcast",
        "reduce": "reduce",
        "all-to-all": "alltoall",
    }
)
"""Names of the collectives in the format."""


@dataclass(frozen=True)
class BlockStep:
    """A step of a thread block; buffers are ``i``, ``o`` or ``s``, offsets count chunks."""

    type: StepType
    source: tuple[str, int]
    target: tuple[str, int]
    depends: tuple[int, int] = (-1, -1)
    awaited: bool = False


@dataclass(frozen=True)
class Block:
    """A thread block: the peers that it sends to and receives from (−1: none), its steps."""

    send: int
    receive: int
    channel: int
    steps: tuple[BlockStep, ...]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: blocks per GPU, in the order of the workers."""

    name: str
    collective: str
    chunks: int
    gpus: tuple[tuple[Block, ...], ...]


def place(task: Task, rank: int, chunk: int) -> tuple[str, int]:
    """Buffer and offset of a chunk at a GPU; all but all-to-all work in place."""
    if task.collective != "all-to-all":
        return ("o" if task.collective in ("all-gather", "broadcast") else "i"), chunk
    worker, piece = task.workers[rank], chunk % task.split
    owner, receiver = int(task.owner[chunk]), int(task.receiver[chunk])
    if worker == owner:
        return "i", task.workers.index(receiver) * task.split + piece
    if worker == receiver:
        return "o", task.workers.index(owner) * task.split + piece
    return "s", chunk


def to_algorithm(schedule: Schedule) -> Algorithm:
    """An algorithm from a schedule without multicast and aggregation in the network.

    Raises
    ------
    InputError
        The schedule has sends with several sources or targets, or between nodes that are no
        workers.
    """
    programs = node_programs(schedule)
    task = schedule.task
    if set(programs) != set(task.workers):
        raise InputError(f"{schedule.algorithm}: MSCCL has no steps for switches")
    gpus = tuple(_blocks(task, rank, programs[worker]) for rank, worker in enumerate(task.workers))
    return Algorithm(
        f"{schedule.algorithm}-{schedule.network.name}",
        NAMES[task.collective],
        task.parts * task.split,
        gpus,
    )


def _blocks(task: Task, rank: int, steps: Sequence[Step]) -> tuple[Block, ...]:
    """Sort a node's steps into blocks by direction and peer."""
    keys = list(dict.fromkeys((step.kind == "send", step.peer) for step in steps))
    number = {key: i for i, key in enumerate(keys)}
    listed: list[list[BlockStep]] = [[] for _ in keys]
    where: list[tuple[int, int]] = []
    for step in steps:
        block = number[step.kind == "send", step.peer]
        mine = listed[block]
        waits = [where[position] for position in step.after if where[position][0] != block]
        for other in waits[:-1]:
            mine.append(BlockStep("nop", ("i", -1), ("o", -1), other))
        peer = task.workers.index(step.peer)
        here, there = place(task, rank, step.chunk), place(task, peer, step.chunk)
        kinds: dict[str, StepType] = {"send": "s", "receive": "r", "reduce": "rrc"}
        source, target = (here, there) if step.kind == "send" else (there, here)
        depends = waits[-1] if waits else (-1, -1)
        where.append((block, len(mine)))
        mine.append(BlockStep(kinds[step.kind], source, target, depends))
    awaited = {step.depends for block in listed for step in block}
    made = []
    for block, (sends, peer) in enumerate(keys):
        rank_of_peer = task.workers.index(peer)
        marked = tuple(
            replace(step, awaited=(block, i) in awaited) for i, step in enumerate(listed[block])
        )
        made.append(Block(rank_of_peer if sends else -1, -1 if sends else rank_of_peer, 0, marked))
    return tuple(made)


def to_transfers(algorithm: Algorithm, network: Network, task: Task) -> Transfers:
    """The transfers of an algorithm, in an order in which it can run.

    Raises
    ------
    InputError
        It is for another number of GPUs, another collective or number of chunks, a send has no
        receive, offsets do not belong to a chunk, or steps wait for each other in a circle.
    """
    if len(algorithm.gpus) != len(task.workers):
        raise InputError(
            f"{algorithm.name} is for {len(algorithm.gpus)} GPUs, {network.name} has "
            f"{len(task.workers)} workers"
        )
    if algorithm.collective != NAMES[task.collective]:
        raise InputError(f"{algorithm.name} is no {task.collective}: {algorithm.collective}")
    chunk_at = {
        (rank, *place(task, rank, chunk)): chunk
        for rank in range(len(task.workers))
        for chunk in range(task.chunks)
    }
    rows: list[tuple[int, int, int, bool]] = []
    for rank, (peer, step, adds) in _running_order(algorithm):
        chunk = chunk_at.get((rank, *step.source))
        if chunk is None:
            buffer, offset = step.source
            raise InputError(f"{algorithm.name}: gpu {rank}: there is no chunk {buffer}[{offset}]")
        rows.append((task.workers[rank], task.workers[peer], chunk, adds))
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Transfers(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.bool_))


Key = tuple[int, int, int]
"""GPU, block, step."""


def _running_order(algorithm: Algorithm) -> list[tuple[int, tuple[int, BlockStep, bool]]]:
    """Sends with their GPU, peer and whether the peer adds, in an order that can run."""
    steps = {
        (gpu, b, i): (block, step)
        for gpu, blocks in enumerate(algorithm.gpus)
        for b, block in enumerate(blocks)
        for i, step in enumerate(block.steps)
    }
    partner = _partners(algorithm, steps)
    receive_of = {send: receive for receive, send in partner.items()}
    waits: dict[Key, set[Key]] = {key: set() for key in steps}
    for (gpu, b, i), (_, step) in steps.items():
        if i:
            waits[gpu, b, i].add((gpu, b, i - 1))
        if step.depends[0] >= 0:
            other = (gpu, *step.depends)
            if other not in steps:
                raise InputError(f"{algorithm.name}: gpu {gpu}: there is no step {step.depends}")
            waits[gpu, b, i].add(other)
        if (gpu, b, i) in partner:
            waits[gpu, b, i].add(partner[gpu, b, i])
    followers: dict[Key, list[Key]] = {key: [] for key in steps}
    for key, needed in waits.items():
        for other in needed:
            followers[other].append(key)
    left = {key: len(needed) for key, needed in waits.items()}
    ready = deque(sorted(key for key, count in left.items() if count == 0))
    order = []
    done = 0
    while ready:
        key = ready.popleft()
        done += 1
        block, step = steps[key]
        if step.type in SENDS:
            adds = steps[receive_of[key]][1].type in REDUCES
            order.append((key[0], (block.send, step, adds)))
        for follower in followers[key]:
            left[follower] -= 1
            if left[follower] == 0:
                ready.append(follower)
    if done < len(steps):
        raise InputError(f"{algorithm.name}: {len(steps) - done} steps wait for each other")
    return order


def _partners(algorithm: Algorithm, steps: Mapping[Key, tuple[Block, BlockStep]]) -> dict[Key, Key]:
    """The send of each receive: the first with the first, and so on, on each connection."""
    sends: dict[tuple[int, int, int], list[Key]] = {}
    receives: dict[tuple[int, int, int], list[Key]] = {}
    for key, (block, step) in steps.items():
        if step.type in SENDS:
            sends.setdefault((key[0], block.send, block.channel), []).append(key)
        if step.type in RECEIVES:
            receives.setdefault((block.receive, key[0], block.channel), []).append(key)
    for line in {*sends, *receives}:
        if len(sends.get(line, [])) != len(receives.get(line, [])):
            raise InputError(
                f"{algorithm.name}: from gpu {line[0]} to {line[1]}: {len(sends.get(line, []))} "
                f"sends, {len(receives.get(line, []))} receives"
            )
    return {r: s for line, keys in receives.items() for r, s in zip(keys, sends[line], strict=True)}

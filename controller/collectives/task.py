"""What a collective has to achieve: which chunks exist, who begins and who ends with them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from controller.collectives.network import Ints, Network
from testbed.errors import InputError, suggestion

Collective = Literal[
    "all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce", "all-to-all"
]
COLLECTIVES: tuple[str, ...] = get_args(Collective)
REDUCING: tuple[str, ...] = ("reduce-scatter", "all-reduce", "reduce")
"""Those in which chunks are added up."""

REVERSED: dict[str, Collective] = {"reduce-scatter": "all-gather", "reduce": "broadcast"}
"""A schedule of the left one is one of the right one on the reversed network, run backwards."""

_MAX_CHUNKS = 1 << 16
# Of sends, and of cells in the tables of who holds what: some gigabytes.
_MAX_RECEIVED = 1 << 25


@dataclass(frozen=True)
class Task:
    """One collective over the workers of a network.

    Attributes
    ----------
    collective
        Which one.
    workers
        Node numbers of those who take part.
    payload_bytes
        All-gather, broadcast: bytes that each worker has in the end. Reduce-scatter, reduce,
        all-reduce: bytes that each worker brings. All-to-all: bytes that each worker brings,
        an equal part for each one, its own included.
    split
        Chunks per part: see `chunks`.
    root
        Node number; of broadcast and reduce only.
    """

    collective: Collective
    workers: tuple[int, ...]
    payload_bytes: int
    split: int
    root: int

    @property
    def parts(self) -> int:
        """Into how many parts the collective itself divides the payload."""
        return 1 if self.collective in ("broadcast", "reduce") else len(self.workers)

    @property
    def chunks(self) -> int:
        """Number of chunks: parts × split, and for all-to-all that for each receiver."""
        pairs = len(self.workers) - 1 if self.collective == "all-to-all" else 1
        return self.parts * self.split * pairs

    @property
    def chunk_bytes(self) -> int:
        """Size of the largest chunk; the others are at most a byte smaller."""
        return -(-self.payload_bytes // (self.parts * self.split))

    @property
    def reduces(self) -> bool:
        """Whether chunks are added up."""
        return self.collective in REDUCING

    @cached_property
    def owner(self) -> Ints:
        """Node per chunk: who begins with it, or where its sum ends; −1 for all-reduce."""
        workers = np.array(self.workers, dtype=np.int64)
        if self.collective in ("broadcast", "reduce"):
            return np.full(self.chunks, self.root, dtype=np.int64)
        if self.collective == "all-reduce":
            return np.full(self.chunks, -1, dtype=np.int64)
        return np.repeat(workers, self.chunks // len(workers))

    @cached_property
    def receiver(self) -> Ints:
        """Node per chunk of an all-to-all, otherwise −1: everybody, or the owner."""
        if self.collective != "all-to-all":
            return np.full(self.chunks, -1, dtype=np.int64)
        others = [[w for w in self.workers if w != owner] for owner in self.workers]
        return np.repeat(np.array(others, dtype=np.int64).ravel(), self.split)

    def begins(self, nodes: int) -> npt.NDArray[np.bool_]:
        """Who holds what at the start, shape (nodes, chunks); of the sums: a part of it."""
        held = np.zeros((nodes, self.chunks), dtype=np.bool_)
        if self.reduces:
            held[list(self.workers)] = True
        else:
            held[self.owner, np.arange(self.chunks)] = True
        return held

    def ends(self, nodes: int) -> npt.NDArray[np.bool_]:
        """Who must hold what, complete, in the end, shape (nodes, chunks)."""
        held = np.zeros((nodes, self.chunks), dtype=np.bool_)
        if self.collective in ("reduce-scatter", "reduce"):
            held[self.owner, np.arange(self.chunks)] = True
        elif self.collective == "all-to-all":
            held[self.receiver, np.arange(self.chunks)] = True
        else:
            held[list(self.workers)] = True
        return held

    def chunk_range(self, chunk: int) -> tuple[int, int]:
        """First byte of a chunk and the one after its last, within the payload."""
        pieces = self.parts * self.split
        piece = chunk
        if self.collective == "all-to-all":
            part = self.workers.index(int(self.receiver[chunk]))
            piece = part * self.split + chunk % self.split
        return piece * self.payload_bytes // pieces, (piece + 1) * self.payload_bytes // pieces


def make_task(
    network: Network,
    collective: str,
    payload_bytes: int,
    *,
    chunks: int = 0,
    root: int | None = None,
) -> Task:
    """Check what is asked for.

    Parameters
    ----------
    network
        Its workers take part.
    collective
        One of `COLLECTIVES`.
    payload_bytes
        See `Task`.
    chunks
        Pieces that the payload is cut into: a multiple of the number of workers, except for
        broadcast and reduce. 0: one for each part.
    root
        Node number, for broadcast and reduce; the first worker by default.

    Raises
    ------
    InputError
        An unknown collective, a payload that is not above 0, a root that is no worker, or a
        number of chunks that does not fit the payload.
    """
    if collective not in COLLECTIVES:
        hint = suggestion(collective, COLLECTIVES)
        raise InputError(f'collective: "{collective}" is not valid: {hint}')
    if payload_bytes <= 0:
        raise InputError(f"payload: {payload_bytes} bytes is not valid: write a size above 0")
    workers = tuple(int(worker) for worker in network.workers)
    if root is not None and root not in workers:
        raise InputError(f"root: node {root} is not a worker of {network.name}")
    task = Task(
        collective=next(c for c in get_args(Collective) if c == collective),
        workers=workers,
        payload_bytes=payload_bytes,
        split=1,
        root=workers[0] if root is None else root,
    )
    return with_chunks(task, chunks or task.parts)


def with_chunks(task: Task, chunks: int) -> Task:
    """The same task with its payload cut into so many pieces; see `make_task`."""
    if chunks < 1 or chunks % task.parts:
        raise InputError(
            f"chunks: {chunks} does not fit: {task.collective} among {len(task.workers)} "
            f"workers takes a multiple of {task.parts}"
        )
    if chunks > task.payload_bytes:
        raise InputError(
            f"chunks: {chunks} does not fit a payload of {task.payload_bytes} bytes: a chunk "
            "has at least one byte"
        )
    split = chunks // task.parts
    cut = Task(task.collective, task.workers, task.payload_bytes, split, task.root)
    reason = too_many(cut)
    if reason:
        raise InputError(f"chunks: {reason}")
    return cut


def too_many(task: Task) -> str:
    """Why a task has more chunks than can be scheduled; empty if it has not."""
    workers = len(task.workers)
    most = min(_MAX_CHUNKS, _MAX_RECEIVED // workers)
    if task.chunks <= most:
        return ""
    return f"{task.chunks} for {workers} workers are too many: at most {most}"

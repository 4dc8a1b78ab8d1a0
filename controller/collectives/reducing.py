"""Synthesis of all-reduce as one network, sums and copies together."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from controller.collectives.gathering import NO_DEADLINE, SYNTHESISED, delay_classes
from controller.collectives.kernels.bits import pack
from controller.collectives.kernels.joint import COPIES_FIRST, EITHER, SUMS_FIRST, joint
from controller.collectives.kernels.lanes import arrange
from controller.collectives.kernels.packing import pack_trees
from controller.collectives.network import Floats, Ints, Network
from controller.collectives.routes import Routes, lightest_links, send_weights
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task

_LOOK = 64
_WAVE = 1 << 20
# Pairs of trees that are packed, roots tried for each, and by how much a used link gets dearer.
_MOST_PAIRS = 256
_ROOTS_TRIED = 40
_STEEPNESS = 0.2


@dataclass(frozen=True)
class Style:
    """How links choose.

    Attributes
    ----------
    mode
        Sums first, copies first, or either.
    waves
        Whether the chunks of earlier waves go first, a wave being one chunk per worker.
    packed
        Whether roots and the trees of sums are chosen so that the busiest link is least busy;
        otherwise every worker is the root of as many chunks, and sums go any shortest way.
    """

    mode: int
    waves: bool
    packed: bool = False


STYLES = (
    Style(SUMS_FIRST, waves=False),
    Style(SUMS_FIRST, waves=False, packed=True),
    Style(EITHER, waves=True),
    Style(EITHER, waves=False, packed=True),
    Style(EITHER, waves=False),
    Style(SUMS_FIRST, waves=True),
    Style(COPIES_FIRST, waves=True),
)
"""In the order of what has been best on meshes and random graphs, in turn."""


def joint_schedule(
    network: Network,
    routes: Routes,
    task: Task,
    model: Model,
    *,
    style: Style,
    deadline_ps: int = NO_DEADLINE,
    seed: int = 1,
) -> Schedule | None:
    """Synthesise once; ``None`` if the deadline cannot be met this way.

    Parameters
    ----------
    network, routes
        Routes of one link each, and each with links of its own.
    task
        An all-reduce; every worker is the root of as many chunks.
    model, style
        How long a link is held, and how it chooses.
    deadline_ps
        No copy may arrive later.
    seed
        Of the order among equals.
    """
    nodes, chunks = len(network.nodes), task.chunks
    if style.packed:
        root, nearer = _packed(network, routes, task, seed)
    else:
        root = _roots(task, np.random.default_rng(seed))
        nearer = _nearer(network, routes, task, root)
    need = np.zeros((nodes, chunks), dtype=np.int32)
    np.add.at(need, routes.target, nearer)
    ready = need == 0
    at_root = np.zeros((nodes, chunks), dtype=np.bool_)
    at_root[root, np.arange(chunks)] = True
    taken = pack(at_root, spare=True)
    wave = np.arange(taken.shape[1] * 64, dtype=np.int64) // len(task.workers)
    sends = 2 * chunks * (len(task.workers) - 1)
    lane, chunk, start = (np.zeros(sends, dtype=np.int64) for _ in range(3))
    adds = np.zeros(sends, dtype=np.bool_)
    finish = joint(
        arrange(routes.source, routes.target, nodes),
        delay_classes(routes, task, model),
        (pack(np.zeros_like(ready)), pack(ready), pack(nearer), need, root),
        taken,
        wave * (_WAVE if style.waves else 0),
        style.mode,
        deadline_ps,
        seed + 1,
        _LOOK,
        (lane, chunk, start),
        adds,
    )
    if finish < 0:
        return None
    return Schedule(network, task, model, SYNTHESISED, routes, lane, chunk, start, adds)


def _roots(task: Task, rng: np.random.Generator) -> Ints:
    """Root per chunk: in each wave every worker once, in random order."""
    waves = [rng.permutation(task.workers) for _ in range(task.split)]
    return np.concatenate(waves).astype(np.int64)


def _packed(
    network: Network, routes: Routes, task: Task, seed: int
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Roots by the load, and the links of the trees of sums, shape (routes, chunks)."""
    nodes, pairs = len(network.nodes), min(task.chunks, _MOST_PAIRS)
    root = np.zeros(pairs, dtype=np.int64)
    up, down = (np.zeros((pairs, nodes), dtype=np.int64) for _ in range(2))
    pack_trees(
        arrange(routes.source, routes.target, nodes),
        routes.byte_ps / routes.byte_ps.max(),
        _STEEPNESS,
        _ROOTS_TRIED,
        seed + 1,
        root,
        up,
        down,
    )
    turn = np.arange(task.chunks) % pairs
    nearer = np.zeros((routes.count + 1, task.chunks), dtype=np.bool_)
    nearer[up[turn], np.arange(task.chunks)[:, None]] = True
    return root[turn], nearer[:-1]


def _nearer(network: Network, routes: Routes, task: Task, root: Ints) -> npt.NDArray[np.bool_]:
    """Whether each route leads nearer to the root of each chunk, shape (routes, chunks)."""
    away = distances_to(network, task)
    away = away[:, np.searchsorted(network.workers, root)]
    closer: npt.NDArray[np.bool_] = away[routes.target] < away[routes.source]
    return closer


def distances_to(network: Network, task: Task) -> Floats:
    """Time of a chunk from each node to each worker, hop by hop, shape (nodes, workers)."""
    weights = send_weights(network, task.chunk_bytes)
    best = lightest_links(network, weights)
    back = csr_array(
        (weights[best], (network.dst[best], network.src[best])), shape=(len(network.nodes),) * 2
    )
    away: Floats = np.atleast_2d(dijkstra(back, indices=network.workers)).T
    return np.rint(away)

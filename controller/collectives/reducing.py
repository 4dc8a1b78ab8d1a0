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
from controller.collectives.network import Floats, Ints, Network
from controller.collectives.routes import Routes, lightest_links, send_weights
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task

_LOOK = 64
_WAVE = 1 << 20


@dataclass(frozen=True)
class Style:
    """How links choose.

    Attributes
    ----------
    mode
        Sums first, copies first, or either.
    waves
        Whether the chunks of earlier waves go first, a wave being one chunk per root.
    """

    mode: int
    waves: bool


STYLES = (
    Style(SUMS_FIRST, waves=False),
    Style(EITHER, waves=True),
    Style(EITHER, waves=False),
    Style(SUMS_FIRST, waves=True),
    Style(COPIES_FIRST, waves=True),
    Style(COPIES_FIRST, waves=False),
)
"""In the order of what has been best on meshes."""


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
    root = _roots(task, np.random.default_rng(seed))
    nearer = _nearer(network, routes, task, root)
    need = np.zeros((nodes, chunks), dtype=np.int32)
    np.add.at(need, routes.target, nearer)
    ready = need == 0
    at_root = np.zeros((nodes, chunks), dtype=np.bool_)
    at_root[root, np.arange(chunks)] = True
    taken = pack(at_root)
    if chunks % 64:
        taken[:, -1] |= ~np.uint64((1 << (chunks % 64)) - 1)
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

"""Which nodes pass a chunk of an all-to-all on: those of a path chosen with the load in mind."""

import numpy as np
import numpy.typing as npt

from controller.collectives.network import Network
from controller.collectives.routes import send_weights, shortest_paths
from controller.collectives.task import Task

_ROUNDS = 8
_STEEPNESS = 2.0


def relay_nodes(network: Network, task: Task, seed: int) -> npt.NDArray[np.bool_]:
    """Nodes that receive each chunk, shape (nodes, chunks): its receiver and those before it.

    The pairs are routed in rounds; each round sees links as longer that earlier rounds have
    loaded (a multiplicative-weights approximation of the least load; ours).
    """
    rng = np.random.default_rng(seed)
    rounds = rng.integers(0, _ROUNDS, task.chunks)
    base = send_weights(network, task.chunk_bytes)
    busy_ps = np.zeros(network.links)
    step = network.byte_ps * task.chunk_bytes
    passes = np.zeros((len(network.nodes), task.chunks), dtype=np.bool_)
    workers = list(task.workers)
    row = {worker: i for i, worker in enumerate(workers)}
    for number in range(_ROUNDS):
        mean = busy_ps.mean()
        load = busy_ps / mean if mean > 0 else busy_ps
        paths = shortest_paths(network, base * (1 + load) ** _STEEPNESS, workers)
        for chunk in np.flatnonzero(rounds == number).tolist():
            path = paths[row[int(task.owner[chunk])]][int(task.receiver[chunk])]
            busy_ps[path] += step[path]
            passes[network.dst[path], chunk] = True
    return passes

"""Sums and copies planned anew from what workers hold; ours."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from controller.collectives.covers import Cover, cover
from controller.collectives.gathering import SYNTHESISED
from controller.collectives.interruption import State
from controller.collectives.kernels.bits import pack
from controller.collectives.kernels.joint import EITHER, SUMS_FIRST
from controller.collectives.kernels.lanes import Truths, arrange
from controller.collectives.kernels.ported import late_events, ported
from controller.collectives.network import Ints, Network
from controller.collectives.routes import Routes
from controller.collectives.schedule import Schedule, chunk_times
from controller.collectives.start import Flight, Start, busy_links, columns
from controller.collectives.task import Task
from controller.hostplan import HOLD, NOTHING, OWN, WITH_OWN

_LOOK = 64
_WAVE = 1 << 20


@dataclass(frozen=True)
class Basis:
    """What all attempts from one state share.

    Attributes
    ----------
    covers
        What each chunk is put together from.
    start
        What the schedule begins with.
    """

    covers: list[Cover]
    start: Start


def basis(task: Task, state: State) -> Basis:
    """Choose what the sums are put together from."""
    covers = _covers(state, task)
    return Basis(covers, _start(state, task, covers))


def restarted(
    schedule: Schedule, network: Network, basis: Basis, lanes: Routes, seed: int, latest_ps: int
) -> Schedule | None:
    """Synthesise once from a state; ``None`` if it takes longer than allowed.

    Parameters
    ----------
    schedule
        What was interrupted.
    network, lanes
        What is left of its network, and paths between workers on it.
    basis
        Where it stands.
    seed
        Of roots and of the order among equals.
    latest_ps
        No copy may arrive later.
    """
    task, model, start = schedule.task, schedule.model, basis.start
    trees = _plan(lanes, task, basis.covers, start.flights, len(network.nodes), seed)
    size = chunk_times(lanes, task.chunk_bytes)
    lane, chunk, start_ps = (np.zeros(trees.sends, dtype=np.int64) for _ in range(3))
    adds = np.zeros(trees.sends, dtype=np.bool_)
    taken = pack(trees.taken, spare=True)
    finish = ported(
        arrange(lanes.source, lanes.target, len(network.nodes)),
        (lanes.hops.first, lanes.hops.values, lanes.hop_ps),
        network.latency_ps[lanes.hops.values] * (model == "occupancy"),
        size,
        size + lanes.latency_ps,
        network.links,
        columns(busy_links(start)),
        late_events(trees.late),
        (pack(trees.full), pack(trees.ready), pack(trees.nearer), trees.need, trees.root),
        taken,
        np.arange(taken.shape[1] * 64) // len(task.workers) * (_WAVE * (seed % 2)),
        (SUMS_FIRST, EITHER)[seed // 2 % 2],
        latest_ps,
        seed + 1,
        _LOOK,
        (lane, chunk, start_ps),
        adds,
    )
    if finish < 0:
        return None
    return Schedule(network, task, model, SYNTHESISED, lanes, lane, chunk, start_ps, adds, start)


def _covers(state: State, task: Task) -> list[Cover]:
    """What each chunk is put together from, with what is on its way."""
    values = [
        [state.held[worker][chunk] for worker in task.workers] for chunk in range(task.chunks)
    ]
    place = {worker: i for i, worker in enumerate(task.workers)}
    for flight in state.flights:
        row, i = values[flight.chunk], place[flight.target]
        row[i] = flight.content | (row[i] if flight.adds else 0)
    return [cover(row) for row in values]


def _start(state: State, task: Task, covers: list[Cover]) -> Start:
    """What workers are to begin with, and which flights still count."""
    place = {worker: i for i, worker in enumerate(task.workers)}
    held, origin = [], []
    for node, had in enumerate(state.held):
        i = place.get(node, -1)
        origins = "".join(NOTHING if i < 0 else c.origin[i] for c in covers)
        own = 1 << i if i >= 0 else 0
        origin.append(origins)
        held.append(
            tuple(
                (value if o in (HOLD, WITH_OWN) else 0) | (own if o in (OWN, WITH_OWN) else 0)
                for o, value in zip(origins, had, strict=True)
            )
        )
    flights = tuple(f for f in state.flights if origin[f.target][f.chunk] in (HOLD, WITH_OWN))
    return Start(tuple(held), tuple(origin), flights, state.next_transfer)


@dataclass(frozen=True, eq=False)
class _Trees:
    """What the kernel begins with; see `Partials` and `Late`."""

    full: Truths
    taken: Truths
    ready: Truths
    nearer: Truths
    need: npt.NDArray[np.int32]
    root: Ints
    late: list[tuple[int, int, int, bool]]
    sends: int


def _plan(
    lanes: Routes,
    task: Task,
    covers: list[Cover],
    flights: tuple[Flight, ...],
    nodes: int,
    seed: int,
) -> _Trees:
    """Choose a root among the parts of each chunk, and the lanes by which sums get there."""
    rng = np.random.default_rng(seed)
    workers = np.array(task.workers)
    shape = nodes, task.chunks
    full, taken, works = (np.zeros(shape, dtype=np.bool_) for _ in range(3))
    nearer = np.zeros((lanes.count, task.chunks), dtype=np.bool_)
    root = np.full(task.chunks, -1, dtype=np.int64)
    arrival: dict[tuple[int, int], int] = {}
    for f in flights:
        place = f.target, f.chunk
        arrival[place] = max(arrival.get(place, 0), f.arrival_ps)
    ways = _Ways(lanes, task, nodes)
    sends = 0
    for chunk, chosen in enumerate(covers):
        holders = workers[np.array(chosen.parts, dtype=object) != 0]
        if chosen.final:
            taken[holders, chunk] = True
            full[[node for node in holders if (node, chunk) not in arrival], chunk] = True
            sends += len(workers) - len(holders)
            continue
        root[chunk] = rng.choice(holders)
        taken[root[chunk], chunk] = True
        used, members = ways.towards(int(root[chunk]), holders)
        nearer[used, chunk] = True
        works[members, chunk] = True
        sends += len(members) - 1 + len(workers) - 1
    need = np.zeros(shape, dtype=np.int32)
    np.add.at(need, lanes.target, nearer)
    late = [(node, n, when, covers[n].final) for (node, n), when in arrival.items()]
    for node, chunk, _, final in late:
        need[node, chunk] += not final
    return _Trees(full, taken, works & (need == 0), nearer, need, root, late, sends)


class _Ways:
    """Lanes by which the parts of a sum get nearer to its root."""

    def __init__(self, lanes: Routes, task: Task, nodes: int) -> None:
        self._lanes = lanes
        weights = (chunk_times(lanes, task.chunk_bytes) + lanes.latency_ps).astype(np.float64)
        back = csr_array((weights, (lanes.target, lanes.source)), shape=(nodes, nodes))
        away, before = dijkstra(back, indices=list(task.workers), return_predecessors=True)
        self._row = {worker: i for i, worker in enumerate(task.workers)}
        self._away, self._before = np.rint(away), before
        ends = zip(lanes.source.tolist(), lanes.target.tolist(), strict=True)
        self._lane = {pair: number for number, pair in enumerate(ends)}
        self._every = lanes.count == len(task.workers) * (len(task.workers) - 1)

    def towards(self, root: int, holders: Ints) -> tuple[Ints, Ints]:
        """Lanes, and all nodes that take part.

        Where each two workers have a lane, any that leads nearer and joins two holders. Else
        those of a tree of shortest paths, so that who has nothing yet gets something to pass on.
        """
        row = self._row[root]
        if self._every:
            away = self._away[row]
            source, target = self._lanes.source, self._lanes.target
            both = np.isin(source, holders) & np.isin(target, holders)
            return np.flatnonzero(both & (away[target] < away[source])), holders
        members, used = {root}, []
        for holder in holders.tolist():
            node = holder
            while node not in members:
                members.add(node)
                onward = int(self._before[row, node])
                used.append(self._lane[node, onward])
                node = onward
        return np.array(used, dtype=np.int64), np.array(sorted(members))

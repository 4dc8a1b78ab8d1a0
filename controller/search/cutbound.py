"""Bounds on the round time that hold for any trees: what must enter a set of cities.

Ours. A stream whose sender is outside a set of cities and that has a receiver
inside must take one of the links into the set. If n streams must, and each is
led over one tree, some link carries so many of them that its time is at least
v(n), the least v with Σ ⌊v C_e / P⌋ ≥ n over the links into the set. Each of
those streams also has at least the smallest latency of the round.
"""

import numpy as np
import numpy.typing as npt

from testbed.routing import route
from testbed.topology import Topology

Floats = npt.NDArray[np.float64]

_MAX_EXHAUSTIVE = 10
_CHUNK = 400


class CutBound:
    """Cuts of a network, and what they say about rounds.

    Parameters
    ----------
    topology
        The network; up to ten cities all cuts are used, beyond that single
        cities, ends of a link, whole regions, and the complements of those.
    payload_bytes
        Bytes of one stream on the wire.
    """

    def __init__(self, topology: Topology, payload_bytes: float) -> None:
        count = len(topology.cities)
        self.delays_ms = route(topology).delays_ms()
        self.sets = _sets(topology)
        self.access_ms = np.array(
            [payload_bytes * 8e-6 / city.access_rate_gbps for city in topology.cities]
        )
        rates = np.array([edge.rate_gbps for edge in topology.edges])
        ends = np.array([(topology.index(e.src), topology.index(e.dst)) for e in topology.edges])
        entering = ~self.sets[:, ends[:, 0]] & self.sets[:, ends[:, 1]]
        self.needed_ms = np.array(
            [_least_times(payload_bytes * 8e-6 / rates[row], count) for row in entering]
        )

    def lower_ms(self, partitions: npt.NDArray[np.int8]) -> Floats:
        """Bound the round time of each partition (labels, shape (rounds, cities))."""
        parts = [
            self._bound(partitions[start : start + _CHUNK])
            for start in range(0, len(partitions), _CHUNK)
        ]
        return np.concatenate(parts)

    def _bound(self, labels: npt.NDArray[np.int8]) -> Floats:
        count = labels.shape[1]
        same = (labels[:, :, None] == labels[:, None, :]) & ~np.eye(count, dtype=np.bool_)
        latency_ms = np.where(same, self.delays_ms, -np.inf).max(axis=2)
        first_ms = np.where(latency_ms >= 0, latency_ms, np.inf).min(axis=1)
        # Sender outside the set, with some receiver of its clique inside it.
        inside = same.astype(np.float32).reshape(-1, count) @ self.sets.T.astype(np.float32)
        outside = inside.reshape(len(labels), count, -1) > 0
        crossing = (outside & ~self.sets.T[None, :, :]).sum(axis=1)
        busiest_ms = self.needed_ms[np.arange(len(self.sets)), crossing].max(axis=1)
        # One stream leaves and one sum enters each access link of a clique.
        slowest_ms = np.maximum(np.where(same, self.access_ms, 0.0).max(axis=2), self.access_ms)
        alone_ms = (latency_ms + slowest_ms).max(axis=1)
        bound: Floats = np.maximum(alone_ms, first_ms + busiest_ms)
        return bound


def _sets(topology: Topology) -> npt.NDArray[np.bool_]:
    """Sets of cities, one a row, neither empty nor everything."""
    count = len(topology.cities)
    if count <= _MAX_EXHAUSTIVE:
        numbers = np.arange(1, 2**count - 1)
        return (numbers[:, None] >> np.arange(count) & 1).astype(np.bool_)
    cities = range(count)
    chosen = [frozenset((city,)) for city in cities]
    chosen += [frozenset((topology.index(k.a), topology.index(k.b))) for k in topology.links]
    regions: dict[str, set[int]] = {}
    for index, city in enumerate(topology.cities):
        regions.setdefault(city.region, set()).add(index)
    chosen += [frozenset(members) for members in regions.values()]
    everything = frozenset(range(count))
    both = {*chosen, *(everything - part for part in chosen)} - {everything, frozenset()}
    return np.array([[city in part for city in cities] for part in sorted(both, key=sorted)])


def _least_times(copy_ms: Floats, most: int) -> list[float]:
    """v(0), …, v(most): busiest link's least time with n copies on links of these times."""
    filled = np.zeros(len(copy_ms), dtype=np.int64)
    times = [0.0]
    for _ in range(most):
        link = int(np.argmin((filled + 1) * copy_ms))
        filled[link] += 1
        times.append(max(times[-1], float(filled[link] * copy_ms[link])))
    return times

"""How many bytes a receiver holds, worked out from arrivals alone (ours).

The bytes held are piecewise linear in time. Between two moments at which some
stream starts or ends they are convex, so that their maximum is at such a moment.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from controller.demand import Demand
from controller.multicast import Tree


def held_bytes(
    trees: Sequence[Tree],
    offsets_ms: Mapping[int, float],
    durations_ms: Mapping[int, float],
    demand: Demand,
) -> dict[int, float]:
    """High-water mark of each receiver, without its resend buffer.

    Parameters
    ----------
    trees
        The streams of a round, each at one constant rate.
    offsets_ms, durations_ms
        By sender.
    demand
        Payload and memory model; without aggregation nothing is held.
    """
    arrivals: dict[int, list[tuple[float, float]]] = {}
    for tree in trees:
        for city, delay_ms in tree.delays_ms.items():
            start_ms = offsets_ms[tree.sender] + delay_ms
            arrivals.setdefault(city, []).append((start_ms, durations_ms[tree.sender]))
    if not demand.aggregation:
        return dict.fromkeys(sorted(arrivals), 0.0)
    every = demand.memory_model == "hold"
    return {
        city: demand.payload_bytes * _peak_share(found, every=every)
        for city, found in sorted(arrivals.items())
    }


def held_of_pieces(
    trees: Sequence[Tree],
    pieces: Mapping[int, Sequence[tuple[float, float, float]]],
    demand: Demand,
) -> dict[int, float]:
    """High-water mark of each receiver if rates change over time.

    Parameters
    ----------
    trees
        The streams of a round.
    pieces
        Sender to start and end in ms and share of the payload of each piece.
    demand
        Payload and memory model; without aggregation nothing is held.
    """
    arrivals: dict[int, list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]] = {}
    for tree in trees:
        starts, ends, shares = np.array(pieces[tree.sender]).T
        moments = np.stack([starts, ends], axis=1).ravel()
        sent = np.stack([np.cumsum(shares) - shares, np.cumsum(shares)], axis=1).ravel()
        for city, delay_ms in tree.delays_ms.items():
            arrivals.setdefault(city, []).append((moments + delay_ms, sent))
    held: dict[int, float] = {}
    for city, found in sorted(arrivals.items()):
        changes = np.unique(np.concatenate([moments for moments, _ in found]))
        arrived = np.stack([np.interp(changes, *curve) for curve in found])
        trailing = arrived.min(axis=0)
        most = arrived.max(axis=0) - trailing
        if demand.memory_model == "hold":
            most = arrived.sum(axis=0) - len(found) * trailing
        held[city] = float(most.max()) * demand.payload_bytes if demand.aggregation else 0.0
    return held


def _peak_share(arrivals: Sequence[tuple[float, float]], *, every: bool) -> float:
    """Largest amount held, in payloads, of streams given by start and duration."""
    starts, durations = np.array(arrivals).T
    moments = np.concatenate([starts, starts + durations])[:, None]
    arrived = np.clip((moments - starts) / durations, 0.0, 1.0)
    trailing = arrived.min(axis=1)
    most = arrived.sum(axis=1) - len(starts) * trailing if every else arrived.max(axis=1) - trailing
    return float(most.max())

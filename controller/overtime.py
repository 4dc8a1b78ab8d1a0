"""The round time of given trees under any of the ways to pace."""

from collections.abc import Sequence
from dataclasses import replace

from controller.demand import Demand
from controller.holding import held_of_pieces
from controller.multicast import Tree, link_time_ms
from controller.offsets import DIGITS
from controller.roundtiming import RoundTiming
from controller.staggered import busiest_bound_ms, staggered
from controller.timeline import Timeline, time_varying
from controller.timing import time_demand
from testbed.topology import Topology

# Slots in a round: the memory along the timeline makes the program large, by the
# square of the streams that come together.
_SLOTS, _SLOTS_OF_FEW, _SLOTS_OF_MANY, _FEW = 60, 40, 12, 3
_CLOSE_MS = 0.1


def time_rates(topology: Topology, trees: Sequence[Tree], demand: Demand) -> RoundTiming:
    """Find the least round time for the demand's rates.

    Parameters
    ----------
    topology, trees
        The network, and one tree per sender.
    demand
        Its ``rates`` decide. Unpaced senders need multicast, aggregation that
        accumulates, and a memory that takes what their queues let pile up;
        without one of these the answer is that of rates per stream.

    Returns
    -------
    RoundTiming
        With ``pieces`` where rates change over time, and ``queued`` where links queue.
    """
    own = replace(demand, rates="per-stream" if demand.rates != "common" else "common")
    if demand.rates == "time-varying":
        senders = max(len(tree.receivers) for tree in trees)
        slots = _SLOTS
        if demand.memory_bytes < demand.payload_bytes * max(1, senders - 1):
            slots = _SLOTS_OF_FEW if senders <= _FEW else _SLOTS_OF_MANY
        found = time_varying(topology, trees, demand, slots=slots, close_ms=_CLOSE_MS)
        if isinstance(found, RoundTiming):
            return found
        return _of_timeline(topology, trees, demand, found)
    if demand.rates == "unpaced":
        full_speed = staggered(topology, trees, demand)
        if full_speed is not None:
            durations_ms = {
                tree.sender: link_time_ms(
                    demand.payload_bytes, topology.cities[tree.sender].access_rate_gbps
                )
                for tree in trees
            }
            return RoundTiming(
                t_ms=full_speed.round.t_ms,
                bound_ms=min(full_speed.bound_ms, full_speed.round.t_ms),
                offsets_ms=full_speed.starts_ms,
                durations_ms=durations_ms,
                held_bytes=full_speed.round.held_bytes,
                resend_bytes={},
                shortfall=None,
                queued=True,
            )
    return time_demand(topology, trees, own)


def _of_timeline(
    topology: Topology, trees: Sequence[Tree], demand: Demand, found: Timeline
) -> RoundTiming:
    starts_ms = {sender: pieces[0][0] for sender, pieces in found.pieces.items()}
    return RoundTiming(
        t_ms=found.t_ms,
        bound_ms=min(busiest_bound_ms(topology, trees, demand), found.t_ms),
        offsets_ms=starts_ms,
        durations_ms={
            sender: round(pieces[-1][1] - starts_ms[sender], DIGITS)
            for sender, pieces in found.pieces.items()
        },
        held_bytes=held_of_pieces(trees, found.pieces, demand),
        resend_bytes={},
        shortfall=None,
        pieces=found.pieces,
    )

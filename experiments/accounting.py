"""Where every block went: what reached each island, what was lost on which leg."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.records import Kind
from controller.plan import Plan
from experiments.events import Trace

Blocks = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Delivery:
    """Contributions (one block of one sender) that reached the islands.

    Attributes
    ----------
    expected, arrived
        Contributions that the plan asks for, and those of them that came.
    twice
        Contributions that came more than once.
    foreign
        Contributions of senders from outside the receiver's clique.
    by_receiver
        Round and city index to what is expected there, and what of it never came.
    """

    expected: int
    arrived: int
    twice: int
    foreign: int
    by_receiver: Mapping[tuple[int, int], tuple[int, int]]

    @property
    def missing(self) -> int:
        """Contributions that never came."""
        return self.expected - self.arrived


@dataclass(frozen=True)
class Legs:
    """Datagrams sent and received on both legs of their way.

    The network leg ends where the trees end; the access leg carries the
    aggregated stream from a city's aggregator to its island.
    """

    network_sent: int
    network_received: int
    access_sent: int
    access_received: int

    @property
    def lost(self) -> int:
        """Datagrams that were sent to somebody and did not arrive there."""
        return max(0, self.network_sent - self.network_received) + max(
            0, self.access_sent - self.access_received
        )


def deliver(trace: Trace, plan: Plan, blocks: int) -> Delivery:
    """Follow every block of every stream to every island that should have it.

    Parameters
    ----------
    trace, plan
        The run.
    blocks
        Blocks of one stream.
    """
    arrivals = _by_round_and_city(trace.of(Kind.AGGREGATE_IN, Kind.DATA_IN, Kind.SURPLUS_IN))
    expected = arrived = twice = foreign = 0
    by_receiver = {}
    for round_index, city, mask in _receivers(plan):
        got, repeated = _coverage(arrivals.pop((round_index, city), None), blocks)
        due, came = blocks * mask.bit_count(), int(np.bitwise_count(got & np.uint64(mask)).sum())
        by_receiver[round_index, city] = due, due - came
        expected += due
        arrived += came
        foreign += int(np.bitwise_count(got & ~np.uint64(mask)).sum())
        twice += repeated
    foreign += sum(int(events["count"].sum()) for events in arrivals.values())
    return Delivery(expected, arrived, twice, foreign, by_receiver)


def count_legs(trace: Trace, plan: Plan) -> Legs:
    """Count the datagrams that left for and arrived at each end of both legs.

    A multicast datagram counts once per receiver: that is how often the network
    has to deliver it.
    """
    network_sent = 0
    for (round_index, city), events in _by_round_and_city(trace.of(Kind.EMIT)).items():
        stream = plan.round(round_index).stream_of(plan.topology.codes[city])
        receivers = len(stream.receivers) if stream is not None else 0
        # With multicast off the sender records each copy by itself.
        network_sent += int(events["count"].sum()) * (receivers if plan.multicast else 1)
    summed = trace.of(Kind.AGGREGATE_IN, Kind.SURPLUS_IN)
    summed = summed[summed["src"] == summed["city"]]  # an aggregator has its island's number
    return Legs(
        network_sent=network_sent,
        network_received=int(trace.of(Kind.HELD, Kind.DATA_IN)["count"].sum()),
        access_sent=int(trace.of(Kind.AGGREGATE_OUT, Kind.RESEND)["count"].sum()),
        access_received=int(summed["count"].sum()),
    )


def explained_losses(plan: Plan, lost: Mapping[str, int]) -> int:
    """Datagrams that can be missing at the ends of the trees because of losses on the way.

    A multicast datagram that is lost on a link misses at all receivers behind it: at
    most as many as the largest of the trees has there.

    Parameters
    ----------
    plan
        The run.
    lost
        Losses by direction, such as ``nyc→chi`` or ``island→nyc``.
    """
    behind: Counter[str] = Counter()
    for stream in (stream for planned in plan.period for stream in planned.streams):
        here = Counter({f"island→{stream.sender}": len(stream.receivers)})
        for path in stream.paths.values():
            here.update(f"{plan.topology.edges[e].src}→{plan.topology.edges[e].dst}" for e in path)
        behind |= here
    return sum(count * (behind[link] if plan.multicast else 1) for link, count in lost.items())


def partial_sums(trace: Trace, plan: Plan, causes: Mapping[int, str]) -> dict[str, int]:
    """Count the blocks that left an aggregator without all their contributions, by cause."""
    masks = {(k, city): mask for k, city, mask in _receivers(plan)}
    partial = dict.fromkeys(causes.values(), 0)
    for key, events in _by_round_and_city(trace.of(Kind.AGGREGATE_OUT)).items():
        short = events[events["value"] != masks.get(key, 0)]
        for cause, name in causes.items():
            partial[name] += int(short["count"][short["cause"] == cause].sum())
    return {name: count for name, count in partial.items() if count}


def evictions(trace: Trace, causes: Mapping[int, str]) -> dict[str, int]:
    """Count the blocks that left the aggregators, by cause."""
    out = trace.of(Kind.AGGREGATE_OUT)
    return {name: int(out["count"][out["cause"] == c].sum()) for c, name in causes.items()}


def _receivers(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Yield every (round, city, bitmap of the senders that it must hear)."""
    codes = plan.topology.codes
    for round_index in range(plan.rounds):
        for city, code in enumerate(codes):
            senders = plan.round(round_index).senders_to(code)
            if senders:
                yield round_index, city, sum(1 << codes.index(s) for s in senders)


def _by_round_and_city(events: npt.NDArray[np.void]) -> dict[tuple[int, int], npt.NDArray[np.void]]:
    keys = events["round"].astype(np.int64) << 8 | events["city"]
    return {(int(k) >> 8, int(k) & 0xFF): events[keys == k] for k in np.unique(keys)}


def _coverage(events: npt.NDArray[np.void] | None, blocks: int) -> tuple[Blocks, int]:
    """Bitmap of the contributors that were put to use, per block, and how many came again."""
    got = np.zeros(blocks, dtype=np.uint64)
    if events is None:
        return got, 0
    is_raw = events["kind"] == Kind.DATA_IN
    bits = np.where(is_raw, np.uint64(1) << events["src"].astype(np.uint64), events["value"])
    count = events["count"].astype(np.int64)
    # Block numbers of all bursts in a row: 5 6 7 8, 9 10 11 12, …
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    block = np.repeat(events["block"].astype(np.int64), count) + within
    each = np.repeat(bits, count)
    inside = block < blocks
    used = inside & np.repeat(events["kind"] != Kind.SURPLUS_IN, count)
    np.bitwise_or.at(got, block[used], each[used])
    came = int(np.bitwise_count(each[inside]).sum())
    return got, came - int(np.bitwise_count(got).sum())

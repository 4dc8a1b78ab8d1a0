"""Packets that links lost or doubled because they were asked to, and whether the sums are right.

All from the kernel's counters: those of the shapers, of the switches' ports, and of
the islands' hosts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.network_record import NetworkRecord, QdiscRecord

_SIGMAS = 6.0
"""How far a count may lie from its mean: less than once in 10⁸ links by chance."""
_SLACK = 3
"""Packets; small counts are not normally distributed."""


@dataclass(frozen=True)
class LinkLoss:
    """One direction that lost packets, or was asked to; counts are of the rounds.

    Attributes
    ----------
    asked_percent
        Share that was to be lost; ``None`` if the link was to be sound.
    offered
        Packets that came to its shaper, copies that it made itself included.
    lost
        Packets that it dropped.
    duplicated
        Copies that it made; ``None`` where nobody counted what came to it.
    """

    link: str
    asked_percent: float | None
    offered: int
    lost: int
    duplicated: int | None

    @property
    def lost_percent(self) -> float:
        """Share that was lost."""
        return 100.0 * self.lost / self.offered if self.offered else 0.0


def link_losses(network: NetworkRecord, *, counted: bool) -> list[LinkLoss]:
    """Losses of every link that had any or was asked for some.

    Parameters
    ----------
    network
        What the network counted.
    counted
        Whether aggregators are the only ones that send to their islands.
    """
    found = []
    for queue in network.qdiscs:
        lost = queue.drops - queue.drops_before
        if queue.asked is None and not lost:
            continue
        offered = _through(queue) + lost
        came = network.aggregator_frames.get(_island_of(queue)) if counted else None
        asked = None if queue.asked is None else 100.0 * queue.asked.loss_share
        duplicated = None if came is None else offered - came
        found.append(LinkLoss(queue.link or queue.interface, asked, offered, lost, duplicated))
    return found


def loss_faults(network: NetworkRecord, *, counted: bool) -> list[str]:
    """What the impaired links did that they were not asked for; one sentence each."""
    faults = []
    for queue in (q for q in network.qdiscs if q.asked is not None):
        faults += _improbable(queue)
        faults += _unaccounted(queue, network, counted=counted)
    return faults


def unread(network: NetworkRecord) -> int:
    """Datagrams that reached an island's host when nobody read them any more.

    Only where hosts get single packets, as they do of impaired networks.
    """
    return sum(
        _through(queue) - _heard(network.island_udp[city])
        for queue in network.qdiscs
        if (city := _island_of(queue)) in network.island_udp
    )


def deviates(count: int, tries: int, share: float, mean_run: float = 1.0) -> bool:
    """Whether a count of hits is too far from the share that was asked for.

    Hits that come in runs vary more: of a chain of two states, by 2 (1 − share) · run − 1
    (Gilbert 1960; 1 for independent hits, whose mean run is 1 / (1 − share)).
    """
    spread = max(1.0, 2.0 * (1.0 - share) * mean_run - 1.0)
    sigma = math.sqrt(tries * share * (1.0 - share) * spread)
    return abs(count - tries * share) > _SIGMAS * sigma + _SLACK * mean_run


def _improbable(queue: QdiscRecord) -> list[str]:
    asked, lost = queue.asked, queue.drops - queue.drops_before - queue.fault_drops
    offered = _through(queue) + lost
    if asked is None or not deviates(lost, offered, asked.loss_share, asked.mean_burst):
        return []
    return [
        f"link {queue.link} lost {lost} of {offered} packets "
        f"({100 * lost / max(1, offered):.3g} %), asked for {100 * asked.loss_share:.3g} %"
    ]


def _unaccounted(queue: QdiscRecord, network: NetworkRecord, *, counted: bool) -> list[str]:
    """Compare what an island's last hop got, lost and passed on with both of its ends."""
    city = _island_of(queue)
    if city not in network.island_udp or queue.asked is None:
        return []
    faults = []
    through = _through(queue)
    left = through - _heard(network.island_udp[city])
    if left < 0:
        faults.append(f"the island of {city} got {-left} datagrams more than its link carried")
    if counted:
        came = network.aggregator_frames[city]
        copies = through + queue.drops - queue.drops_before - came
        share = queue.asked.duplicate_share
        # The shaper does not count its copies: with some, their number can only be likely.
        if (copies and not share) or deviates(copies, came, share):
            faults.append(
                f"link {queue.link}: {came} datagrams came, {through} went on and "
                f"{queue.drops - queue.drops_before} were dropped: {copies:+d} unaccounted"
            )
    return faults


def total_lost(losses: Sequence[LinkLoss]) -> int:
    """Packets that were dropped as asked, over all links."""
    return sum(loss.lost for loss in losses if loss.asked_percent is not None)


def _through(queue: QdiscRecord) -> int:
    return queue.sent_packets - queue.sent_packets_before


def _heard(udp: dict[str, int]) -> int:
    """Datagrams that a host's UDP took or refused; full buffers are among the errors."""
    return udp["InDatagrams"] + udp["InErrors"] + udp["NoPorts"]


def _island_of(queue: QdiscRecord) -> str:
    """The city to whose island a direction leads; empty if to none."""
    city, _, end = queue.link.partition("→")
    return city if end == "island" else ""

"""The network of a collective between hosts, as their datagrams see it."""

from dataclasses import replace

import numpy as np

from agents.wire import elements_per_datagram, wire_bytes
from controller.collectives.generators import cities
from controller.collectives.network import Network
from testbed.topology import Topology


def datagram_network(
    topology: Topology,
    mtu_bytes: int,
    scale: float,
    *,
    multicast: bool = False,
    aggregates: bool = False,
) -> Network:
    """Islands and switches; a switch takes each datagram in whole before it sends it on.

    A schedule that leaves this out is late by so much at every hop, and a chunk that comes late
    loses its turn on a shared link.
    """
    network = cities(topology, multicast=multicast, aggregates=aggregates)
    datagram_bytes = wire_bytes(elements_per_datagram(mtu_bytes)) * scale
    from_switch = ~np.isin(network.src, network.workers)
    taken_ps = np.rint(from_switch * network.byte_ps * datagram_bytes).astype(np.int64)
    return replace(network, latency_ps=network.latency_ps + taken_ps)

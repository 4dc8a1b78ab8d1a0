"""The network that a collective runs on: nodes, and directed links with latency and rate."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from testbed.errors import InputError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

PS_PER_US = 1_000_000
"""Times are whole picoseconds inside, so that equal times are equal."""

_MAX_PS = 10**17


@dataclass(frozen=True)
class Node:
    """A node of the network.

    Attributes
    ----------
    name
        Unique.
    worker
        Takes part in collectives. Others only forward: they are switches.
    multicast
        Copies one arriving stream to several links.
    aggregates
        Adds several arriving streams up into one.
    group
        Region or site, for hierarchical algorithms; empty if there is none.
    """

    name: str
    worker: bool = True
    multicast: bool = False
    aggregates: bool = False
    group: str = ""


@dataclass(frozen=True, eq=False)
class Network:
    """A strongly connected directed graph; make it with `make_network`.

    Attributes
    ----------
    name
        For tables and files.
    nodes
        Their positions are the node numbers that everything else uses.
    src, dst
        Ends of each link, shape (links,).
    latency_ps
        Time that the first byte takes, shape (links,).
    byte_ps
        Time that a further byte takes (1 / rate), shape (links,).
    """

    name: str
    nodes: tuple[Node, ...]
    src: Ints
    dst: Ints
    latency_ps: Ints
    byte_ps: Floats

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.src)

    @cached_property
    def workers(self) -> Ints:
        """Node numbers of the workers, ascending."""
        return np.array([i for i, node in enumerate(self.nodes) if node.worker], dtype=np.int64)

    @cached_property
    def switched(self) -> bool:
        """Whether some nodes only forward."""
        return len(self.workers) < len(self.nodes)

    @cached_property
    def bytes_per_us(self) -> Floats:
        """Rate of each link, shape (links,)."""
        rates: Floats = PS_PER_US / self.byte_ps
        return rates

    def reversed(self) -> "Network":
        """The same network with every link turned round."""
        return Network(self.name, self.nodes, self.dst, self.src, self.latency_ps, self.byte_ps)

    def link_name(self, link: int) -> str:
        """Both ends of a link: ``nyc→lon``."""
        return f"{self.nodes[self.src[link]].name}→{self.nodes[self.dst[link]].name}"


@dataclass(frozen=True)
class LinkSpec:
    """A directed link as users state it.

    Attributes
    ----------
    src, dst
        Node numbers.
    latency_us
        Microseconds, not negative.
    bytes_per_us
        Rate, above 0. 1 GB/s is 1000.
    where
        Where it was read, put before a message about it.
    """

    src: int
    dst: int
    latency_us: float
    bytes_per_us: float
    where: str = ""


def make_network(name: str, nodes: Sequence[Node], links: Sequence[LinkSpec]) -> Network:
    """Check the parts of a network and put them together.

    Raises
    ------
    InputError
        Fewer than two workers, a name that appears twice, a link that joins a node to
        itself or to nothing, a rate that is not above 0, a negative latency, or a graph
        in which not every node reaches every other one.
    """
    if sum(node.worker for node in nodes) < 2:
        raise InputError(f"{name}: a collective needs at least 2 workers")
    names = [node.name for node in nodes]
    if len(set(names)) < len(names):
        twice = next(n for i, n in enumerate(names) if n in names[:i])
        raise InputError(f'{name}: node "{twice}" appears twice')
    for link in links:
        _check_link(link, nodes)
    network = Network(
        name=name,
        nodes=tuple(nodes),
        src=np.array([link.src for link in links], dtype=np.int64),
        dst=np.array([link.dst for link in links], dtype=np.int64),
        latency_ps=np.array([round(link.latency_us * PS_PER_US) for link in links], np.int64),
        byte_ps=np.array([PS_PER_US / link.bytes_per_us for link in links], np.float64),
    )
    _check_connected(network)
    return network


def without_links(network: Network, links: Collection[int]) -> Network:
    """The network without some links; the others get new numbers.

    Raises
    ------
    InputError
        Not every node reaches every other one then.
    """
    kept = np.setdiff1d(np.arange(network.links), list(links))
    left = replace(
        network,
        src=network.src[kept],
        dst=network.dst[kept],
        latency_ps=network.latency_ps[kept],
        byte_ps=network.byte_ps[kept],
    )
    _check_connected(left)
    return left


def _check_link(link: LinkSpec, nodes: Sequence[Node]) -> None:
    where = f"{link.where}: " if link.where else ""
    for end in (link.src, link.dst):
        if not 0 <= end < len(nodes):
            raise InputError(f"{where}there is no node {end}; nodes are 0 to {len(nodes) - 1}")
    text = f"{where}link {nodes[link.src].name}→{nodes[link.dst].name}"
    if link.src == link.dst:
        raise InputError(f"{text} joins a node to itself")
    if not 0 < link.bytes_per_us < float("inf"):
        raise InputError(f"{text}: the bandwidth must be above 0, not {link.bytes_per_us:g}")
    if not 0 <= link.latency_us * PS_PER_US < _MAX_PS:
        raise InputError(f"{text}: the latency must not be negative, not {link.latency_us:g} µs")


def _check_connected(network: Network) -> None:
    count = len(network.nodes)
    graph = csr_array((np.ones(network.links), (network.src, network.dst)), shape=(count, count))
    parts, label = connected_components(graph, directed=True, connection="strong")
    if parts > 1:
        other = int(np.flatnonzero(label != label[0])[0])
        one, two = network.nodes[0].name, network.nodes[other].name
        raise InputError(
            f"{network.name}: not strongly connected: there is no way from {one} to {two} and "
            f"back; {parts} parts"
        )

"""Networks by formula: meshes, tori, hypercubes, dragonflies, switches, and our cities."""

from collections.abc import Iterable, Sequence
from itertools import product

from controller.collectives.csvfile import GIB_PER_S
from controller.collectives.network import LinkSpec, Network, Node, make_network
from testbed.errors import InputError
from testbed.topology import Topology

DEFAULT_LATENCY_US = 0.5
DEFAULT_RATE = 50 * GIB_PER_S
MAX_NODES = 65536


def grid(
    sides: Sequence[int],
    *,
    wrap: bool = False,
    latency_us: float = DEFAULT_LATENCY_US,
    bytes_per_us: Sequence[float] | float = DEFAULT_RATE,
) -> Network:
    """A mesh, or a torus if it wraps around; both directions between neighbours.

    Parameters
    ----------
    sides
        Nodes along each dimension, each at least 2. Where a side is 2, wrapping adds no link.
    wrap
        Whether it is a torus.
    latency_us
        Of every link.
    bytes_per_us
        Rate of all links, or one for each dimension.
    """
    _check_size(sides, "grid")
    rates = (
        list(bytes_per_us) if isinstance(bytes_per_us, Sequence) else [bytes_per_us] * len(sides)
    )
    if len(rates) != len(sides):
        raise InputError(f"{len(sides)} dimensions have {len(sides)} rates, not {len(rates)}")
    strides = [_product(sides[k + 1 :]) for k in range(len(sides))]
    links = []
    for place in product(*(range(side) for side in sides)):
        here = sum(x * stride for x, stride in zip(place, strides, strict=True))
        for k, side in enumerate(sides):
            inside = place[k] + 1 < side
            if inside or (wrap and side > 2):
                there = here + strides[k] * (1 if inside else 1 - side)
                links += _both(here, there, latency_us, rates[k])
    name = f"{'torus' if wrap else 'mesh'}-{'x'.join(map(str, sides))}"
    if len(set(rates)) > 1:
        name = f"hetero-{name}"
    return make_network(name, _workers(_product(sides)), links)


def hypercube(
    dimensions: int,
    *,
    latency_us: float = DEFAULT_LATENCY_US,
    bytes_per_us: float = DEFAULT_RATE,
) -> Network:
    """2^dimensions nodes, neighbours differ in one bit of their number."""
    if not 1 <= dimensions <= 16:
        raise InputError(f"a hypercube has 1 to 16 dimensions, not {dimensions}")
    count = 1 << dimensions
    links = [
        LinkSpec(node, node ^ (1 << bit), latency_us, bytes_per_us)
        for node in range(count)
        for bit in range(dimensions)
    ]
    return make_network(f"hypercube-{dimensions}", _workers(count), links)


def dragonfly(
    groups: int,
    size: int,
    *,
    latency_us: float = DEFAULT_LATENCY_US,
    bytes_per_us: float = DEFAULT_RATE,
    global_latency_us: float = DEFAULT_LATENCY_US,
    global_bytes_per_us: float = DEFAULT_RATE,
) -> Network:
    """Groups of directly joined nodes, one link between each two groups (Kim et al. 2008).

    The links to other groups go round the nodes of a group.
    """
    _check_size((groups, size), "dragonfly")
    nodes = [Node(f"g{g}n{i}", group=f"g{g}") for g in range(groups) for i in range(size)]
    links = []
    for g in range(groups):
        for i in range(size):
            for j in range(i + 1, size):
                links += _both(g * size + i, g * size + j, latency_us, bytes_per_us)
        for h in range(g + 1, groups):
            here = g * size + (h - 1) % size
            there = h * size + g % size
            links += _both(here, there, global_latency_us, global_bytes_per_us)
    return make_network(f"dragonfly-{groups}x{size}", nodes, links)


def star(
    workers: int,
    *,
    multicast: bool = False,
    aggregates: bool = False,
    latency_us: float = DEFAULT_LATENCY_US,
    bytes_per_us: float = DEFAULT_RATE,
) -> Network:
    """Workers on one switch, which may copy streams, add them up, or both."""
    if not 2 <= workers <= MAX_NODES:
        raise InputError(f"a switch has 2 to {MAX_NODES} workers, not {workers}")
    hub = Node("switch", worker=False, multicast=multicast, aggregates=aggregates)
    links = []
    for worker in range(workers):
        links += _both(worker, workers, latency_us, bytes_per_us)
    return make_network(f"switch-{workers}", [*_workers(workers), hub], links)


def cities(topology: Topology, *, multicast: bool = False, aggregates: bool = False) -> Network:
    """A testbed topology: an island and a switch per city, joined by the access link.

    Parameters
    ----------
    topology
        Cities and wide-area links.
    multicast, aggregates
        What every city's switch, with its edge device, can do.
    """
    count = len(topology.cities)
    islands = [Node(city.code, group=city.region) for city in topology.cities]
    switches = [
        Node(f"{c.code}-switch", False, multicast, aggregates, group=c.region)
        for c in topology.cities
    ]
    links = []
    for i, city in enumerate(topology.cities):
        links += _both(i, count + i, 0.0, _gbps(city.access_rate_gbps))
    for edge in topology.edges:
        src, dst = count + topology.index(edge.src), count + topology.index(edge.dst)
        links.append(LinkSpec(src, dst, edge.delay_ms * 1e3, _gbps(edge.rate_gbps)))
    return make_network(topology.name, [*islands, *switches], links)


def first_edge_link(topology: Topology) -> int:
    """The link of `cities` that is edge 0 of a topology; the others follow in order."""
    return 2 * len(topology.cities)


def _gbps(rate_gbps: float) -> float:
    return rate_gbps * 125.0


def _both(a: int, b: int, latency_us: float, bytes_per_us: float) -> list[LinkSpec]:
    return [LinkSpec(a, b, latency_us, bytes_per_us), LinkSpec(b, a, latency_us, bytes_per_us)]


def _workers(count: int) -> list[Node]:
    return [Node(str(i)) for i in range(count)]


def _product(sides: Iterable[int]) -> int:
    result = 1
    for side in sides:
        result *= side
    return result


def _check_size(sides: Sequence[int], what: str) -> None:
    if not sides or min(sides) < 2 or _product(sides) > MAX_NODES:
        text = "x".join(map(str, sides))
        raise InputError(
            f"a {what} has sides of 2 or more and at most {MAX_NODES} nodes, not {text}"
        )

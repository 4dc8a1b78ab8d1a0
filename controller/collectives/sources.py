"""A network by what a user writes: a file, the name of a testbed topology, or a formula."""

from dataclasses import dataclass
from pathlib import Path

from controller.collectives.csvfile import GIB_PER_S, read_csv_network
from controller.collectives.generators import (
    DEFAULT_RATE,
    cities,
    dragonfly,
    grid,
    hypercube,
    star,
)
from controller.collectives.graphml import read_graphml
from controller.collectives.network import Network
from testbed.errors import InputError, suggestion
from testbed.topology import built_in_topologies, load_topology

FORMULAS = ("mesh", "torus", "hypercube", "dragonfly", "switch")


@dataclass(frozen=True)
class Source:
    """A network, and what had to be assumed about it."""

    network: Network
    notes: tuple[str, ...] = ()


def load_network(text: str, *, multicast: bool = False, aggregation: bool = False) -> Source:
    """Find a network.

    Parameters
    ----------
    text
        A name or YAML file of a testbed topology, a ``.graphml`` or ``.csv`` file, or a formula:
        ``mesh:8x8``, ``torus:8x8x8``, ``hypercube:6``, ``dragonfly:5x4`` (groups × nodes),
        ``switch:8``; with rates in GiB/s after an ``@``, one, or one for each dimension:
        ``mesh:8x16@50,100``.
    multicast, aggregation
        Whether switches copy streams, and add them up.

    Raises
    ------
    InputError
        There is no such network, or its file is wrong.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in FORMULAS:
        return Source(_formula(text, kind, rest, multicast=multicast, aggregation=aggregation))
    path = Path(text)
    if path.suffix == ".csv":
        return Source(read_csv_network(path))
    if path.suffix == ".graphml":
        return Source(*read_graphml(path))
    if path.suffix not in (".yaml", ".yml") and text not in built_in_topologies():
        valid = [*built_in_topologies(), *(f"{name}:" for name in FORMULAS)]
        hint = suggestion(text, valid)
        raise InputError(f'unknown topology "{text}"; {hint} (or a .yaml, .graphml or .csv file)')
    topology = load_topology(text)
    return Source(cities(topology, multicast=multicast, aggregates=aggregation))


def _formula(text: str, kind: str, rest: str, *, multicast: bool, aggregation: bool) -> Network:
    sizes, at, speeds = rest.partition("@")
    try:
        sides = [int(side) for side in sizes.split("x")]
        rates = [float(rate) * GIB_PER_S for rate in speeds.split(",")] if at else [DEFAULT_RATE]
    except ValueError as error:
        raise InputError(f'topology "{text}": write sizes like 8x8, rates like @50,100') from error
    if any(not 0 < rate < float("inf") for rate in rates):
        raise InputError(f'topology "{text}": the bandwidth must be above 0')
    wanted = {"hypercube": 1, "switch": 1, "dragonfly": 2}.get(kind, len(sides))
    if len(sides) != wanted or len(rates) not in (1, len(sides)):
        raise InputError(f'topology "{text}": {kind} takes {wanted} sizes, and as many rates or 1')
    if kind == "hypercube":
        return hypercube(sides[0], bytes_per_us=rates[0])
    if kind == "switch":
        return star(sides[0], multicast=multicast, aggregates=aggregation, bytes_per_us=rates[0])
    if kind == "dragonfly":
        return dragonfly(*sides, bytes_per_us=rates[0], global_bytes_per_us=rates[-1])
    each = rates if len(rates) > 1 else rates[0]
    return grid(sides, wrap=kind == "torus", bytes_per_us=each)

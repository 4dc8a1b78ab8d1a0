from pathlib import Path

import numpy as np
import pytest

from controller.collectives.generators import cities, dragonfly, grid, hypercube, star
from controller.collectives.network import LinkSpec, Network, Node, make_network
from controller.collectives.sources import load_network
from testbed.errors import InputError
from testbed.topology import load_topology

PAIR = [Node("a"), Node("b")]
BOTH = [LinkSpec(0, 1, 1.0, 10.0), LinkSpec(1, 0, 1.0, 10.0)]


@pytest.mark.parametrize(
    ("network", "nodes", "links"),
    [
        (grid([8, 8]), 64, 2 * 2 * 7 * 8),
        (grid([8, 8], wrap=True), 64, 4 * 64),
        (grid([2, 3], wrap=True), 6, 2 * (3 + 6)),
        (grid([3, 4, 5]), 60, 2 * (2 * 20 + 3 * 15 + 4 * 12)),
        (hypercube(5), 32, 5 * 32),
        (dragonfly(5, 4), 20, 5 * 4 * 3 + 5 * 4),
        (star(8), 9, 16),
        (cities(load_topology("nine-cities")), 18, 2 * 9 + 2 * 13),
    ],
    ids=lambda value: value.name if isinstance(value, Network) else str(value),
)
def test_a_generated_network_has_its_size(network: Network, nodes: int, links: int) -> None:
    assert len(network.nodes) == nodes
    assert network.links == links


def test_each_dimension_has_its_rate() -> None:
    network = grid([2, 3], bytes_per_us=[10.0, 20.0])
    along_first = np.abs(network.dst - network.src) == 3
    assert set(network.bytes_per_us[along_first]) == {10.0}
    assert set(network.bytes_per_us[~along_first]) == {20.0}


def test_cities_are_islands_behind_switches() -> None:
    network = cities(load_topology("nine-cities"), multicast=True)
    assert len(network.workers) == 9
    assert network.switched
    assert all(node.multicast != node.worker for node in network.nodes)
    access = network.src < 9
    assert set(network.bytes_per_us[access]) == {12500.0}


@pytest.mark.parametrize(
    ("nodes", "links", "message"),
    [
        (PAIR[:1], [], "at least 2 workers"),
        ([Node("a"), Node("a")], BOTH, 'node "a" appears twice'),
        (PAIR, BOTH[:1], "there is no way from a to b and back"),
        (PAIR, [*BOTH, LinkSpec(0, 0, 1.0, 1.0)], "joins a node to itself"),
        (PAIR, [*BOTH, LinkSpec(0, 2, 1.0, 1.0)], "there is no node 2"),
        (PAIR, [LinkSpec(0, 1, 1.0, 0.0, "f:3")], "f:3: link a→b: the bandwidth must be above 0"),
        (PAIR, [LinkSpec(0, 1, 1.0, -5.0)], "the bandwidth must be above 0, not -5"),
        (PAIR, [LinkSpec(0, 1, 1.0, float("nan"))], "the bandwidth must be above 0"),
        (PAIR, [LinkSpec(0, 1, -1.0, 5.0)], "the latency must not be negative"),
    ],
)
def test_what_is_no_network_is_refused(
    nodes: list[Node], links: list[LinkSpec], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make_network("made", nodes, links)


@pytest.mark.parametrize(
    ("text", "name", "workers"),
    [
        ("nine-cities", "nine-cities", 9),
        ("mesh:4x4", "mesh-4x4", 16),
        ("torus:3x3x3", "torus-3x3x3", 27),
        ("mesh:2x4@50,100", "hetero-mesh-2x4", 8),
        ("hypercube:4", "hypercube-4", 16),
        ("dragonfly:3x2@50,10", "dragonfly-3x2", 6),
        ("switch:8", "switch-8", 8),
    ],
)
def test_a_network_is_found_by_its_text(text: str, name: str, workers: int) -> None:
    network = load_network(text).network
    assert network.name == name
    assert len(network.workers) == workers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nine-citie", 'did you mean "nine-cities"'),
        ("mesh:", "write sizes like 8x8"),
        ("mesh:1x4", "sides of 2 or more"),
        ("mesh:4x4@0", "the bandwidth must be above 0"),
        ("mesh:4x4@1,2,3", "as many rates or 1"),
        ("switch:8x8", "switch takes 1 sizes"),
        ("switch:1", "2 to 65536 workers"),
        ("hypercube:40", "1 to 16 dimensions"),
        ("mesh:1000x1000", "at most 65536 nodes"),
        ("missing.csv", "cannot read missing.csv"),
        ("missing.graphml", "cannot read missing.graphml"),
    ],
)
def test_a_text_that_is_no_network_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_network(text)


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text("2\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n0,1,500,50\n1,0,500,50\n")
    assert len(load_network(str(path)).network.workers) == 2

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from made_collectives import line, networks

from controller.collectives.bounds import find_bounds
from controller.collectives.cuts import crossing, least_cut, worst_gather
from controller.collectives.generators import cities, star
from controller.collectives.network import Network
from controller.collectives.task import make_task
from testbed.topology import load_topology


def sides(network: Network) -> list[np.ndarray]:
    """Every set of nodes with something inside and something outside."""
    count = len(network.nodes)
    found = []
    for size in range(1, count):
        for members in combinations(range(count), size):
            side = np.zeros(count, dtype=bool)
            side[list(members)] = True
            found.append(side)
    return found


@given(networks(most=6))
@settings(max_examples=60)
def test_the_cut_of_a_gather_is_the_worst_of_all_sets(network: Network) -> None:
    expected = max(side.sum() / crossing(network, side) for side in sides(network))
    assert worst_gather(network, network.workers) == pytest.approx(expected, rel=1e-6)


@given(networks(most=6))
@settings(max_examples=60)
def test_the_least_cut_is_the_least_of_all_sets(network: Network) -> None:
    expected = min(crossing(network, side) for side in sides(network) if side[0])
    assert least_cut(network, 0, network.workers) == pytest.approx(expected, rel=1e-6)


def test_ports_count_whole_chunks() -> None:
    network = line(3)
    # The ends take in 2 chunks of 100 bytes over one link: each 1 µs, the latency once or twice.
    task = make_task(network, "all-gather", 300)
    assert find_bounds(network, task, "pipelined").each_us["ports"] == pytest.approx(3.0)
    assert find_bounds(network, task, "occupancy").each_us["ports"] == pytest.approx(4.0)


def test_the_longest_shortest_path_is_a_bound() -> None:
    task = make_task(line(4, latency_us=100.0), "broadcast", 100)
    each = find_bounds(line(4, latency_us=100.0), task, "pipelined").each_us
    assert each["latency"] == pytest.approx(301.0)


def test_hosts_that_add_up_themselves_receive_everything_twice() -> None:
    task = make_task(star(8), "all-reduce", 8 * 10**6)
    plain = find_bounds(star(8), task, "pipelined")
    able = find_bounds(star(8, aggregates=True), task, "pipelined")
    assert plain.name == "host traffic"
    assert "host traffic" not in able.each_us
    assert plain.us / able.each_us["cut"] == pytest.approx(2 * 7 / 8)


def test_sites_are_a_bound_of_their_own() -> None:
    network = cities(load_topology("nine-cities"))
    each = find_bounds(network, make_task(network, "all-reduce", 10**9), "pipelined").each_us
    # 2 (G − 1) D over the five links between three regions, both ways.
    assert each["sites"] == pytest.approx(2 * 2 * 10**9 / (10 * 12500.0))


def test_an_all_to_all_fills_the_links_on_its_ways() -> None:
    network = line(3, latency_us=0.0)
    each = find_bounds(network, make_task(network, "all-to-all", 300), "pipelined").each_us
    # 4 pairs at one hop, 2 at two: 8 transmissions of 1 µs over 4 links.
    assert each["volume"] == pytest.approx(2.0)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_collectives import line, networks

from controller.collectives.check import check_schedule
from controller.collectives.classics import classic_names, classic_schedule
from controller.collectives.generators import cities, dragonfly, star
from controller.collectives.innetwork import (
    MULTICAST_AGGREGATION,
    PAPER,
    innetwork_names,
    innetwork_schedules,
)
from controller.collectives.network import Network
from controller.collectives.task import COLLECTIVES, make_task
from controller.collectives.trees import (
    Tree,
    balanced_tree,
    binomial_tree,
    direct_tree,
    group_tree,
    ring_tree,
    rooted_at,
)
from testbed.topology import load_topology

NINE = load_topology("nine-cities")


def is_tree(tree: Tree, root: int, members: list[int]) -> bool:
    reached = {root}
    for parent, child, _ in sorted(tree, key=lambda edge: edge[2]):
        if parent not in reached or child in reached:
            return False
        reached.add(child)
    return reached == set(members)


@given(st.integers(2, 40), st.data())
def test_every_algorithm_spans_its_members(count: int, data: st.DataObject) -> None:
    members = [7 * i for i in range(count)]
    root = data.draw(st.sampled_from(members))
    cut = data.draw(st.integers(1, count - 1))
    groups = [members[:cut], members[cut:]]
    turn = data.draw(st.integers(0, 9))
    assert is_tree(ring_tree(root, members, forward=turn % 2 == 0), root, members)
    assert is_tree(direct_tree(root, members), root, members)
    assert is_tree(binomial_tree(root, members), root, members)
    assert is_tree(group_tree(root, groups, turn), root, members)
    balanced = balanced_tree(members)
    assert is_tree(balanced, balanced[0][0], members)
    assert is_tree(rooted_at(balanced, root), root, members)


def test_halving_doubling_takes_a_step_per_bit() -> None:
    assert max(step for _, _, step in binomial_tree(0, range(16))) == 3
    assert max(step for _, _, step in binomial_tree(0, range(17))) == 4


def test_half_of_a_balanced_tree_are_leaves() -> None:
    inner = {parent for parent, _, _ in balanced_tree(range(15))}
    assert inner == {1, 3, 5, 7, 9, 11, 13}


@given(networks(), st.sampled_from(COLLECTIVES), st.integers(1, 3))
@settings(max_examples=60)
def test_every_classic_schedule_is_valid(network: Network, collective: str, split: int) -> None:
    parts = make_task(network, collective, 10_000).parts
    task = make_task(network, collective, 10_000, chunks=split * parts)
    for name in classic_names(network, task):
        for model in ("pipelined", "occupancy"):
            made = classic_schedule(network, task, model, name)  # type: ignore[arg-type]
            assert check_schedule(made) == [], name


def test_groups_make_a_hierarchy() -> None:
    network = dragonfly(3, 3)
    task = make_task(network, "all-reduce", 9_000)
    assert "hierarchical" in classic_names(network, task)
    assert "hierarchical" not in classic_names(line(4), make_task(line(4), "all-reduce", 400))
    made = classic_schedule(network, task, "pipelined", "hierarchical")
    assert check_schedule(made) == []
    # Two of nine workers' sums cross between groups for each chunk, and come back.
    group = np.array([node.group for node in network.nodes])
    across = group[made.routes.source[made.route]] != group[made.routes.target[made.route]]
    assert across.sum() == 9 * 4


@pytest.mark.parametrize("multicast", [True, False])
@pytest.mark.parametrize("aggregates", [True, False])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_what_the_network_does_is_valid(multicast: bool, aggregates: bool, collective: str) -> None:
    for network in (
        star(5, multicast=multicast, aggregates=aggregates),
        cities(NINE, multicast=multicast, aggregates=aggregates),
    ):
        parts = make_task(network, collective, 10**6).parts
        task = make_task(network, collective, 10**6, chunks=2 * parts)
        names = innetwork_names(network, task)
        assert not names or multicast or aggregates
        for name in names:
            for made in innetwork_schedules(network, task, "pipelined", name):
                assert check_schedule(made) == []


def test_a_switch_that_copies_and_adds_meets_the_cut() -> None:
    network = star(8, multicast=True, aggregates=True)
    task = make_task(network, "all-reduce", 1 << 30)
    made = innetwork_schedules(network, task, "pipelined", MULTICAST_AGGREGATION)
    best = min(made, key=lambda schedule: schedule.time_ps)
    hosts = classic_schedule(star(8), task, "pipelined", "halving-doubling")
    assert hosts.time_us > 1.7 * best.time_us
    # Everything once up and once down, and the way through the switch.
    assert best.time_us == pytest.approx(20_000 + 1.0)


def test_in_the_papers_all_to_all_edges_hand_over_one_sum() -> None:
    network = cities(NINE, multicast=True, aggregates=True)
    task = make_task(network, "all-reduce", 9_000)
    assert PAPER in innetwork_names(network, task)
    for made in innetwork_schedules(network, task, "pipelined", PAPER):
        link, _, _, _ = made.occupied
        down = np.isin(network.dst[link], network.workers)
        up = np.isin(network.src[link], network.workers)
        assert down.sum() == up.sum() == 9 * task.chunks


@pytest.mark.parametrize("chunks", [9, 72])
def test_nobody_takes_a_sum_in_before_its_own_part_has_left(chunks: int) -> None:
    # With long streams the nearest workers' sums are ready before the last ones have sent.
    network = cities(NINE, multicast=True, aggregates=True)
    task = make_task(network, "all-reduce", 1_790_000_000, chunks=chunks)
    for made in innetwork_schedules(network, task, "pipelined", PAPER):
        assert check_schedule(made) == []

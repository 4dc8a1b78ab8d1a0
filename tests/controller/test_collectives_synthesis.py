from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_collectives import line, networks

from controller.collectives.bounds import find_bounds
from controller.collectives.check import check_schedule
from controller.collectives.gathering import gather_schedule
from controller.collectives.generators import GIB_PER_S, cities, grid, hypercube, star
from controller.collectives.network import LinkSpec, Network, make_network
from controller.collectives.reducing import STYLES, Style, joint_schedule
from controller.collectives.routes import link_routes
from controller.collectives.schedule import Model, Schedule
from controller.collectives.switched import synthesise_switched
from controller.collectives.synthesis import Effort, synthesise
from controller.collectives.task import COLLECTIVES, make_task
from controller.collectives.transfers import retimed
from testbed.topology import load_topology

GIB = 1 << 30
HETERO = [50 * GIB_PER_S, 100 * GIB_PER_S]
NINE = cities(load_topology("nine-cities"))


@pytest.mark.parametrize(
    ("network", "published_us"),
    [
        (grid([4, 4]), None),
        (grid([8, 8]), 10016),
        (grid([8, 8], wrap=True), None),
        (grid([8, 16], bytes_per_us=HETERO), 6683.125),
        (grid([16, 16], wrap=True), None),
        (grid([8, 8, 8], wrap=True), 3402.375),
        (hypercube(6), None),
    ],
    ids=lambda value: value.name if isinstance(value, Network) else "",
)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter"])
def test_gather_and_scatter_take_the_least_time(
    network: Network, published_us: float | None, collective: str
) -> None:
    found = synthesise(network, make_task(network, collective, GIB), "occupancy", Effort())
    assert found.schedule.time_us == found.bounds.us
    if published_us:
        assert found.schedule.time_us == published_us
    if collective == "all-gather":
        assert check_schedule(found.schedule) == []


@given(
    networks(),
    st.sampled_from(COLLECTIVES),
    st.sampled_from(["pipelined", "occupancy"]),
    st.integers(1, 5),
)
@settings(max_examples=150)
def test_every_schedule_is_valid_and_above_its_bounds(
    network: Network, collective: str, model: Model, split: int
) -> None:
    task = make_task(network, collective, 10_000)
    task = make_task(network, collective, 10_000, chunks=split * task.parts)
    found = synthesise(network, task, model, Effort(attempts=8))
    assert check_schedule(found.schedule) == []
    assert found.over_bound >= 1 - 1e-9


@given(networks(), st.sampled_from(STYLES), st.integers(0, 1000))
@settings(max_examples=60)
def test_every_style_of_all_reduce_is_valid(network: Network, style: Style, seed: int) -> None:
    task = make_task(network, "all-reduce", 9_000, chunks=2 * len(network.workers))
    made = joint_schedule(network, link_routes(network), task, "pipelined", style=style, seed=seed)
    assert made is not None
    assert check_schedule(made) == []
    assert made.sends == 2 * task.chunks * (len(network.workers) - 1)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("model", ["pipelined", "occupancy"])
@pytest.mark.parametrize("network", [star(5), NINE], ids=["switch", "cities"])
def test_schedules_over_switches_share_their_links(
    network: Network, collective: str, model: Model
) -> None:
    task = make_task(network, collective, 10**6)
    found = synthesise_switched(network, task, model, Effort(attempts=12))
    assert check_schedule(found.schedule) == []
    assert found.over_bound >= 1 - 1e-9


def same(a: Schedule, b: Schedule) -> bool:
    return all(
        np.array_equal(x, y)
        for x, y in ((a.route, b.route), (a.chunk, b.chunk), (a.start_ps, b.start_ps))
    )


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_seed_gives_one_schedule(collective: str) -> None:
    network = grid([3, 3])
    task = make_task(network, collective, 10**6)

    def make(seed: int) -> Schedule:
        return synthesise(network, task, "pipelined", Effort(seed=seed, attempts=4)).schedule

    assert same(make(5), make(5))
    assert not same(make(5), make(6))


@pytest.mark.parametrize("sides", [[8, 8], [16, 16]])
@pytest.mark.parametrize("rates", [HETERO[:1] * 2, HETERO], ids=["equal", "hetero"])
def test_one_network_for_both_halves_beats_one_after_the_other(
    sides: list[int], rates: list[float]
) -> None:
    network = grid(sides, bytes_per_us=rates)
    gathered = synthesise(network, make_task(network, "all-gather", GIB), "occupancy", Effort())
    task = make_task(network, "all-reduce", GIB, chunks=8 * len(network.workers))
    reduced = synthesise(network, task, "occupancy", Effort(attempts=2))
    assert 2 * gathered.schedule.time_us >= 1.4 * reduced.schedule.time_us


def test_a_link_is_free_while_its_chunk_is_under_way() -> None:
    base = grid([4, 4])
    ends = zip(base.src.tolist(), base.dst.tolist(), strict=True)
    network = make_network("wan", base.nodes, [LinkSpec(a, b, 50e3, 12500.0) for a, b in ends])
    task = make_task(network, "all-gather", 10**9, chunks=32)
    free = synthesise(network, task, "pipelined", Effort()).schedule
    held = synthesise(network, task, "occupancy", Effort()).schedule
    assert check_schedule(replace(held, model="pipelined")) == []
    assert check_schedule(replace(free, model="occupancy"))
    assert held.time_us > 1.4 * free.time_us
    freed = retimed(held, "pipelined")
    assert check_schedule(freed) == []
    assert free.time_us <= freed.time_us < held.time_us


def test_a_deadline_that_cannot_be_met_gives_nothing() -> None:
    network = line(4)
    task = make_task(network, "all-gather", 400)
    bound_us = find_bounds(network, task, "pipelined").us
    routes = link_routes(network)
    early = round(bound_us * 1e6) - 1
    assert gather_schedule(network, routes, task, "pipelined", deadline_ps=early) is None
    assert gather_schedule(network, routes, task, "pipelined") is not None


def test_a_search_without_time_still_ends_with_a_schedule() -> None:
    network = line(4)
    task = make_task(network, "all-reduce", 400)
    found = synthesise(network, task, "pipelined", Effort(budget_s=0.0))
    assert found.attempts == 1
    assert check_schedule(found.schedule) == []

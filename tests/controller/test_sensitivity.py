"""The dual view agrees with finite differences of T."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES, indices, networks, rounds_of

from controller.demand import Demand
from controller.multicast import Tree, make_tree, shortest_path_trees
from controller.schedule import load_schedule
from controller.sensitivity import sensitivity
from controller.timing import time_demand
from testbed.routing import route
from testbed.topology import Topology

STEP = 1e-3


def changed(
    topology: Topology, edge: int, *, delay_ms: float = 0, rate_gbps: float = 0
) -> Topology:
    """The network with one edge slower; a capacity changes in both directions."""
    links = list(topology.links)
    link = links[edge // 2]
    key = "delay_back_ms" if edge % 2 else "delay_ms"
    update = {key: getattr(link, key) + delay_ms, "rate_gbps": link.rate_gbps + rate_gbps}
    links[edge // 2] = link.model_copy(update=update)
    return Topology(name="changed", cities=topology.cities, links=tuple(links))


def t_ms(topology: Topology, trees: tuple[Tree, ...], demand: Demand) -> float:
    again = tuple(make_tree(topology, t.sender, t.clique, t.paths) for t in trees)
    found = time_demand(topology, again, demand)
    return float("inf") if found.shortfall else found.t_ms


def assert_between(value: float, down: float, up: float, slack: float) -> None:
    assert min(down, up) - slack <= value <= max(down, up) + slack


def check_all(topology: Topology, trees: tuple[Tree, ...], demand: Demand, slack: float) -> None:
    timing = time_demand(topology, trees, demand)
    if timing.shortfall is not None:
        return
    found = sensitivity(topology, trees, demand, timing)
    used = sorted({edge for tree in trees for edge in tree.edges})
    for edge in used:
        steps = [
            (t_ms(changed(topology, edge, delay_ms=s), trees, demand) - timing.t_ms) / s
            for s in (-STEP, STEP)
            if topology.edges[edge].delay_ms + s >= 0
        ]
        if len(steps) == 2 and demand.memory_bytes > 0:
            assert_between(found.delay.get(edge, 0.0), *steps, slack)
    for edge in {edge & ~1 for edge in used}:
        both = found.capacity.get(edge, 0.0) + found.capacity.get(edge + 1, 0.0)
        steps = [
            (t_ms(changed(topology, edge, rate_gbps=s), trees, demand) - timing.t_ms) / s
            for s in (-STEP, STEP)
        ]
        assert_between(both, *steps, slack * 10)
    step_gb = demand.memory_bytes / 1e9 * 1e-4
    if step_gb:
        steps = []
        for s in (-step_gb, step_gb):
            other = Demand(**{**vars(demand), "memory_bytes": demand.memory_bytes + s * 1e9})
            steps.append((t_ms(topology, trees, other) - timing.t_ms) / s)
        assert_between(sum(found.memory.values()), *steps, slack * 10 + 2e-3 * abs(min(steps)))


@pytest.mark.parametrize("name", ["triangles", "all-to-all", "regional"])
@pytest.mark.parametrize("memory_bytes", [0.1e9, 32e9])
@pytest.mark.parametrize("model", ["accumulate", "hold"])
def test_marginals_are_finite_differences(name: str, memory_bytes: float, model: str) -> None:
    trees = shortest_path_trees(route(NINE), indices(load_schedule(name, NINE).rounds[-1]))
    check_all(NINE, trees, Demand(PAYLOAD_BYTES, memory_bytes, memory_model=model), 1e-2)


def test_what_would_shorten_the_triangles() -> None:
    """With memory: FRA–SIN–TYO is the longest way, NYC–LON carries three streams."""
    trees = shortest_path_trees(route(NINE), indices(load_schedule("triangles", NINE).rounds[1]))
    demand = Demand(PAYLOAD_BYTES, 32e9)
    found = sensitivity(NINE, trees, demand, time_demand(NINE, trees, demand))
    by_name = {(NINE.edges[e].src, NINE.edges[e].dst): v for e, v in found.capacity.items()}
    # d(3 P / C) / dC = −3 · 143.2 / 100.
    assert sum(by_name.values()) == pytest.approx(-4.296)
    assert set(by_name) <= {("nyc", "lon"), ("lon", "nyc")} | {
        (e.src, e.dst) for e in NINE.edges if "sin" in (e.src, e.dst)
    } | {("chi", "nyc"), ("nyc", "chi"), ("lon", "fra"), ("fra", "lon")}
    assert sum(found.delay.values()) >= 2 - 1e-6  # two edges of 1 ms per ms
    assert found.memory == {}


def test_rates_of_their_own_have_marginals_too() -> None:
    trees = shortest_path_trees(route(NINE), indices(load_schedule("triangles", NINE).rounds[1]))
    demand = Demand(PAYLOAD_BYTES, 32e9, rates="per-stream")
    timing = time_demand(NINE, trees, demand)
    found = sensitivity(NINE, trees, demand, timing)
    step = 5.0
    for edge in (e & ~1 for e in found.capacity):
        both = found.capacity.get(edge, 0.0) + found.capacity.get(edge + 1, 0.0)
        up = (t_ms(changed(NINE, edge, rate_gbps=step), trees, demand) - timing.t_ms) / step
        down = (t_ms(changed(NINE, edge, rate_gbps=-step), trees, demand) - timing.t_ms) / -step
        assert down * 1.1 - 0.05 <= both <= up * 0.9 + 0.05


@settings(max_examples=25)
@given(data=st.data())
def test_marginals_of_drawn_rounds(data: st.DataObject) -> None:
    topology = data.draw(networks(most=5))
    cliques = [
        [topology.index(code) for code in clique] for clique in data.draw(rounds_of(topology.codes))
    ]
    share = data.draw(st.sampled_from([0.2, 0.6, 3.0]))
    trees = shortest_path_trees(route(topology), cliques)
    check_all(topology, trees, Demand(2e8, share * 2e8), 0.02)


def test_a_round_that_is_not_feasible_has_none() -> None:
    trees = shortest_path_trees(route(NINE), [list(range(9))])
    demand = Demand(PAYLOAD_BYTES, 0.0)
    with pytest.raises(ValueError, match="not feasible"):
        sensitivity(NINE, trees, demand, time_demand(NINE, trees, demand))

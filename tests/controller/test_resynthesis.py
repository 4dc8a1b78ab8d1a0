"""Schedules that take over from interrupted ones: states, covers, sums, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made_collectives import line, networks

from controller.collectives.check import check_schedule, check_start
from controller.collectives.choose import choose
from controller.collectives.covers import cover
from controller.collectives.generators import cities
from controller.collectives.hosts import ALL_REDUCE, host_plan, schedule_of
from controller.collectives.interruption import Break, Interruption, State, interrupted
from controller.collectives.network import Network, without_links
from controller.collectives.resynthesis import changed, resynthesise
from controller.collectives.schedule import Schedule
from controller.collectives.synthesis import Effort
from controller.collectives.task import make_task
from controller.hostplan import HOLD, NOTHING, OWN, WITH_OWN
from testbed.errors import InputError
from testbed.topology import City, Link, Topology, load_topology

ALGORITHMS = ("synthesised", "ring", "halving-doubling", "direct", "parameter-server")
EFFORT = Effort(attempts=4)


@st.composite
def ringed(draw: st.DrawFn) -> Topology:
    """Cities in a ring with further links: any one link may fail."""
    count = draw(st.integers(3, 6))
    ends = {(i, (i + 1) % count) for i in range(count)}
    ends = {(min(pair), max(pair)) for pair in ends}
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    ends |= set(draw(st.lists(st.sampled_from(pairs), max_size=3)))
    return Topology(
        name="drawn",
        cities=tuple(City(code=f"c{i}", name="C", region="r", lat=0, lon=0) for i in range(count)),
        links=tuple(
            Link(
                a=f"c{a}",
                b=f"c{b}",
                delay_ms=draw(st.integers(0, 30)),
                delay_back_ms=draw(st.integers(0, 30)),
                rate_gbps=draw(st.sampled_from([10, 40, 100])),
            )
            for a, b in sorted(ends)
        ),
    )


def made(network: Network, algorithm: str, split: int) -> Schedule:
    task = make_task(network, ALL_REDUCE, 20_000_000)
    chunks = split * len(task.workers)
    return choose(
        network, task, "pipelined", algorithm=algorithm, chunks=chunks, effort=Effort(attempts=2)
    ).best.schedule


def event_at(schedule: Schedule, links: frozenset[int], at: float, delay: float) -> Interruption:
    at_ps = round(schedule.time_ps * at)
    moment = at_ps + round(schedule.time_ps * delay)
    return Interruption((Break(links, at_ps),), moment, moment)


class Numbers:
    """Every node's numbers, moved as a schedule says, without any sets of contributions."""

    def __init__(self, schedule: Schedule) -> None:
        rng = np.random.default_rng(5)
        task, nodes = schedule.task, len(schedule.network.nodes)
        self.own = np.zeros((nodes, task.chunks), dtype=np.int64)
        self.own[list(task.workers)] = rng.integers(1, 1 << 40, (len(task.workers), task.chunks))
        self.value = self.own.copy()
        self.flying: dict[int, np.int64] = {}

    def run(self, schedule: Schedule, until_ps: int, dropped: frozenset[int]) -> None:
        """Play what begins before a time, but for what is dropped, as hosts do.

        A chunk of which something is missing takes nothing further in.
        """
        blocked: set[tuple[int, int]] = set()
        for when, leaves, position in schedule.moments:
            transfer = schedule.transfers[position]
            place = transfer.target, transfer.chunk
            if transfer.transfer in dropped:
                blocked |= set() if leaves else {place}
            elif leaves:
                if when < until_ps:
                    self.flying[transfer.transfer] = self.value[transfer.source, transfer.chunk]
            elif transfer.transfer in self.flying and when <= until_ps and place not in blocked:
                self._land(transfer)

    def begin(self, schedule: Schedule) -> None:
        """Take a schedule over: begin chunks with what it says, forget other flights."""
        assert schedule.start is not None
        for node, origins in enumerate(schedule.start.origin):
            for chunk, origin in enumerate(origins):
                had, own = self.value[node, chunk], self.own[node, chunk]
                self.value[node, chunk] = {HOLD: had, OWN: own, NOTHING: 0, WITH_OWN: had + own}[
                    origin
                ]
        kept = {flight.transfer for flight in schedule.start.flights}
        self.flying = {number: v for number, v in self.flying.items() if number in kept}

    def exact(self, schedule: Schedule) -> bool:
        """Whether every worker holds the true sums."""
        true = self.own.sum(axis=0)
        return bool((self.value[list(schedule.task.workers)] == true).all())

    def _land(self, transfer: Any) -> None:
        came = self.flying.pop(transfer.transfer)
        before = self.value[transfer.target, transfer.chunk] if transfer.adds else 0
        self.value[transfer.target, transfer.chunk] = before + came


FOREVER = 1 << 62


@given(
    topology=ringed(),
    algorithm=st.sampled_from(ALGORITHMS),
    split=st.integers(1, 3),
    at=st.floats(0, 1),
    delay=st.floats(0, 0.4),
    data=st.data(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_fails_whenever_the_sums_come_out_exactly(
    topology: Topology, algorithm: str, split: int, at: float, delay: float, data: st.DataObject
) -> None:
    network = cities(topology)
    schedule = made(network, algorithm, split)
    numbers = Numbers(schedule)
    rates: dict[int, float] = {}
    links = [2 * len(topology.cities) + edge.index for edge in topology.edges]
    for turn in range(2):
        failing = data.draw(st.sampled_from(range(0, len(links), 2)))
        cut = frozenset(links[failing : failing + 2])
        rates |= dict.fromkeys(cut, data.draw(st.sampled_from([0.0, 500.0])))
        try:
            left = changed(network, rates)
        except InputError:
            assume(False)
        event = event_at(schedule, cut, at, delay)
        found = resynthesise(schedule, left, event, replace(EFFORT, seed=turn + 1))
        assert found.faults == ()
        assert found.state == interrupted(schedule, event)
        numbers.run(schedule, event.until_ps, found.state.dropped)
        numbers.begin(found.schedule)
        used = found.schedule.occupied[0]
        assert not any(rates.get(link) == 0 for link in used.tolist())
        schedule = found.schedule
    numbers.run(schedule, FOREVER, frozenset())
    assert numbers.exact(schedule)


@given(
    network=networks(),
    at=st.floats(0, 1),
    delay=st.floats(0, 0.3),
    split=st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_networks_of_workers_alone_are_taken_over_too(
    network: Network, at: float, delay: float, split: int, data: st.DataObject
) -> None:
    schedule = made(network, "synthesised", split)
    cut = frozenset({data.draw(st.integers(0, network.links - 1))})
    try:
        left = changed(network, dict.fromkeys(cut, 0.0))
    except InputError:
        assume(False)
    event = event_at(schedule, cut, at, delay)
    found = resynthesise(schedule, left, event, EFFORT)
    assert found.faults == ()
    numbers = Numbers(schedule)
    numbers.run(schedule, event.until_ps, found.state.dropped)
    numbers.begin(found.schedule)
    numbers.run(found.schedule, FOREVER, frozenset())
    assert numbers.exact(schedule)


@given(workers=st.integers(2, 9), data=st.data())
def test_a_cover_has_every_contribution_once(workers: int, data: st.DataObject) -> None:
    everyone = (1 << workers) - 1
    values = data.draw(
        st.lists(st.integers(0, everyone), min_size=workers, max_size=workers), label="values"
    )
    found = cover(values)
    assert found.final == (everyone in values)
    if found.final:
        assert all(part in (0, everyone) for part in found.parts)
        assert [part != 0 for part in found.parts] == [value == everyone for value in values]
        return
    total = 0
    for worker, (part, origin, value) in enumerate(
        zip(found.parts, found.origin, values, strict=True)
    ):
        assert not total & part
        total |= part
        own = 1 << worker
        assert part == {HOLD: value, OWN: own, NOTHING: 0, WITH_OWN: value | own}[origin]
        assert origin != WITH_OWN or not value & own
    assert total == everyone


def test_nested_sums_are_covered_by_the_outermost_ones() -> None:
    # 0 ← 1 ← 2, and 3 alone: who passed its sum on still holds it.
    found = cover([0b0111, 0b0110, 0b0100, 0b1000])
    assert found.parts == (0b0111, 0, 0, 0b1000)
    assert found.origin == HOLD + NOTHING + NOTHING + HOLD


def test_nothing_is_sent_again_when_all_had_arrived() -> None:
    network = cities(load_topology("nine-cities"))
    schedule = made(network, "ring", 1)
    event = event_at(schedule, frozenset(), 1.1, 0.0)
    found = resynthesise(schedule, network, event, EFFORT)
    assert found.schedule.sends == 0
    assert found.state.left == ()
    assert found.state.final == schedule.task.chunks


def test_a_failure_before_the_start_leaves_a_whole_all_reduce() -> None:
    network = cities(load_topology("nine-cities"))
    schedule = made(network, "synthesised", 2)
    event = event_at(schedule, frozenset(), 0.0, 0.0)
    found = resynthesise(schedule, network, event, EFFORT)
    assert len(found.state.left) == schedule.sends
    assert found.schedule.time_ps <= schedule.time_ps * 1.5
    assert not found.state.arrived


def test_what_had_entered_a_link_still_arrives() -> None:
    network = line(2, latency_us=10_000.0)
    schedule = made(network, "synthesised", 1)
    begin = int(schedule.start_ps.min())
    on_link = int((schedule.duration_ps[schedule.start_ps == begin]).max())
    links = frozenset(range(network.links))
    late = begin + on_link + 2 * 200_000_000
    state = interrupted(schedule, Interruption((Break(links, late),), late, late))
    assert len(state.flights) == 2
    early = begin + on_link // 2
    state = interrupted(schedule, Interruption((Break(links, early),), early, early))
    assert not state.flights
    assert len(state.left) == schedule.sends


def test_who_is_cut_off_is_named() -> None:
    network = line(3)
    with pytest.raises(InputError, match="n0 and n2 are apart"):
        changed(network, {2: 0.0, 3: 0.0})
    with pytest.raises(InputError, match="not strongly connected"):
        without_links(network, {2, 3})


def test_links_keep_their_numbers_and_get_other_rates_and_latencies() -> None:
    network = line(3)
    other = changed(network, {1: 50.0}, {0: 7})
    assert other.bytes_per_us.tolist() == [100, 50, 100, 100]
    assert other.latency_ps.tolist() == [7, 1_000_000, 1_000_000, 1_000_000]


def test_only_an_all_reduce_is_taken_over() -> None:
    network = line(3)
    task = make_task(network, "all-gather", 3000)
    schedule = choose(network, task, "pipelined", algorithm="synthesised", chunks=3).best.schedule
    with pytest.raises(InputError, match="not all-gather"):
        resynthesise(schedule, network, Interruption((), 0, 0), EFFORT)


@pytest.fixture(scope="module")
def taken() -> tuple[Schedule, State]:
    network = cities(load_topology("nine-cities"))
    schedule = made(network, "synthesised", 4)
    event = event_at(schedule, frozenset({18, 19}), 0.3, 0.05)
    found = resynthesise(schedule, changed(network, {18: 0.0, 19: 0.0}), event, EFFORT)
    assert found.faults == ()
    return found.schedule, found.state


def test_the_checker_refuses_what_was_not_held(taken: tuple[Schedule, State]) -> None:
    schedule, state = taken
    start = schedule.start
    assert start is not None
    held = [list(row) for row in state.held]
    node, chunk = next(
        (n, c) for n, row in enumerate(start.origin) for c, o in enumerate(row) if o == HOLD
    )
    held[node][chunk] ^= 1
    assert check_start(start, held, schedule.task.workers)
    assert not check_start(start, state.held, schedule.task.workers)


def test_the_checker_follows_what_a_start_says(taken: tuple[Schedule, State]) -> None:
    schedule, _ = taken
    start = schedule.start
    assert start is not None
    empty = replace(start, held=tuple((0,) * len(row) for row in start.held))
    assert check_schedule(replace(schedule, start=empty))
    flight = start.flights[-1]
    assert check_schedule(replace(schedule, start=replace(start, flights=())))
    _, begin, end, _ = schedule.occupied
    link = schedule.occupied[0][0]
    clash = replace(flight, hops=((int(link), int(begin[0]), int(end[0])),))
    busy = replace(start, flights=(*start.flights[:-1], clash))
    assert any(
        "carries two chunks" in fault for fault in check_schedule(replace(schedule, start=busy))
    )


def test_hosts_steps_hold_a_whole_schedule() -> None:
    topology = load_topology("nine-cities")
    network = cities(topology)
    schedule = made(network, "ring", 1)
    hosts = host_plan(schedule, topology, bound_us=1e5, bound="test", release="planned")
    back = schedule_of(hosts, topology, network)
    assert back.task == schedule.task
    assert back.start_ps.tolist() == schedule.start_ps.tolist()
    assert back.arrival_ps.tolist() == schedule.arrival_ps.tolist()
    assert back.chunk.tolist() == schedule.chunk.tolist()
    assert back.adds.tolist() == schedule.adds.tolist()
    assert not check_schedule(back)


def test_paths_of_the_former_plan_keep_their_numbers_and_tags() -> None:
    topology = load_topology("nine-cities")
    network = cities(topology)
    schedule = made(network, "synthesised", 2)
    before = host_plan(schedule, topology, bound_us=1e5, bound="test", release="planned")
    event = event_at(schedule, frozenset({18, 19}), 0.4, 0.05)
    found = resynthesise(schedule, changed(network, {18: 0.0, 19: 0.0}), event, EFFORT)
    after = host_plan(
        found.schedule, topology, bound_us=1e5, bound="test", release="planned", former=before
    )
    assert after.paths[: len(before.paths)] == before.paths
    assert len({(p.src, p.dst, p.tag) for p in after.paths}) == len(after.paths)
    sends = {s.transfer: s for steps in after.steps for s in steps if s.kind == "send"}
    assert all(transfer >= schedule.sends for transfer in sends)
    assert not {0, 1} & {edge for s in sends.values() for edge in after.paths[s.path].edges}
    comes = {s.transfer for steps in after.steps for s in steps if s.kind != "send"}
    assert comes - set(sends) == {flight.transfer for flight in found.schedule.start.flights}
    assert [len(origin) for origin in after.origins] == [after.chunks] * 9

"""The checker passes what is valid and names each planted fault."""

from dataclasses import replace

import numpy as np
import pytest
from made_collectives import line

from controller.collectives.check import check_schedule
from controller.collectives.classics import classic_schedule
from controller.collectives.generators import star
from controller.collectives.network import Network
from controller.collectives.routes import Way, collect, link_routes, path_way
from controller.collectives.schedule import Schedule
from controller.collectives.task import make_task

LINE = line(3)  # links 0: n0→n1, 1: n1→n0, 2: n1→n2, 3: n2→n1
US = 10**6


def made(
    collective: str, sends: list[tuple[int, int, float, bool]], network: Network = LINE
) -> Schedule:
    """A schedule of 300 bytes on links of 1 µs and 1 µs per chunk of 100 bytes."""
    table = np.array(sends, dtype=np.float64)
    return Schedule(
        network,
        make_task(network, collective, 300),
        "pipelined",
        "made",
        link_routes(network),
        table[:, 0].astype(np.int64),
        table[:, 1].astype(np.int64),
        (table[:, 2] * US).astype(np.int64),
        table[:, 3].astype(np.bool_),
    )


GATHER = [
    (0, 0, 0, False),
    (1, 1, 0, False),
    (2, 1, 0, False),
    (3, 2, 0, False),
    (1, 2, 2, False),
    (2, 0, 2, False),
]
SCATTER = [
    (0, 2, 0, True),
    (2, 2, 2, True),
    (3, 0, 0, True),
    (1, 0, 2, True),
    (0, 1, 1, True),
    (3, 1, 1, True),
]


def changed(
    sends: list[tuple[int, int, float, bool]], index: int, send: tuple[int, int, float, bool]
) -> list[tuple[int, int, float, bool]]:
    return [*sends[:index], send, *sends[index + 1 :]]


def test_valid_schedules_pass() -> None:
    assert check_schedule(made("all-gather", GATHER)) == []
    assert check_schedule(made("reduce-scatter", SCATTER)) == []


@pytest.mark.parametrize(
    ("sends", "message"),
    [
        (changed(GATHER, 4, (1, 2, 1.9, False)), "n1 sends chunk 2 at 1.9 µs before it holds it"),
        (changed(GATHER, 4, (1, 2, 0.9, False)), "link n1→n0 carries two chunks at 0.9 µs"),
        (GATHER[:-1], "n2 never gets chunk 0"),
        (changed(GATHER, 0, (0, 0, -1, False)), "a send starts before the collective does"),
        (changed(GATHER, 0, (0, 7, 0, False)), "a chunk that the collective does not have"),
        (changed(GATHER, 0, (9, 0, 0, False)), "a route that does not exist"),
        (changed(GATHER, 0, (0, 0, 0, True)), "a send adds up, which all-gather does not"),
    ],
)
def test_faults_of_copies_are_found(
    sends: list[tuple[int, int, float, bool]], message: str
) -> None:
    assert any(message in fault for fault in check_schedule(made("all-gather", sends)))


@pytest.mark.parametrize(
    ("sends", "message"),
    [
        (SCATTER[:-1], "the sum of chunk 1 at n1 is not complete"),
        (changed(SCATTER, 1, (2, 2, 1.5, True)), "the sum of chunk 2 at n2 is not complete"),
        ([*SCATTER, (0, 1, 4, True)], "n1 adds a contribution to chunk 1 twice"),
        (changed(SCATTER, 5, (3, 1, 1, False)), "lacks what is replaced by it"),
    ],
)
def test_faults_of_sums_are_found(sends: list[tuple[int, int, float, bool]], message: str) -> None:
    assert any(message in fault for fault in check_schedule(made("reduce-scatter", sends)))


def test_a_copy_of_a_sum_that_is_not_complete_is_found() -> None:
    sends = [
        (0, 0, 0, True), (3, 0, 0, True), (1, 0, 2, False), (2, 0, 2, False),
        (0, 1, 1, True), (3, 1, 1, True), (1, 1, 3, False), (2, 1, 3, False),
        (0, 2, 2, True), (3, 2, 2, True), (1, 2, 4, False), (2, 2, 4, False),
    ]  # fmt: skip
    assert check_schedule(made("all-reduce", sends)) == []
    early = changed(sends, 2, (1, 0, 1.5, False))
    assert any("lacks what is replaced" in f for f in check_schedule(made("all-reduce", early)))


def rerouted(network: Network, way: Way) -> list[str]:
    task = make_task(network, "broadcast", 100)
    zero = np.zeros(1, dtype=np.int64)
    return check_schedule(
        Schedule(
            network, task, "pipelined", "made", collect(network, [way]), zero, zero, zero, zero > 0
        )
    )


def test_only_able_nodes_copy_streams() -> None:
    # Links of a star: 2·i up from worker i, 2·i + 1 down to it; 0.5 µs each.
    half = US // 2
    way = Way(((0, 0),), ((1, US), (2, US)), ((0, 0), (3, half), (5, half)))
    assert rerouted(star(3, multicast=True), way) == []
    assert any("copies a stream and cannot" in fault for fault in rerouted(star(3), way))


def test_only_able_nodes_add_streams_up() -> None:
    half = US // 2
    way = Way(((1, 0), (2, 0)), ((0, US),), ((2, 0), (4, 0), (1, half)))
    network = star(3, aggregates=True)
    zero = np.zeros(1, dtype=np.int64)
    schedule = Schedule(
        network,
        make_task(network, "reduce", 100),
        "pipelined",
        "made",
        collect(network, [way]),
        zero,
        zero,
        zero,
        zero == 0,
    )
    assert check_schedule(schedule) == []
    unable = replace(schedule, network=star(3))
    assert any("adds streams up and cannot" in fault for fault in check_schedule(unable))


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (Way(((0, 0),), ((2, 2 * US),), ((0, 0), (2, 0))), "does not pass it on at the time"),
        (Way(((0, 0),), ((2, US),), ((0, 0), (2, US))), "does not receive it on one link"),
        (Way(((0, 5),), ((1, US),), ((0, 0),)), "does not send it on one link"),
    ],
)
def test_a_route_must_hold_together(way: Way, message: str) -> None:
    assert any(message in fault for fault in rerouted(LINE, way))


def test_a_route_is_no_faster_than_its_links() -> None:
    routes = collect(LINE, [path_way(LINE, [0, 2])])
    task = make_task(LINE, "broadcast", 100)
    zero = np.zeros(1, dtype=np.int64)
    fast = replace(routes, byte_ps=routes.byte_ps / 2)
    schedule = Schedule(LINE, task, "pipelined", "made", fast, zero, zero, zero, zero > 0)
    assert any("faster than its slowest link" in fault for fault in check_schedule(schedule))


def test_a_contribution_that_meets_itself_on_its_way_is_found() -> None:
    # In a valid ring one send is moved before the arrival that it should carry.
    good = classic_schedule(LINE, make_task(LINE, "all-reduce", 300), "pipelined", "ring")
    assert check_schedule(good) == []
    last = int(np.argmax(good.start_ps))
    start = good.start_ps.copy()
    start[last] = 0
    assert check_schedule(replace(good, start_ps=start))

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_collectives import line, networks

from controller.collectives.choose import algorithms, choose
from controller.collectives.generators import cities, grid, star
from controller.collectives.network import Network
from controller.collectives.synthesis import Effort
from controller.collectives.task import COLLECTIVES, make_task
from testbed.errors import InputError
from testbed.topology import load_topology

QUICK = Effort(attempts=4)


@given(networks(most=5), st.sampled_from(COLLECTIVES))
@settings(max_examples=25)
def test_auto_is_never_worse_than_any_algorithm(network: Network, collective: str) -> None:
    task = make_task(network, collective, 40)
    choice = choose(network, task, "pipelined", effort=QUICK)
    names = [outcome.schedule.algorithm for outcome in choice.outcomes]
    assert sorted(names) == sorted(algorithms(network, task))
    for outcome in choice.outcomes:
        assert not outcome.faults
        assert choice.best.schedule.time_ps <= outcome.schedule.time_ps
        assert outcome.over_bound >= 1 - 1e-9


def test_more_chunks_are_used_where_they_help() -> None:
    network = line(6, latency_us=0.1)
    task = make_task(network, "broadcast", 10**6)
    choice = choose(network, task, "pipelined", algorithm="ring", effort=QUICK)
    assert choice.best.schedule.task.chunks > 16
    fixed = choose(network, task, "pipelined", algorithm="ring", chunks=4, effort=QUICK)
    assert fixed.best.schedule.task.chunks == 4
    assert fixed.best.schedule.time_us > choice.best.schedule.time_us


def test_one_algorithm_can_be_asked_for() -> None:
    network = cities(load_topology("nine-cities"))
    task = make_task(network, "all-reduce", 10**9)
    choice = choose(network, task, "pipelined", algorithm="hierarchical", effort=QUICK)
    assert [outcome.schedule.algorithm for outcome in choice.outcomes] == ["hierarchical"]


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [("rings", 'did you mean "ring"'), ("hierarchical", "cannot be used here")],
)
def test_an_algorithm_that_cannot_be_used_is_refused(algorithm: str, message: str) -> None:
    task = make_task(line(3), "all-reduce", 300)
    with pytest.raises(InputError, match=message):
        choose(line(3), task, "pipelined", algorithm=algorithm)


def test_chunks_that_do_not_fit_are_refused() -> None:
    task = make_task(line(3), "all-reduce", 300)
    with pytest.raises(InputError, match="takes a multiple of 3"):
        choose(line(3), task, "pipelined", chunks=4)


def test_what_is_not_tried_is_said() -> None:
    network = grid([12, 12])
    task = make_task(network, "all-gather", 1 << 20)
    choice = choose(network, task, "pipelined", chunks=144, effort=QUICK)
    assert len(choice.outcomes) == 1
    assert "classic algorithms are not tried" in choice.notes[0]
    assert choose(star(3), make_task(star(3), "reduce", 99), "pipelined").notes == ()


def test_splitting_stops_where_chunks_would_be_too_many() -> None:
    network = star(40)
    task = make_task(network, "all-to-all", 1 << 30)
    choice = choose(network, task, "pipelined", algorithm="direct", effort=QUICK)
    assert choice.best.schedule.task.chunks <= 1 << 16

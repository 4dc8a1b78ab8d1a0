"""Training loops: their times, and hosts' steps in several all-reduces after each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dependencies import plan_on, topologies

from agents.dependencies import Dependencies
from controller.hostplan import HostPlan, HostStep
from controller.training import Training, unroll
from testbed.topology import Topology


@pytest.mark.parametrize(
    ("loop", "compute_ms", "spacing_ms"),
    [
        ("synchronous", 10, 50),
        ("delayed", 10, 40),
        ("delayed", 60, 60),
        ("local", 10, 40),
        ("local", 60, 40),
    ],
)
def test_times_of_a_loop_whose_synchronisations_take_40_ms(
    loop: str, compute_ms: float, spacing_ms: float
) -> None:
    training = Training(compute_ms=compute_ms, loop=loop, syncs=3)
    assert training.spacing_ms(40) == spacing_ms


class Hosts:
    """Hosts that carry their lists out in an order that is drawn; values say who is in a sum."""

    def __init__(self, plan: HostPlan, training: Training) -> None:
        cities = range(len(plan.steps))
        self.plan, self.training = plan, training
        self.hosts = [Dependencies(unroll(plan, training, city)) for city in cities]
        self.base = len(self.hosts) + 1
        own = [[self.base**city] * plan.chunks * training.syncs for city in cities]
        self.values = np.array(own, dtype=object)
        self.flying: dict[tuple[int, int], object] = {}
        self.came: list[dict[int, object]] = [{} for _ in cities]
        self.computed = [0] * len(self.hosts)

    @property
    def done(self) -> bool:
        return all(host.done for host in self.hosts)

    def moves(self) -> list[tuple[str, object]]:
        sending = [city for city, host in enumerate(self.hosts) if host.next_send()]
        limit = 0 if self.training.loop == "local" else self.training.syncs
        computing = [city for city, count in enumerate(self.computed) if count < limit]
        return [
            *(("send", city) for city in sending),
            *(("compute", city) for city in computing),
            *(("arrive", where) for where in self.flying),
        ]

    def move(self, what: str, where) -> None:
        if what == "send":
            going = self.hosts[where].next_send()
            assert going.chunk // self.plan.chunks <= self.sums(where)
            if self.training.loop != "local":
                assert going.chunk // self.plan.chunks < self.computed[where]
            receiver = self.plan.paths[going.path].dst
            self.flying[receiver, going.transfer] = self.values[where, going.chunk]
            self._carry_out(where, self.hosts[where].sent())
        elif what == "compute":
            self.computed[where] += 1
            self._carry_out(where, self.hosts[where].computed(self.computed[where]))
        else:
            receiver, transfer = where
            self.came[receiver][transfer] = self.flying.pop(where)
            self._carry_out(receiver, self.hosts[receiver].arrived(transfer))

    def sums(self, city: int) -> int:
        """How many all-reduces have brought a host the sum of every chunk."""
        whole = self.values[city] == self.total
        each = whole.reshape(self.training.syncs, self.plan.chunks).all(axis=1)
        return self.training.syncs if each.all() else int(np.argmin(each))

    @property
    def total(self) -> int:
        return sum(self.base**city for city in range(len(self.hosts)))

    def _carry_out(self, city: int, effects: list[HostStep]) -> None:
        for effect in effects:
            before = self.values[city, effect.chunk] if effect.kind == "reduce" else 0
            self.values[city, effect.chunk] = before + self.came[city].pop(effect.transfer)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_all_reduces_after_each_other_complete_exactly_in_any_order(data: st.DataObject) -> None:
    topology: Topology = data.draw(topologies())
    plan = plan_on(topology, data.draw(st.sampled_from(["ring", "synthesised", "direct"])), 1)
    loop = data.draw(st.sampled_from(["synchronous", "delayed", "local"]))
    training = Training(compute_ms=1, loop=loop, syncs=data.draw(st.integers(1, 3)))
    hosts = Hosts(plan, training)
    while not hosts.done:
        moves = hosts.moves()
        assert moves, "nobody can do anything"
        hosts.move(*data.draw(st.sampled_from(moves)))
    assert not hosts.flying
    assert (hosts.values == hosts.total).all()


def test_chunks_transfers_and_times_go_on_from_one_all_reduce_to_the_next() -> None:
    plan = HostPlan.model_validate(
        {
            "algorithm": "made",
            "payload_bytes": 100,
            "chunks": 2,
            "time_ms": 8,
            "bound_ms": 1,
            "bound": "",
            "paths": [],
            "steps": [
                [("send", 0, 0, 0, 0.0, 4.0, ()), ("receive", 1, 0, 1, 4.0, 8.0, (0,))],
                [("reduce", 0, 0, 0, 0.0, 4.0, ()), ("send", 1, 0, 1, 4.0, 8.0, (0,))],
            ],
        }
    )
    assert unroll(plan, None, 0) == plan.steps[0]
    steps = unroll(plan, Training(compute_ms=5, syncs=2), 0)
    compute = HostStep("compute", -1, -1, -1, 0.0, 0.0, ())
    assert steps == (
        compute,
        HostStep("send", 0, 0, 0, 0.0, 4.0, (0,)),
        HostStep("receive", 1, 0, 1, 4.0, 8.0, (1,)),
        compute,
        HostStep("send", 2, 2, 0, 13.0, 17.0, (2, 3)),
        HostStep("receive", 3, 2, 1, 17.0, 21.0, (4,)),
    )
    local = unroll(plan, Training(compute_ms=5, loop="local", syncs=2), 0)
    assert local[2:] == (
        HostStep("send", 2, 2, 0, 8.0, 12.0, (1,)),
        HostStep("receive", 3, 2, 1, 12.0, 16.0, (2,)),
    )

"""Actions happen in the order of their times, never before them, while children are watched."""

import sys
import time
from pathlib import Path

import pytest

from experiments.agenda import Agenda
from testbed.errors import CliquenetError
from testbed.processes import ChildFailedError, Supervisor, spawn

MS = 1_000_000


@pytest.fixture
def supervisor():
    made = Supervisor()
    yield made
    made.stop_all(grace_s=2.0)


def far() -> int:
    return time.monotonic_ns() + 60_000 * MS


def test_actions_come_in_the_order_of_their_times_and_not_early(supervisor: Supervisor) -> None:
    agenda, now_ns, done = Agenda(supervisor), time.monotonic_ns(), []

    def note(name: str, due_ns: int) -> None:
        done.append((name, time.monotonic_ns() >= due_ns))

    for name, after_ms in (("third", 9), ("first", -5), ("second", 3)):
        due_ns = now_ns + after_ms * MS
        agenda.at(due_ns, lambda name=name, due_ns=due_ns: note(name, due_ns))
    agenda.run(lambda: len(done) == 3, far(), "all")
    assert done == [("first", True), ("second", True), ("third", True)]


def test_an_action_may_add_another(supervisor: Supervisor) -> None:
    agenda, done = Agenda(supervisor), []
    agenda.at(0, lambda: agenda.at(0, lambda: done.append("later")))
    agenda.run(lambda: bool(done), far(), "both")
    assert done == ["later"]


def test_what_is_left_when_the_condition_holds_is_dropped(supervisor: Supervisor) -> None:
    agenda, done = Agenda(supervisor), []
    agenda.at(0, lambda: done.append("first"))
    agenda.at(far(), lambda: done.append("never"))
    agenda.run(lambda: bool(done), far(), "the first")
    assert done == ["first"]


def test_a_condition_that_never_holds_ends_at_the_limit(supervisor: Supervisor) -> None:
    with pytest.raises(CliquenetError, match="the islands' end: not in time"):
        Agenda(supervisor).run(lambda: False, time.monotonic_ns() + 5 * MS, "the islands' end")


def test_a_child_that_fails_meanwhile_ends_it(supervisor: Supervisor, tmp_path: Path) -> None:
    code = "raise SystemExit(3)"
    supervisor.watch(spawn("agent", [sys.executable, "-c", code], tmp_path / "log", {}))
    with pytest.raises(ChildFailedError, match="agent ended with status 3"):
        Agenda(supervisor).run(lambda: False, far(), "never")


def test_actions_that_follow_closely_see_that_a_child_has_ended(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """A restart looks every millisecond whether the process that it killed has gone."""
    agenda, looks = Agenda(supervisor), []
    child = supervisor.watch(spawn("short", ["true"], tmp_path / "log", {}))
    supervisor.expect_exit([child])

    def look() -> None:
        looks.append(supervisor.alive([child]))
        if looks[-1] and len(looks) < 2000:
            agenda.at(time.monotonic_ns() + MS, look)

    agenda.at(0, look)
    agenda.run(lambda: len(looks) == 2000 or False in looks, far(), "the child's end")
    assert looks[-1] is False

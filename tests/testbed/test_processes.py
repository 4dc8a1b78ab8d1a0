"""The supervisor: a child that ends early fails the run at once, with its last output."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from testbed.errors import CliquenetError
from testbed.processes import ChildFailedError, Supervisor, adopt, spawn, terminate


@pytest.fixture
def supervisor():
    made = Supervisor()
    yield made
    made.stop_all(grace_s=2.0)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_child_that_ends_early_is_reported_with_its_last_output(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    supervisor.watch(spawn("agent", python("print('out of memory'); raise SystemExit(3)"), log, {}))
    with pytest.raises(ChildFailedError, match="agent ended with status 3: out of memory"):
        supervisor.wait_until(lambda: False, 20.0, "never")


def test_a_child_that_ends_early_with_status_0_fails_too(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.watch(spawn("daemon", python("pass"), tmp_path / "a.log", {}))
    with pytest.raises(ChildFailedError, match="daemon ended with status 0"):
        supervisor.wait_until(lambda: False, 20.0, "never")


def test_an_expected_end_is_no_failure(supervisor: Supervisor, tmp_path: Path) -> None:
    child = supervisor.watch(spawn("agent", python("pass"), tmp_path / "a.log", {}))
    supervisor.expect_exit([child])
    supervisor.wait_until(lambda: not supervisor.alive([child]), 20.0, "agent")


def test_an_expected_child_that_is_killed_is_a_failure(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    child = supervisor.watch(
        spawn("agent", python("import time; time.sleep(60)"), tmp_path / "a.log", {})
    )
    supervisor.expect_exit([child])
    terminate([child])
    with pytest.raises(ChildFailedError, match="agent was killed by signal 15"):
        supervisor.wait_until(lambda: not supervisor.alive([child]), 20.0, "agent")


def test_waiting_has_a_limit(supervisor: Supervisor) -> None:
    with pytest.raises(CliquenetError, match="the controller: not within 0 s"):
        supervisor.wait_until(lambda: False, 0.05, "the controller")


def test_stop_all_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    supervisor = Supervisor()
    log = tmp_path / "a.log"
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('up', flush=True); time.sleep(60)"
    )
    child = supervisor.watch(spawn("stubborn", python(code), log, {}))
    while "up" not in log.read_text():
        time.sleep(0.01)
    supervisor.stop_all(grace_s=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_a_forked_process_is_adopted(supervisor: Supervisor, tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    child = supervisor.watch(adopt("forked", pid, tmp_path / "none.log"))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildFailedError, match="forked was killed by signal 9: no output"):
        supervisor.wait_until(lambda: not supervisor.alive([child]), 20.0, "forked")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_that_is_ended_by_intent_is_no_failure(
    supervisor: Supervisor, tmp_path: Path, number: signal.Signals
) -> None:
    sleeper = python("import time; time.sleep(60)")
    ended, other = (supervisor.watch(spawn(n, sleeper, tmp_path / n, {})) for n in "ab")
    supervisor.end(ended, number)
    supervisor.wait_until(lambda: not supervisor.alive([ended]), 20.0, "the end")
    assert supervisor.alive([other])

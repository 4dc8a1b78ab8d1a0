"""Child processes of a run: started here, watched together, stopped together."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import CliquenetError

LAST_LINES = 8


class ChildFailedError(CliquenetError):
    """A process of the run ended although it should not have."""


@dataclass(frozen=True)
class Child:
    """A running process, its log file, and the descriptor that tells of its end."""

    name: str
    pid: int
    pidfd: int
    log: Path
    popen: subprocess.Popen[bytes] | None = None

    def last_output(self) -> str:
        """The last lines of the log, on one line."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "no output"
        return " | ".join(line.strip() for line in lines[-LAST_LINES:]) or "no output"


def spawn(
    name: str, argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None = None
) -> Child:
    """Start a program with its output in a log file."""
    with log.open("wb") as out:
        popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            cwd=cwd,
            start_new_session=True,
        )
    return Child(name, popen.pid, os.pidfd_open(popen.pid), log, popen)


def adopt(name: str, pid: int, log: Path) -> Child:
    """Watch a process that was forked elsewhere."""
    return Child(name, pid, os.pidfd_open(pid), log)


class Supervisor:
    """Waits on children and on other descriptors at the same time.

    Every child is either awaited (`expect_exit`) or must stay alive: a child
    that ends early fails the run at once, with its last output.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}
        self._expected: set[int] = set()
        self._ended: set[int] = set()

    def watch(self, child: Child) -> Child:
        """Add a child that must not end before `expect_exit` names it."""
        self._children[child.pid] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, child)
        return child

    def watch_file(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever a descriptor is readable."""
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def unwatch_file(self, fd: int) -> None:
        """Undo `watch_file`."""
        self._selector.unregister(fd)

    def expect_exit(self, children: Sequence[Child]) -> None:
        """From now on these children may end with status 0."""
        self._expected.update(child.pid for child in children)

    def end(self, child: Child, number: signal.Signals) -> None:
        """Send a child a signal that is to end it; then any status of it will do."""
        self._ended.add(child.pid)
        _signal(child, number)

    def alive(self, children: Sequence[Child]) -> bool:
        """Whether any of the children still runs."""
        return any(child.pid in self._children for child in children)

    def step(self, timeout_s: float) -> None:
        """Handle what happens within ``timeout_s``.

        Raises
        ------
        ChildFailedError
            A child ended that should not have, or with a status other than 0.
        """
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if isinstance(key.data, Child):
                self._reap(key.data)
            else:
                key.data()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Step until a condition holds; raise if it does not within ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise CliquenetError(f"{what}: not within {timeout_s:.0f} s")
            self.step(left)

    def stop_all(self, grace_s: float = 5.0) -> None:
        """Terminate what still runs, then kill what does not obey."""
        for sig in (signal.SIGTERM, signal.SIGKILL):
            for child in self._children.values():
                _signal(child, sig)
            deadline = time.monotonic() + grace_s
            while self._children and time.monotonic() < deadline:
                for key, _ in self._selector.select(max(0.0, deadline - time.monotonic())):
                    if isinstance(key.data, Child):
                        self._forget(key.data)
                    else:
                        self._selector.unregister(key.fileobj)
            if not self._children:
                break
        self._selector.close()

    def _reap(self, child: Child) -> None:
        status = self._forget(child)
        if child.pid in self._ended or (status == 0 and child.pid in self._expected):
            return
        ending = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        raise ChildFailedError(f"{child.name} {ending}: {child.last_output()}")

    def _forget(self, child: Child) -> int:
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        del self._children[child.pid]
        if child.popen is not None:
            return child.popen.wait()
        return os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])


def _signal(child: Child, sig: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(child.pidfd, sig)
    except ProcessLookupError:
        return


def terminate(children: Sequence[Child]) -> None:
    """Ask children to end; `Supervisor.expect_exit` them first."""
    for child in children:
        _signal(child, signal.SIGTERM)

"""Runs tasks in processes of their own, one pinned to each processor.

A guest keeps one processor busy, and `testbed.virtualtime` gives it one that its
starter may use; starters that are pinned apart therefore never share one.
"""

import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeAlias, TypeVar

from testbed.errors import CliquenetError

T = TypeVar("T")
Tick: TypeAlias = Callable[[str], None]
"""Says how far a task is; safe to call at any time."""
Task: TypeAlias = Callable[[Tick], T]
"""A function of the task's own `Tick`; picklable, as a partial of a module's function is."""

_POLL_S = 0.5
_STOP_GRACE_S = 30.0


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What came of one task: its value, or the error that ended it.

    Attributes
    ----------
    index
        Which of the tasks.
    value
        What it returned; ``None`` if it raised.
    error
        The message of the `CliquenetError` that it raised, or empty.
    """

    index: int
    value: T | None
    error: str


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    connection: Connection


def processors() -> tuple[int, ...]:
    """Processors that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def run_tasks(
    tasks: Sequence[Task[T]], *, workers: int | None = None, tick: Tick
) -> Iterator[Outcome[T]]:
    """Run tasks side by side and yield their outcomes as they end.

    Parameters
    ----------
    tasks
        Started in this order.
    workers
        Processes; as many as there are processors by default.
    tick
        Called while tasks run, with how many are done and what the others said last.

    Raises
    ------
    CliquenetError
        A process ended without an answer. The others are stopped.
    """
    waiting = deque(enumerate(tasks))
    own = processors()
    count = min(len(tasks), workers or len(own))
    said: dict[int, str] = {}
    running: dict[int, int] = {}
    with _started([own[i % len(own)] for i in range(count)]) as started:
        idle = list(range(count))
        while waiting or running:
            while idle and waiting:
                number = idle.pop(0)
                running[number], task = waiting.popleft()
                started[number].connection.send(task)
            for number in _ready(started, running):
                answer = _receive(started[number])
                if isinstance(answer, str):
                    said[number] = answer
                    continue
                said.pop(number, None)
                idle.append(number)
                yield Outcome(running.pop(number), *answer)
            done = len(tasks) - len(waiting) - len(running)
            tick("; ".join([f"{done} of {len(tasks)}", *(said[n] for n in sorted(said))]))


def _ready(started: Sequence[_Worker], running: dict[int, int]) -> list[int]:
    """Numbers of the busy workers that have something to say, after a while at most."""
    connections = {started[number].connection: number for number in running}
    return [connections[c] for c in wait(list(connections), _POLL_S) if isinstance(c, Connection)]


def _receive(worker: _Worker) -> "str | tuple[T | None, str]":
    try:
        answer: str | tuple[T | None, str] = worker.connection.recv()
    except EOFError:
        worker.process.join()
        raise CliquenetError(
            f"a worker process ended without an answer (status {worker.process.exitcode})"
        ) from None
    return answer


@contextmanager
def _started(pinned_to: Sequence[int]) -> Iterator[list[_Worker]]:
    """Worker processes, which are gone when the block is left, however it is left."""
    context = multiprocessing.get_context("spawn")
    workers: list[_Worker] = []
    try:
        for processor in pinned_to:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, processor), daemon=True)
            process.start()
            theirs.close()
            workers.append(_Worker(process, ours))
        yield workers
    finally:
        for worker in workers:
            worker.connection.close()
            # A run that is under way takes this as an interrupt: it cleans up after itself.
            worker.process.terminate()
        for worker in workers:
            worker.process.join(_STOP_GRACE_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _work(connection: Connection, processor: int) -> None:
    """Do tasks until there is nobody left to send them."""
    # Ctrl-C reaches the whole group: the parent decides, and then terminates. A handler
    # rather than SIG_IGN, which the programs that a task starts would inherit.
    signal.signal(signal.SIGINT, _leave_to_parent)
    os.sched_setaffinity(0, {processor})
    try:
        while True:
            connection.send(_answer(connection.recv(), connection.send))
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


def _answer(task: Task[T], tick: Tick) -> tuple[T | None, str]:
    try:
        return task(tick), ""
    except CliquenetError as error:
        return None, str(error)
    except Exception:
        traceback.print_exc()
        raise


def _leave_to_parent(*_: object) -> None:
    """Take no notice of a signal."""

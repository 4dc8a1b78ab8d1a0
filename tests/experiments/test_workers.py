import os
import time
from functools import partial

import pytest

from experiments.workers import processors, run_tasks
from testbed.errors import CliquenetError


def square(number, tick):
    tick(f"squaring {number}")
    return number * number


def refuse(tick):
    raise CliquenetError("no such thing")


def vanish(tick):
    os._exit(7)


def where(tick):
    time.sleep(0.2)
    return tuple(sorted(os.sched_getaffinity(0))), os.getpid()


def wait_long(tick):
    tick(str(os.getpid()))
    time.sleep(600)


def quiet(text):
    return


def test_every_task_gets_its_own_answer():
    said = []
    outcomes = list(run_tasks([partial(square, n) for n in range(7)], workers=2, tick=said.append))
    assert {o.index: o.value for o in outcomes} == {n: n * n for n in range(7)}
    assert {o.error for o in outcomes} == {""}
    assert {text.partition(";")[0] for text in said} <= {f"{n} of 7" for n in range(8)}
    assert any("squaring" in text for text in said)


def test_no_task_starts_no_process():
    assert list(run_tasks([], tick=quiet)) == []


def test_an_error_of_a_task_is_its_outcome_and_others_go_on():
    outcomes = list(run_tasks([refuse, partial(square, 3)], workers=1, tick=quiet))
    assert [(o.value, o.error) for o in outcomes] == [(None, "no such thing"), (9, "")]


def test_workers_are_pinned_to_one_processor_each():
    own = processors()
    tasks = [where] * (2 * len(own))
    places = {o.value for o in run_tasks(tasks, tick=quiet) if o.value is not None}
    assert {affinity for affinity, _ in places} == {(processor,) for processor in own}
    assert len({pid for _, pid in places}) == len(own)


def test_a_worker_that_vanishes_is_an_error_with_its_status():
    with pytest.raises(CliquenetError, match="status 7"):
        list(run_tasks([vanish], workers=1, tick=quiet))


def test_leaving_early_ends_the_workers():
    class EnoughError(Exception):
        pass

    pids = []

    def first_word(text):
        if ";" in text:
            pids.append(int(text.rpartition(";")[2]))
            raise EnoughError

    with pytest.raises(EnoughError):
        list(run_tasks([wait_long], workers=1, tick=first_word))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)

"""The shim that Open MPI's processes load first: what waits waits, what is ready is reported."""

import os
import subprocess
import sys

import pytest

from experiments.openmpi.package import ensure_shim

QUESTIONS = {
    "poll": """
asked = select.poll(); asked.register(reader, select.POLLIN)
def ready(ms): return [fd for fd, _ in asked.poll(ms)]
""",
    "epoll": """
asked = select.epoll(); asked.register(reader, select.EPOLLIN)
def ready(ms): return [fd for fd, _ in asked.poll(None if ms is None else ms / 1e3)]
""",
}
PROGRAM = """
import os, select, time
reader, writer = os.pipe()
{question}
def lasted_ms(ms, times=1):
    begin = time.monotonic()
    assert [ready(ms) for _ in range(times)] == [[]] * times
    return (time.monotonic() - begin) * 1e3
assert lasted_ms(20) >= 20
assert lasted_ms(0, times=132) >= {least_ms}
os.sched_yield()
os.write(writer, b"x")
assert ready(0) == ready(20) == ready(None) == [reader]
"""


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("preloaded", [True, False])
def test_who_polls_without_end_waits_and_all_else_is_as_before(
    question: str, preloaded: bool
) -> None:
    # Without it nothing waits, which only a lower bound of 0 allows for.
    program = PROGRAM.format(question=QUESTIONS[question], least_ms=100 if preloaded else 0)
    env = {**os.environ, **({"LD_PRELOAD": str(ensure_shim())} if preloaded else {})}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")

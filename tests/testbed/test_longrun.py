import io
import os
import re
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from testbed.errors import CommandError, MachineError
from testbed.locking import file_lock
from testbed.longrun import run_logged, tail
from testbed.progress import Step


def test_output_goes_to_the_log_and_ticks_come_meanwhile(tmp_path: Path) -> None:
    log, ticks = tmp_path / "log", []
    log.write_text("before\n")
    script = "echo out; echo err >&2; echo $GIVEN; sleep 0.5"
    run_logged(["sh", "-c", script], log=log, env={"GIVEN": "v"}, on_tick=lambda: ticks.append(1))
    assert log.read_text() == "before\nout\nerr\nv\n"
    assert len(ticks) >= 2


def test_a_failure_holds_only_its_own_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of another command\n")
    with pytest.raises(CommandError) as caught:
        run_logged(["sh", "-c", "echo why; exit 3"], log=log)
    assert (caught.value.returncode, caught.value.output) == (3, "why")


def test_a_missing_program_is_an_error_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="`no-such-program` is not installed"):
        run_logged(["no-such-program"], log=tmp_path / "log")


@pytest.mark.parametrize("how", ["timeout", "interrupt"])
def test_whatever_ends_the_wait_ends_the_whole_group(tmp_path: Path, how: str) -> None:
    log, pids = tmp_path / "log", tmp_path / "pids"
    script = f"sleep 60 & echo $! > {pids}; wait"

    def interrupt() -> None:
        if how == "interrupt" and pids.exists() and pids.read_text().endswith("\n"):
            raise KeyboardInterrupt

    with pytest.raises(CommandError if how == "timeout" else KeyboardInterrupt):
        run_logged(["sh", "-c", script], log=log, timeout_s=1.0, on_tick=interrupt)
    child = Path("/proc") / pids.read_text().strip() / "stat"
    deadline = time.monotonic() + 5
    while child.exists() and ") Z " not in child.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not child.exists() or ") Z " in child.read_text()


def test_the_tail_is_bounded_at_both_ends(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old\n" + b"x" * 10 + b"\xffend\n")
    assert tail(file, begin=4) == "x" * 10 + "\ufffdend"
    assert tail(file, limit=4) == "end"


def test_steps_are_plain_lines_without_a_terminal() -> None:
    stream = io.StringIO()
    with Step("building", stream) as step:
        step.tick("1 file")
    first, last = stream.getvalue().splitlines()
    assert first == "building …"
    assert last.startswith("building: done, 0.")


def test_a_step_that_fails_does_not_say_done() -> None:
    stream = io.StringIO()

    def fail() -> None:
        with Step("building", stream):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue() == "building …\n"


def test_on_a_terminal_one_line_is_redrawn() -> None:
    leader, follower = os.openpty()
    shown = ""
    with os.fdopen(follower, "w") as stream, Step("building", stream) as step:
        time.sleep(0.6)
        step.tick("1 file")
        step.tick("2 files")  # too soon after the first
        while "1 file" not in shown:
            shown += os.read(leader, 1000).decode()
    os.close(leader)
    assert re.fullmatch(r"(\r\x1b\[Kbuilding … \d+ s)\r\x1b\[Kbuilding … 1 file, \d+ s", shown)


def _hold(path: Path, out: Path) -> None:
    with file_lock(path, "another"):
        begin = time.monotonic()
        time.sleep(0.3)
        out.write_text(f"{begin} {time.monotonic()}")


def test_two_holders_of_a_lock_take_turns(tmp_path: Path) -> None:
    outs = [tmp_path / "a", tmp_path / "b"]
    context = get_context("spawn")
    holders = [context.Process(target=_hold, args=(tmp_path / "lock", out)) for out in outs]
    for holder in holders:
        holder.start()
    for holder in holders:
        holder.join(30)
    (_, first_end), (second_begin, _) = sorted(
        tuple(float(number) for number in out.read_text().split()) for out in outs
    )
    assert first_end <= second_begin


def test_a_lock_that_cannot_be_written_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="CLIQUENET_CACHE"), file_lock(tmp_path / "a" / "b", ""):
        pass

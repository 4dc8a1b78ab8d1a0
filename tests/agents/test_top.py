"""What `top` shows, and how it ends."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_status import make_status

from agents.aggregator.__main__ import main
from agents.aggregator.status import append_status, status_file
from agents.aggregator.top import View, render

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "agents.aggregator", "top"]


def test_it_says_who_keeps_the_oldest_block_waiting() -> None:
    lines = render([View("a", make_status())], 200).splitlines()
    waiting = lines[lines.index("waiting for") + 1]
    assert waiting.strip() == ("nyc: tyo (round 3, block 5, 93.0 ms; delivered: lon 9, tyo 5)")


def test_each_aggregator_has_a_row_under_the_headings() -> None:
    memory = make_status().memory.model_copy(update={"ring_bytes": 2_500_000, "ring_held_s": 0.25})
    other = make_status(city="lon", memory=memory, oldest=None, rounds=())
    heading, nyc, lon, *_ = render([View("a", make_status()), View("b", other)], 200).splitlines()
    assert heading.split()[:2] == ["city", "time"]
    assert " ".join(nyc.split()) == "nyc 1.50 3:25% 0.0 40% 90% 0.0 0.00 5 2 0 0 0 1 3 7 11"
    assert " ".join(lon.split()) == "lon 1.50 0.0 40% 90% 2.5 0.25 5 2 0 0 0 1 3 7 0"
    assert len(nyc) == len(lon)


def test_counts_are_named_and_silence_is_told() -> None:
    status = make_status(recovery={"nacks": 4.0, "unavailable": 0.0}, saturated_blocks=2)
    text = render([View("a", status), View("status-lon", None, "Connection refused")], 200)
    assert (
        "nyc: sums: saturated 2; drops: crc 3; gaps of round 3: tyo 11; recovery: nacks 4" in text
    )
    assert text.endswith("silent\n  status-lon: Connection refused")


def test_long_lines_are_cut_to_the_screen() -> None:
    assert max(map(len, render([View("a", make_status())], 40).splitlines())) == 40


def test_without_a_terminal_it_shows_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append_status(status_file(tmp_path, "nyc", ".jsonl"), make_status())
    assert main(["top", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.count("nyc") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nonexistent"], "/nonexistent: no such socket, log or folder of a run"),
        (["--interval", "0", "/tmp"], "--interval"),
        (["--intervall", "1"], "--intervall"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["top", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_without_any_aggregator_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", str(tmp_path)]) == 2
    assert "no aggregator has a status there" in capsys.readouterr().err


def test_on_a_terminal_it_repeats_until_ctrl_c_and_gives_the_cursor_back(tmp_path: Path) -> None:
    append_status(status_file(tmp_path, "nyc", ".jsonl"), make_status())
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--interval", "0.1", str(tmp_path)],
        cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    end = time.monotonic() + 30
    while shown.count(b"\x1b[H\x1b[2J") < 3:
        assert time.monotonic() < end
        shown += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:  # the terminal's other end is closed
        pass
    os.close(master)
    assert process.wait(10) == 0
    assert shown.rstrip().endswith(b"\x1b[?25h")
    assert b"Traceback" not in shown

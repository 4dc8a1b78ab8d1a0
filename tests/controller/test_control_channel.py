"""Lines of the control channel."""

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.control_channel import ControlChannel, parse_command
from testbed.errors import InputError, MachineError


@given(st.integers())
def test_start_carries_its_time(start_ns: int) -> None:
    line = json.dumps({"command": "start", "start_ns": start_ns}).encode()
    assert parse_command(line) == {"command": "start", "start_ns": start_ns}


@pytest.mark.parametrize(
    "line", [b"", b"nonsense", b"[]", b"{}", b'{"command": "start"}', b'{"command": "go"}']
)
def test_what_is_no_command_is_refused(line: bytes) -> None:
    with pytest.raises(InputError, match="no command"):
        parse_command(line)


def test_commands_may_come_in_pieces_and_events_carry_their_time(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        channel = ControlChannel(path)
        peer, _ = listener.accept()

        def speak() -> None:
            for piece in (b'{"comm', b'and":"start","start_ns":5}\n{"command":', b'"stop"}\n'):
                peer.sendall(piece)
                time.sleep(0.01)
            peer.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=speak)
        thread.start()
        names = [command["command"] for command in channel.commands()]
        thread.join()
        before_ns = time.monotonic_ns()
        channel.send("round", round=3, action="confirmed")
        event = json.loads(peer.recv(1000))
        channel.close()
        peer.close()
    assert names == ["start", "stop"]
    assert event.pop("t_ns") >= before_ns
    assert event == {"event": "round", "round": 3, "action": "confirmed"}


def test_nobody_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no control socket"):
        ControlChannel(tmp_path / "none.sock")

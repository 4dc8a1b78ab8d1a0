"""The run's side of the control channel."""

import json
import socket
from pathlib import Path

import pytest

from experiments.control import ControlServer
from testbed.errors import CliquenetError
from testbed.processes import Supervisor


@pytest.fixture
def channel(tmp_path: Path):
    supervisor = Supervisor()
    server = ControlServer(tmp_path / "control.sock", supervisor)
    controller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    controller.connect(str(tmp_path / "control.sock"))
    supervisor.step(5.0)
    yield server, controller, supervisor
    controller.close()
    server.close()
    supervisor.stop_all()


def test_reports_are_kept_even_when_split_over_packets(channel) -> None:
    server, controller, supervisor = channel
    controller.sendall(b'{"event": "ready", "t_ns": 1}\n{"event": "round", "round": 3,')
    supervisor.step(5.0)
    assert server.ready
    assert server.confirmed_ns == {}
    controller.sendall(b' "action": "confirmed", "t_ns": 77}\n')
    supervisor.step(5.0)
    assert server.confirmed_ns == {3: 77}


def test_commands_are_json_lines(channel) -> None:
    server, controller, _ = channel
    server.send(command="start", start_ns=5)
    assert json.loads(controller.recv(1000)) == {"command": "start", "start_ns": 5}


def test_an_error_of_the_controller_ends_the_run(channel) -> None:
    _, controller, supervisor = channel
    controller.sendall(b'{"event": "error", "message": "switch fra: GROUP_EXISTS"}\n')
    with pytest.raises(CliquenetError, match="controller: switch fra: GROUP_EXISTS"):
        supervisor.step(5.0)


def test_an_unknown_message_is_not_ignored(channel) -> None:
    _, controller, supervisor = channel
    controller.sendall(b'{"event": "hello"}\n')
    with pytest.raises(CliquenetError, match="unknown message"):
        supervisor.step(5.0)


def test_the_socket_is_only_for_its_owner(tmp_path: Path) -> None:
    supervisor = Supervisor()
    server = ControlServer(tmp_path / "c.sock", supervisor)
    assert (tmp_path / "c.sock").stat().st_mode & 0o777 == 0o600
    server.close()
    supervisor.stop_all()

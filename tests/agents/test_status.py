"""The status socket against clients that behave, are slow, or are gone; reading it back."""

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.aggregator.__main__ import main
from agents.aggregator.status import (
    CLIENTS_LIMIT,
    PATIENCE_NS,
    POLL_NS,
    MemoryStatus,
    OldestBlock,
    RoundStatus,
    Status,
    StatusServer,
    append_status,
    short_address,
    status_file,
)
from agents.aggregator.statusclient import find_sources, read_status
from testbed.errors import InputError, MachineError


def make_status(**changes: object) -> Status:
    status = Status(
        city="nyc",
        time_ms=1500.0,
        memory=MemoryStatus(
            total_bytes=80_000, block_bytes=8000, slots=10, occupied_slots=4, high_water_slots=9
        ),
        rounds=(
            RoundStatus(
                round=3,
                clique=0,
                expected_blocks=20,
                complete_blocks=5,
                contributions={"lon": 9, "tyo": 5},
                gaps={"lon": 0, "tyo": 11},
            ),
        ),
        oldest=OldestBlock(round=3, block=5, age_ms=93.0, missing=("tyo",)),
        emitted_blocks={"complete": 5, "timeout": 2},
        late_blocks=1,
        drops={"crc": 3},
        socket_overflow=7,
    )
    return status.model_copy(update=changes)


class Served:
    """A server whose clock the test moves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = 0
        self.status = make_status()
        self.now_ns = 0
        self.server = StatusServer(path, self.snapshot)

    def snapshot(self) -> Status:
        self.asked += 1
        return self.status

    def poll(self, after_ns: int = POLL_NS) -> None:
        self.now_ns += after_ns
        self.server.poll(self.now_ns)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(5)
        with short_address(self.path) as address:
            client.connect(address)
        return client


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "s.sock")
    yield made
    made.server.close()


def read_all(client: socket.socket) -> bytes:
    with client:
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_each_connection_gets_one_document_and_its_end(served: Served) -> None:
    clients = [served.connect() for _ in range(3)]
    served.poll()
    for client in clients:
        assert Status.model_validate_json(read_all(client)) == served.status
    assert served.asked == 3


def test_nobody_asks_nothing_is_worked_out(served: Served) -> None:
    for _ in range(5):
        served.poll()
    assert served.asked == 0


def test_it_looks_only_once_in_a_while(served: Served) -> None:
    served.poll()
    client = served.connect()
    served.poll(POLL_NS - 1)
    assert served.asked == 0
    served.poll(1)
    assert served.asked == 1
    client.close()


def test_a_document_larger_than_the_socket_arrives_in_parts(served: Served) -> None:
    served.status = make_status(drops={f"reason {i}": i for i in range(100_000)})
    client = served.connect()
    client.settimeout(0.05)
    received = bytearray()
    served.poll()
    while True:
        try:
            part = client.recv(1 << 16)
        except TimeoutError:
            served.poll()
            continue
        if not part:
            break
        received += part
    client.close()
    assert len(received) > 1 << 20
    assert json.loads(received)["drops"]["reason 99999"] == 99999


def test_clients_that_do_not_read_are_dropped_and_do_not_keep_others_out(served: Served) -> None:
    served.status = make_status(drops={f"reason {i}": i for i in range(100_000)})
    idle = [served.connect() for _ in range(CLIENTS_LIMIT)]
    served.poll()
    assert served.asked == CLIENTS_LIMIT
    late = served.connect()
    served.poll()
    assert served.asked == CLIENTS_LIMIT
    served.status = make_status()
    served.poll(PATIENCE_NS)
    served.poll()
    assert Status.model_validate_json(read_all(late)) == served.status
    for client in idle:
        client.close()


def test_a_client_that_is_gone_is_forgotten(served: Served) -> None:
    served.connect().close()
    served.poll()
    client = served.connect()
    served.poll()
    assert Status.model_validate_json(read_all(client)) == served.status


def test_the_socket_is_its_owners_and_is_gone_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    server = StatusServer(path, make_status)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.close()
    assert not path.exists()


def test_a_path_beyond_the_kernels_limit_works(tmp_path: Path) -> None:
    folder = tmp_path / ("f" * 120)
    folder.mkdir()
    served = Served(folder / "s.sock")
    client = served.connect()
    served.poll()
    assert read_all(client)
    served.server.close()


def test_what_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    served = Served(path)
    client = served.connect()
    served.poll()
    assert read_all(client)
    served.server.close()


def test_a_living_socket_and_a_file_are_left_alone(served: Served, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="another process has it"):
        StatusServer(served.path, make_status)
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(MachineError, match="something else is there"):
        StatusServer(file, make_status)
    assert file.read_text() == "kept"
    with pytest.raises(MachineError, match="No such file"):
        StatusServer(tmp_path / "missing" / "s.sock", make_status)


def test_the_log_is_read_by_its_last_whole_line(tmp_path: Path) -> None:
    path = status_file(tmp_path, "nyc", ".jsonl")
    append_status(path, make_status(late_blocks=1))
    append_status(path, make_status(late_blocks=2))
    with path.open("a") as file:
        file.write('{"city": "ny')
    assert read_status(path).late_blocks == 2


def test_a_folder_stands_for_its_sockets_else_its_logs(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    assert find_sources([tmp_path]) == []
    log = status_file(raw, "nyc", ".jsonl")
    append_status(log, make_status())
    assert find_sources([tmp_path]) == find_sources([raw]) == [log]
    served = Served(status_file(raw, "nyc", ".sock"))
    assert find_sources([tmp_path, log]) == [served.path, log]
    served.server.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Invalid JSON"),
        ("nonsense\n", "Invalid JSON"),
        ('{"version": 2}\n', "version: Input should be 1"),
    ],
)
def test_what_is_no_status_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "status-nyc.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_status(path)


def test_the_command_prints_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "status-nyc.jsonl"
    append_status(path, make_status())
    assert main(["status", str(path)]) == 0
    assert Status.model_validate_json(capsys.readouterr().out) == make_status()


def test_a_socket_that_nobody_serves_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert main(["status", str(path)]) == 2
    assert capsys.readouterr().err == f"error: no status at {path}: Connection refused\n"

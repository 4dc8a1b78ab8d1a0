"""The parts around the virtual machine that need no machine."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError, MachineError
from testbed.virtualtime.__main__ import main, parse
from testbed.virtualtime.diagnosis import death, last_lines, out_of_memory, warnings
from testbed.virtualtime.follow import Follower
from testbed.virtualtime.memory import memory_folder, tmpfs_mounts
from testbed.virtualtime.scratch import scratch_folder

PANIC = """\
a warning
Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000
CPU: 0 PID: 1 Comm: true Not tainted 6.1.192 #1
Stack:
 00000000 77c23c60 604d7759 60410b3d
Call Trace:
 [<6002beb0>] ? um_set_signals+0x0/0x60
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    for name in ("console", "stdout", "stderr"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_panic_is_told_without_its_trace(scratch: Path) -> None:
    (scratch / "console").write_text(PANIC)
    (scratch / "stdout").write_text("working\n\n")
    told = death(scratch)
    assert told.startswith("the virtual machine panicked (Attempted to kill init!")
    assert "a warning | Kernel panic" in told
    assert told.endswith("| working")
    assert "um_set_signals" not in told
    assert "77c23c60" not in told


def test_want_of_memory_is_told_before_the_panic_that_it_causes(scratch: Path) -> None:
    line = "Out of memory: Killed process 21 (python3) total-vm:231304kB, anon-rss:180000kB"
    (scratch / "console").write_text(f"{line}\n{PANIC}")
    assert out_of_memory(scratch)
    assert death(scratch) == "the virtual machine ran out of memory; give it more"


def test_a_silent_end_is_told_as_such(scratch: Path) -> None:
    assert last_lines(scratch) == "it printed nothing"
    assert "ended without a result" in death(scratch)


def test_switching_off_is_no_warning(scratch: Path) -> None:
    (scratch / "console").write_text("odd thing\nreboot: System halted\n")
    assert warnings(scratch) == "odd thing"


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_following_passes_every_byte_once(pieces: list[bytes]) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"followed-{os.getpid()}"
    seen: list[bytes] = []

    def note(name: str, data: bytes) -> None:
        assert name == "stdout"
        seen.append(data)

    path.write_bytes(b"")
    try:
        follower = Follower(path, "stdout", note)
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            follower.poll()
        follower.poll()
    finally:
        path.unlink()
    assert seen == [piece for piece in pieces if piece]


def test_mounts_are_told_apart() -> None:
    text = (
        "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n"
        "/dev/sda1 / ext4 rw 0 0\n"
        "tmpfs /with\\040space tmpfs rw,noexec,size=64k 0 0\n"
    )
    shm, spaced = tmpfs_mounts(text)
    assert (shm.folder, "noexec" in shm.options) == (Path("/dev/shm"), False)
    assert (spaced.folder, "noexec" in spaced.options) == (Path("/with space"), True)


def test_more_memory_than_any_tmpfs_has_is_refused_with_the_remedy() -> None:
    with pytest.raises(MachineError, match=r"needs 1048640 MB .*less memory.*mount -o remount"):
        memory_folder(1_000_000)


def test_a_scratch_folder_is_private_and_goes_even_after_an_error() -> None:
    seen = []

    def fail() -> None:
        with scratch_folder(64) as folder:
            seen.append((folder, folder.stat().st_mode & 0o777))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    ((folder, mode),) = seen
    assert mode == 0o700
    assert not folder.exists()


def test_only_folders_without_a_living_owner_are_swept_up() -> None:
    with scratch_folder(64) as alive:
        code = (
            "import os; from testbed.virtualtime.scratch import scratch_folder\n"
            "with scratch_folder(64) as folder: print(folder, flush=True); os.kill(os.getpid(), 9)"
        )
        root = Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True)
        dead = Path(done.stdout.decode().strip())
        assert dead.is_dir()
        with scratch_folder(64):
            assert not dead.exists()
            assert alive.exists()


def test_options_and_command_are_told_apart() -> None:
    options = parse(["--seed", "3", "--env", "A=b=c", "--writable", "/x", "--", "ls", "--seed"])
    assert (options.seed, options.env, options.writable) == (3, [("A", "b=c")], [Path("/x")])
    assert options.command == ["ls", "--seed"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--sed", "3", "--", "ls"], "unrecognized arguments: --sed"),
        (["--seed", "x", "--", "ls"], "invalid int value"),
        (["--env", "=b", "--", "ls"], "`=b` is not NAME=VALUE"),
        (["--memory", "1", "--", "ls"], "--memory must be at least 64"),
        (["--wall-limit", "0", "--", "ls"], "--wall-limit"),
        (["--seed", "3"], "no command given"),
    ],
)
def test_bad_options_are_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(arguments) == InputError.status == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1


def test_a_guest_that_starts_at_the_same_moment_takes_no_folder_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = fcntl.flock
    sweeping = False

    def another_starts_first(file: int, how: int) -> None:
        nonlocal sweeping
        if not sweeping:
            sweeping = True
            with scratch_folder(1):
                pass
            sweeping = False
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", another_starts_first)
    with scratch_folder(1) as folder:
        assert folder.is_dir()


def test_a_folder_whose_maker_died_before_claiming_it_is_swept_after_a_while() -> None:
    parent = memory_folder(1)
    folder = Path(tempfile.mkdtemp(prefix="cliquenet-guest-", dir=parent))
    with scratch_folder(1):
        assert folder.is_dir()
    os.utime(folder, (0, 0))
    with scratch_folder(1):
        assert not folder.exists()

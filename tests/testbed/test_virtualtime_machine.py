"""Everything here boots the virtual machine, about a second each."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.errors import InputError, MachineError
from testbed.privileges import Capability, has
from testbed.virtualtime.boot import START_UNIX_S
from testbed.virtualtime.kernel import ensure_kernel
from testbed.virtualtime.machine import Outcome, run_in_virtual_time

pytestmark = pytest.mark.machine

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
MARK = "MARKED_BY_THIS_TEST"

# Everything that could differ from run to run: urandom, hashes, random, both clocks around
# a sleep, addresses, process ids, a random file name, and which of two sleepers is first.
WITNESS = """
import os, random, tempfile, threading, time, uuid
print(os.urandom(32).hex(), hash("text"), random.random(), uuid.uuid4(), id(object()))
print(time.time_ns(), time.monotonic_ns(), os.getpid(), tempfile.mkdtemp())
order = []
def sleeper(name):
    for _ in range(20):
        time.sleep(random.random() / 1000)
        order.append(name)
threads = [threading.Thread(target=sleeper, args=(name,)) for name in "abc"]
[t.start() for t in threads]; [t.join() for t in threads]
print("".join(order), time.time_ns(), time.monotonic_ns())
"""


class Recorder:
    def __init__(self) -> None:
        self.streams = {"stdout": b"", "stderr": b""}
        self.first_s: float | None = None

    def __call__(self, stream: str, data: bytes) -> None:
        self.first_s = self.first_s or time.monotonic()
        self.streams[stream] += data


Run = Callable[..., tuple[Outcome, bytes, bytes]]


@pytest.fixture(scope="module")
def kernel() -> Path:
    return ensure_kernel()


@pytest.fixture
def run(kernel: Path) -> Run:
    def in_guest(*command: str, **options: object) -> tuple[Outcome, bytes, bytes]:
        recorder = Recorder()
        options = {"wall_limit_s": 60.0, "memory_mb": 512, **options}
        outcome = run_in_virtual_time(command, kernel=kernel, on_output=recorder, **options)
        return outcome, recorder.streams["stdout"], recorder.streams["stderr"]

    return in_guest


def test_status_and_streams_come_out_apart(run: Run) -> None:
    outcome, out, err = run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (outcome.status, out, err) == (7, b"out\n", b"err\n")
    assert outcome.console == ""


def test_a_namespace_that_is_entered_anew_has_the_same_root(run: Run, tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("yes")
    outcome, out, err = run("nsenter", "--mount=/proc/self/ns/mnt", "cat", f"{tmp_path}/seen")
    assert (outcome.status, out, err) == (0, b"yes", b"")


def test_every_byte_comes_out_unchanged(run: Run) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 12000)"
    outcome, out, _ = run(PYTHON, "-c", code)
    assert outcome.status == 0
    assert out == bytes(range(256)) * 12000


def test_output_is_passed_on_while_the_command_runs(kernel: Path) -> None:
    recorder = Recorder()
    busy = "import time\nprint('first', flush=True)\nfor _ in range(30_000_000): pass"
    run_in_virtual_time([PYTHON, "-c", busy], kernel=kernel, on_output=recorder, memory_mb=512)
    assert recorder.first_s is not None
    assert time.monotonic() - recorder.first_s > 0.3


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        (("no-such-program",), 127, b"no-such-program: No such file or directory\n"),
        (("/etc/passwd",), 126, b"/etc/passwd: Permission denied\n"),
        (("sh", "-c", "kill -9 $$"), 137, b""),
    ],
)
def test_a_command_that_cannot_run_or_is_killed(
    run: Run, command: tuple[str, ...], status: int, told: bytes
) -> None:
    outcome, _, err = run(*command)
    assert (outcome.status, err) == (status, told)


def test_a_day_passes_in_a_moment(run: Run) -> None:
    begin = time.monotonic()
    outcome, _, _ = run("sleep", "86400")
    assert time.monotonic() - begin < 30
    assert outcome.virtual_s == pytest.approx(86400, abs=0.1)


def test_the_wall_clock_starts_where_it_is_fixed(run: Run) -> None:
    _, out, _ = run(PYTHON, "-c", "import time; print(time.time() - time.monotonic())")
    assert float(out) == pytest.approx(START_UNIX_S, abs=1)


def test_a_run_is_a_function_of_its_seed(run: Run) -> None:
    same = {run(PYTHON, "-c", WITNESS, seed=7)[1] for _ in range(5)}
    other = run(PYTHON, "-c", WITNESS, seed=8)[1]
    assert len(same) == 1
    (one,) = same
    assert one.count(b"\n") == 3
    for ours, theirs in zip(one.split(b"\n")[:1], other.split(b"\n")[:1], strict=True):
        assert all(a != b for a, b in zip(ours.split()[:4], theirs.split()[:4], strict=True))


def test_a_busy_machine_changes_nothing(run: Run) -> None:
    idle = run(PYTHON, "-c", WITNESS)[1]
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert run(PYTHON, "-c", WITNESS)[1] == idle
    finally:
        burner.kill()
        burner.wait()


def test_only_the_writable_folder_is_written(run: Run, tmp_path: Path) -> None:
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    kept.mkdir()
    lost.mkdir()
    (lost / "old").write_text("old")
    script = (
        f"cat {lost}/old; rm {lost}/old; echo new > {lost}/new; mkdir {kept}/deep; "
        f"head -c 3000000 /dev/zero > {kept}/deep/zeros; echo done > $HOME/.done; ls {lost}"
    )
    outcome, out, err = run("sh", "-c", script, writable=kept)
    assert (outcome.status, out, err) == (0, b"oldnew\n", b"")
    assert (kept / "deep" / "zeros").read_bytes() == bytes(3_000_000)
    assert [p.name for p in lost.iterdir()] == ["old"]


def test_what_a_daemon_writes_at_its_end_is_kept(run: Run, tmp_path: Path) -> None:
    daemon = f"trap 'echo ended > {tmp_path}/daemon; exit' TERM; while :; do sleep 1; done"
    outcome, _, _ = run("sh", "-c", f"({daemon}) & sleep 3", writable=[tmp_path])
    assert outcome.status == 0
    assert (tmp_path / "daemon").read_text() == "ended\n"


def test_environment_folder_and_loopback(run: Run, tmp_path: Path) -> None:
    os.environ[MARK] = "of the host"
    try:
        script = f"pwd; echo $GIVEN ${MARK}; cat /sys/class/net/lo/flags; hostname"
        _, out, _ = run("sh", "-c", script, env={"GIVEN": "a b"}, cwd=tmp_path)
    finally:
        del os.environ[MARK]
    lines = out.decode().splitlines()
    assert lines[:2] == [str(tmp_path), "a b"]
    assert int(lines[2], 16) & 1 == 1  # IFF_UP
    assert lines[3] == "virtual"


def test_the_guest_has_what_a_network_needs(run: Run) -> None:
    script = (
        "set -e; test -c /dev/net/tun; test -d /run/netns; ip netns add n; "
        "ip link add a0 type veth peer name b0 netns n; "
        "tc qdisc add dev a0 root netem rate 1gbit delay 35ms; tc qdisc show dev a0"
    )
    outcome, out, err = run("sh", "-c", script)
    assert (outcome.status, err) == (0, b"")
    assert b"delay 35ms rate 1Gbit" in out


def test_a_hang_is_one_error_with_the_last_output(run: Run) -> None:
    with pytest.raises(MachineError, match=r"still running after 2 s.*I am stuck"):
        run("sh", "-c", "echo I am stuck; sleep infinity", wall_limit_s=2.0)


def test_a_busy_loop_is_stopped_at_the_limit(run: Run) -> None:
    with pytest.raises(MachineError, match="still running after 2 s"):
        run("sh", "-c", "while :; do :; done", wall_limit_s=2.0)


def test_a_guest_without_memory_says_so(run: Run) -> None:
    # In small steps: the pages of the program itself would be given up one by one.
    hog = "x = [bytes([i % 256]) * 100_000 for i in range(4000)]"
    with pytest.raises(MachineError, match="ran out of memory; give it more"):
        run(PYTHON, "-c", hog, memory_mb=192, wall_limit_s=60.0)


def test_a_guest_that_is_switched_off_gives_no_status(run: Run) -> None:
    switch_off = "import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)"
    with pytest.raises(MachineError, match="ended without a result: reboot: System halted"):
        run(PYTHON, "-c", switch_off)


def test_a_panic_is_one_error(kernel: Path, tmp_path: Path) -> None:
    broken = tmp_path / "linux"
    options = "mem=64M uml_dir=./ rootfstype=hostfs ro con=null con0=null,fd:1 quiet"
    broken.write_text(f"#!/bin/sh\nexec {kernel} {options} time-travel=inf-cpu init=/none\n")
    broken.chmod(0o755)
    with pytest.raises(MachineError, match=r"panicked \(Requested init /none failed") as caught:
        run_in_virtual_time(["true"], kernel=broken, on_output=Recorder(), memory_mb=64)
    assert "\n" not in str(caught.value)
    assert "[<" not in str(caught.value)


def test_a_guest_that_does_not_get_ready_says_why(run: Run) -> None:
    ours = Path("/proc/self/task").resolve()  # the guest's /proc has no such process
    with pytest.raises(MachineError, match=rf"did not get ready: .*{ours.parent}"):
        run("true", writable=ours)


def test_bad_arguments_never_boot(kernel: Path, tmp_path: Path) -> None:
    def refused(command: list[str], told: str, **options: object) -> None:
        with pytest.raises(InputError, match=told):
            run_in_virtual_time(command, kernel=kernel, on_output=Recorder(), **options)

    refused([], "no command")
    refused(["true"], "seed -1 is not", seed=-1)
    refused(["true"], "seed 18446744073709551616 is not", seed=2**64)
    refused(["true"], "is no folder", writable=tmp_path / "none")


def processes_of(marker: str) -> list[str]:
    """Processes whose working directory is a scratch folder whose job names the marker."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            folder = (entry / "cwd").readlink()
            if marker in (folder / "job.json").read_text():
                found.append(entry.name)
        except OSError:
            continue  # ended meanwhile, or no guest
    return found


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGHUP, 130),
        (signal.SIGTERM, 130),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_nothing_survives_the_end_of_the_tool(
    kernel: Path, tmp_path: Path, number: int, status: int
) -> None:
    marker = f"marker-{tmp_path.name}-{os.getpid()}"
    busy = f"({PYTHON} -c 'while True: pass' &) ; echo {marker}; sleep infinity"
    argv = [sys.executable, "-m", "testbed.virtualtime", "--memory", "256"]
    tool = subprocess.Popen(
        [*argv, "--kernel", str(kernel), "--", "sh", "-c", busy],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert tool.stdout is not None
        assert tool.stdout.readline().decode().strip() == marker
        assert len(processes_of(marker)) >= 3
        folders = [(Path("/proc") / pid / "cwd").readlink() for pid in processes_of(marker)[:1]]
        tool.send_signal(number)
        assert tool.wait(timeout=20) == status
    finally:
        tool.kill()
    assert eventually(lambda: not processes_of(marker))
    if number != signal.SIGKILL:
        assert not folders[0].exists()
    else:  # swept up by the next guest
        subprocess.run([*argv, "--kernel", str(kernel), "--", "true"], cwd=ROOT, check=True)
        assert not folders[0].exists()
    tool.stdout.close()


def test_the_guest_has_given_up_what_it_does_not_need(run: Run) -> None:
    seen: list[str] = []

    def look(pid: int, _: Path) -> None:
        while b"setpriv" in (command := Path(f"/proc/{pid}/cmdline").read_bytes()) or not command:
            time.sleep(0.01)
        seen.append(Path(f"/proc/{pid}/status").read_text())

    run("sleep", "1", on_boot=look)
    bounds = next(line.split()[1] for line in seen[0].splitlines() if line.startswith("CapBnd"))
    assert "NoNewPrivs:\t1" in seen[0]
    kept = 1 << Capability.DAC_OVERRIDE | 1 << Capability.DAC_READ_SEARCH
    assert not has(Capability.SETPCAP) or int(bounds, 16) & ~kept == 0

"""Runs inside the virtual machine: sends a file with uftp over an emulated access link.

``python -m benchmarks.uftpguest JOB RESULT`` reads a `Job` and writes a `Report`.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from testbed.errors import CliquenetError
from testbed.impairment import Impairment, threshold
from testbed.jsonmodel import read_model
from testbed.namespaces import Namespace, die_with_parent, isolate
from testbed.netlink import RouteSocket
from testbed.netrequests import (
    End,
    add_address,
    add_neighbour,
    add_route,
    add_veth,
    set_up,
)
from testbed.shaping import ShapedInterface, install, shape_for
from testbed.topology import Frozen
from testbed.wiring import HOST_INTERFACE_INDEX

BLOCK_BYTES = 8800
"""What uftp's manual recommends for an MTU of 9000."""
_SOCKET_BYTES = 104_857_600
_CACHE_BYTES = 20_971_520
_READY_S = 1.0
_LIMIT_S = 60.0
_SENDER, _RECEIVER = End("sender", 2, "02:00:00:00:00:01"), End("receiver", 2, "02:00:00:00:00:02")
_SENDER_IP, _RECEIVER_IP, _PREFIX_BITS = "10.0.0.1", "10.0.0.2", 16
_SPEED = re.compile(r"^RESULT;.*;copy;([0-9.]+)KB/s$", re.MULTILINE)
_NAKS = re.compile(r"Got (\d+) NAKs")


class Case(Frozen):
    """One line of the table."""

    name: str
    loss_percent: float
    options: tuple[str, ...] = ()
    """Of uftp, beside rate and sizes."""


class Job(Frozen):
    """What to measure."""

    programs: str
    """Folder of uftp and uftpd."""
    size_bytes: int
    rate_gbps: float
    """Of the link, before scaling."""
    scale: float
    mtu_bytes: int
    repeats: int
    cases: tuple[Case, ...]


class Transfer(Frozen):
    """One file sent."""

    goodput_mbps: float
    """File over uftp's own time, from its first data to the receiver's word that it has all."""
    session_s: float
    """From uftp's start to its end."""
    naks: int
    intact: bool
    """Whether the file that came is the file that was sent."""


class Report(Frozen):
    """What was measured: the transfers of each case, in the job's order."""

    transfers: tuple[tuple[Transfer, ...], ...]


@contextmanager
def access_link(job: Job, loss_percent: float) -> Iterator[tuple[Namespace, Namespace]]:
    """A sender and a receiver joined by a link like that between a city's switch and its island.

    Losses are those of the sender's direction.
    """
    with ExitStack() as stack:
        sender, receiver = Namespace.create("sender"), Namespace.create("receiver")
        stack.callback(sender.close)
        stack.callback(receiver.close)
        with sender.entered(), RouteSocket() as route:
            route.apply([add_veth(_SENDER, _RECEIVER, job.mtu_bytes, receiver)])
        _configure(sender, _SENDER.name, _SENDER_IP, _RECEIVER_IP, _RECEIVER.mac)
        _configure(receiver, _RECEIVER.name, _RECEIVER_IP, _SENDER_IP, _SENDER.mac)
        plain = shape_for(0.0, job.rate_gbps, job.scale, job.mtu_bytes)
        lossy = replace(plain, impairment=Impairment(loss=threshold(loss_percent)))
        install(
            [
                ShapedInterface("sender→receiver", _SENDER.name, 2, sender, lossy),
                ShapedInterface("receiver→sender", _RECEIVER.name, 2, receiver, plain),
            ]
        )
        yield sender, receiver


def _configure(namespace: Namespace, name: str, ip: str, other_ip: str, other_mac: str) -> None:
    index = HOST_INTERFACE_INDEX
    with namespace.entered(), RouteSocket() as route:
        route.apply(
            [
                set_up(name, index),
                add_address(index, ip, _PREFIX_BITS),
                add_route(index, "224.0.0.0", 4),
                add_neighbour(index, other_ip, other_mac),
            ]
        )


def transfer(job: Job, case: Case, file: Path, folder: Path) -> Transfer:
    """Send a file once.

    Raises
    ------
    CliquenetError
        uftp failed; its last line.
    """
    folder.mkdir()
    with access_link(job, case.loss_percent) as (sender, receiver):
        daemon = _start(receiver, _receive_command(job, folder))
        try:
            time.sleep(_READY_S)
            began = time.monotonic()
            sending = _start(sender, _send_command(job, case, file))
            output, _ = sending.communicate(timeout=_LIMIT_S)
            session_s = time.monotonic() - began
        finally:
            daemon.terminate()
            daemon.wait()
    speed = _SPEED.search(output)
    if sending.returncode != 0 or speed is None:
        last = (output.strip().splitlines() or ["no output"])[-1]
        raise CliquenetError(f"uftp ended with status {sending.returncode}: {last}")
    received = folder / file.name
    return Transfer(
        goodput_mbps=float(speed[1]) * 1024 * 8 / 1e6,
        session_s=session_s,
        naks=sum(int(count) for count in _NAKS.findall(output)),
        intact=received.read_bytes() == file.read_bytes(),
    )


def _receive_command(job: Job, folder: Path) -> list[str]:
    sizes = ["-B", str(_SOCKET_BYTES), "-c", str(_CACHE_BYTES)]
    return [f"{job.programs}/uftpd", "-d", "-q", "-I", _RECEIVER.name, "-D", str(folder), *sizes]


def _send_command(job: Job, case: Case, file: Path) -> list[str]:
    rate_kbps = round(job.rate_gbps * 1e6 / job.scale)
    sizes = ["-b", str(BLOCK_BYTES), "-B", str(_SOCKET_BYTES)]
    fixed = ["-I", _SENDER.name, "-R", str(rate_kbps), "-S", "@LOG", *sizes]
    return [f"{job.programs}/uftp", *fixed, *case.options, str(file)]


def _start(namespace: Namespace, command: Sequence[str]) -> "subprocess.Popen[str]":
    with namespace.entered():
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent,
        )


def main(argv: Sequence[str]) -> int:
    """Measure every case; one line on standard error if that fails."""
    try:
        job = read_model(Job, Path(argv[0]))
        isolate()
        scratch = Path("/tmp/uftp")  # noqa: S108 - the guest's own
        scratch.mkdir()
        file = scratch / "weights"
        file.write_bytes(np.random.default_rng(1).bytes(job.size_bytes))
        transfers = tuple(
            tuple(
                transfer(job, case, file, scratch / f"{number}-{repeat}")
                for repeat in range(job.repeats)
            )
            for number, case in enumerate(job.cases)
        )
        Path(argv[1]).write_text(Report(transfers=transfers).model_dump_json())
    except CliquenetError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

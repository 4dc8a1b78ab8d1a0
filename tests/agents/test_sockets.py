"""The UDP sockets over loopback: bursts, waiting, and what goes wrong."""

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from agents.bursts import Packer, parse, runs
from agents.sockets import BurstReceiver, BurstSender, interface_index, udp_counters
from agents.wire import PacketType, datagram_bytes
from testbed.errors import MachineError

ELEMENTS = 352
MS = 1_000_000


@pytest.fixture
def receiver() -> Iterator[BurstReceiver]:
    made = BurstReceiver(("127.9.9.1", 0), interface=None, idle_ns=20 * MS)
    yield made
    made.close()


def test_a_burst_arrives_datagram_by_datagram_or_put_together(receiver: BurstReceiver) -> None:
    packer = Packer(7, ELEMENTS, kind=PacketType.DATA, job_id=1, epoch=0, src=2)
    packer.payload[:] = np.arange(7 * ELEMENTS).reshape(7, ELEMENTS)
    packer.address(round_index=0, clique=0, bitmap=4)
    sender = BurstSender(datagram_bytes(ELEMENTS), None)
    sender.send(packer.seal(7, 20, 0, 0, 5), receiver.address)
    sender.close()
    rejects: Counter[str] = Counter()
    blocks, values = [], []
    while len(blocks) < 7:
        got = receiver.receive(rejects)
        assert got is not None, "nothing more came"
        batches = parse(receiver.buffer, *got, kind=PacketType.DATA, job_id=1, rejects=rejects)
        for run in (run for batch in batches for run in runs(batch)):
            blocks += range(run.block, run.block + len(run.values))
            values += run.values.ravel().tolist()
    assert blocks == list(range(20, 27))
    assert values == list(range(6 * ELEMENTS + 5))
    assert not rejects
    assert receiver.receive(rejects) is None


def test_receive_and_wait_end_without_traffic(receiver: BurstReceiver) -> None:
    start = time.monotonic()
    assert receiver.receive(Counter()) is None
    assert time.monotonic() - start >= 0.015
    start = time.monotonic()
    assert not receiver.wait(500_000)
    assert time.monotonic() - start >= 0.0005
    assert not receiver.wait(-1)


def test_a_receiver_without_patience_never_waits() -> None:
    made = BurstReceiver(("127.9.9.1", 0), interface=None, idle_ns=0)
    assert made.receive(Counter()) is None  # one that waits would do so for ever
    made.close()


def test_a_full_socket_buffer_is_told_apart(receiver: BurstReceiver) -> None:
    assert receiver.buffer_bytes > 0
    sender = BurstSender(1400, None)
    burst = memoryview(bytes(1400 * 7))
    for _ in range(2 * receiver.buffer_bytes // len(burst)):
        sender.send(burst, receiver.address)
    sender.close()
    rejects: Counter[str] = Counter()
    while receiver.receive(rejects) is not None:
        pass
    assert receiver.overflow == 0
    # the count of lost datagrams comes with the next one that is received
    last = BurstSender(1400, None)
    last.send(burst, receiver.address)
    last.close()
    receiver.receive(rejects)
    assert receiver.overflow > 0


def test_an_interface_is_found_by_the_end_of_its_name() -> None:
    assert interface_index("lo") >= 1
    with pytest.raises(MachineError, match=r"must end with 'nyc-i'; .* lo"):
        interface_index("nyc-i")


def test_udp_counters_are_those_of_this_namespace() -> None:
    counters = udp_counters()
    assert {"InDatagrams", "RcvbufErrors", "InErrors"} <= set(counters)
    assert all(value >= 0 for value in counters.values())

"""Runs inside the virtual-time machine: bursts over impaired links of a network that is up."""

import socket
import struct
import time
from collections import Counter
from itertools import pairwise

from testbed.addressing import island_ip
from testbed.impairment import Impairment, burst_thresholds, threshold
from testbed.network import Network
from testbed.nodes import CityHost

PORT = 7000
SIZE = 1400
BURST = 4
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_SO_RCVBUFFORCE = 33
_WIDE = 1 << 16


def check_losses(network: Network, report: dict) -> None:
    """Send bursts from city 0's aggregator to its island, over its link with each fault."""
    down = f"{network.topology.codes[0]}→island"
    enter, leave = burst_thresholds(5, 8)
    faults = {
        "lost": Impairment(loss=threshold(10)),
        "lost_in_runs": Impairment(enter_burst=enter, leave_burst=leave),
        "doubled": Impairment(duplicate=threshold(10)),
        "reordered": Impairment(reorder=threshold(10)),
        "late": Impairment(jitter_ns=2_000_000),
    }
    host = network.aggregator(0)
    found = {"sound": flow(network, host, 0)}
    for name, fault in faults.items():
        before = dropped(network, down)
        with network.impaired({down: fault}):
            found[name] = flow(network, host, 0)
        found[name]["dropped"] = dropped(network, down) - before
    up = {f"island→{network.topology.codes[0]}": faults["lost"]}
    with network.impaired(up):
        found["whole_bursts_up"] = flow(network, network.island(0), 1)
        found["single_packets_up"] = flow(network, network.island(0), 1, burst=1)
    found["mended"] = flow(network, host, 0)
    network.check()
    report["losses"] = found


def dropped(network: Network, link: str) -> int:
    """Packets that the shaper of a direction has dropped so far."""
    return next(q["drops"] for q in network.counters()["queues"] if q["link"] == link)


def flow(network: Network, source: CityHost, to: int, *, burst: int = BURST) -> dict:
    """Send 2000 datagrams, in bursts, and tell which of them came, and how."""
    with network.island(to).namespace.entered():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with source.namespace.entered():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
    receiver.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    receiver.bind(("", PORT))
    receiver.setblocking(False)
    sender.setsockopt(_SOL_UDP, _UDP_SEGMENT, SIZE)
    sent = 2000
    came: list[int] = []
    at_once: list[int] = []
    for first in range(0, sent, burst):
        numbers = range(first, first + burst)
        data = b"".join(struct.pack("=I", number).ljust(SIZE, b"x") for number in numbers)
        sender.sendto(data, (island_ip(to), PORT))
        time.sleep(0.0001 * burst)
        drain(receiver, came, at_once)
    time.sleep(0.3)
    drain(receiver, came, at_once)
    receiver.close()
    sender.close()
    return {
        "sent": sent,
        "came": len(came),
        "different": len(set(came)),
        "overtaken": sum(b < a for a, b in pairwise(came)),
        "runs": runs_of_missing(set(came), sent),
        "at_once": max(at_once, default=0),
    }


def drain(receiver: socket.socket, came: list[int], at_once: list[int]) -> None:
    """Read everything that is there."""
    while True:
        try:
            data = receiver.recv(_WIDE)
        except BlockingIOError:
            return
        at_once.append(len(data) // SIZE)
        came += [struct.unpack_from("=I", data, at)[0] for at in range(0, len(data), SIZE)]


def runs_of_missing(came: set[int], sent: int) -> dict[int, int]:
    """How many runs of missing numbers there are, by their length."""
    lengths: Counter[int] = Counter()
    length = 0
    for number in range(sent + 1):
        if number < sent and number not in came:
            length += 1
        elif length:
            lengths[length] += 1
            length = 0
    return dict(lengths)

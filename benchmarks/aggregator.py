"""How many gigabits a second of one core the aggregator takes in, adds, and sends on.

Run with ``python -m benchmarks.aggregator``. Senders and the sink of the sums are
one process on another core; everything goes through the loopback interface,
each burst with UDP_SEGMENT and UDP_GRO. A round comes in parts. The measured process begins a
part when its beginning lies in the socket; where it is faster than the senders, it waits for the
rest, which is counted.

The figure is bytes of UDP payload received per CPU second (user and system, of all that
the process does from part to part), in which it checks and adds every datagram, writes
each finished sum with header and checksum into the resend ring, and sends it from there.

``bound`` is a plain loop in C that receives and adds, nothing else: no checksum, no
table, no output. It receives the same buffers, each with one call, and adds to as many sums
as the aggregator holds. ``ratio_to_bound`` compares with it, repeat by repeat;
``bound-batched`` says what that loop would gain by receiving many buffers with one call, as
the native engine does. The last line is one JSON object.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agents.native.build import ensure_kernel_library
from benchmarks.aggregator_load import (
    Shape,
    Sink,
    Streams,
    datagram_elements,
    order,
    receiving_socket,
    segments,
    sending_socket,
)
from benchmarks.aggregator_side import BOUNDS, KINDS, Gate, Kind, ensure_bound, run_side

_STALL_S = 20.0
_NAP_S = 1e-4
_WARM_UP_S = 0.3
_HEAD_START = 176
"""Buffers of a part that lie in the socket when the measured process begins: so many that it
seldom waits for the senders, and so few that they fit a processor's last cache."""
_RING_MB = 4
"""Of sums that are kept: 5 ms of the output at 50 Gbit/s of input from 8 senders, where 0.5 ms and
three time-outs of 1 ms are needed to ask thrice for what is lost."""


class Load(NamedTuple):
    """What the measured process did.

    Attributes
    ----------
    waits
        How often it waited in a part: once for the begin, once until it was sure that nothing
        more comes, and whenever it was faster than the senders.
    """

    datagrams: int
    cpu_ns: int
    waits: float


class Trial:
    """One measurement: a forked process on one core, its load on the other."""

    def __init__(self, kind: Kind, shape: Shape, streams: Streams, ring_mb: int) -> None:
        ensure_kernel_library()  # not while the measured process is waited for
        ensure_bound()
        self._kind: Kind = kind
        self._shape = shape
        self._streams = streams
        self._ring_mb = ring_mb
        self._gate = Gate()
        self._sink = Sink(shape, streams.sums)
        self._incoming = receiving_socket()
        self._to = self._incoming.getsockname()
        self._sending = sending_socket(shape.size)
        self._burst = segments(shape.size)
        self.parts = 0

    def __enter__(self) -> "Trial":
        gc.collect()
        self._child = os.fork()
        if self._child == 0:
            status = 1
            try:
                Path("/proc/self/comm").write_text("engine")  # its name in top and perf
                _pin(0)
                run_side(
                    self._kind,
                    self._shape,
                    self._incoming,
                    self._sink.address,
                    self._gate,
                    resend_bytes=self._ring_mb << 20,
                )
                status = 0
            except BaseException:  # the child must say what ended it
                traceback.print_exc()
            finally:
                os._exit(status)
        self._incoming.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.end()
        status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        self._sink.drain()
        self._sending.close()
        self._sink.socket.close()
        if status:
            raise RuntimeError(f"the measured process ended with status {status}")
        sums = 0 if self._kind in BOUNDS else self.parts * self._shape.blocks
        if self._sink.wrong or self._sink.blocks != sums:
            raise RuntimeError(
                f"{self._sink.blocks} of {sums} sums came, {self._sink.wrong} wrong ones among "
                "them: the figure means nothing"
            )

    def load(self, seconds: float) -> Load:
        """Send part after part for so long."""
        parts, cpu_ns, waits = self.parts, self._gate.cpu_ns, self._gate.waits
        end = time.monotonic() + seconds
        while self.parts == parts or time.monotonic() < end:
            self._part()
        return Load(
            (self.parts - parts) * self._shape.datagrams,
            self._gate.cpu_ns - cpu_ns,
            (self._gate.waits - waits) / (self.parts - parts),
        )

    def resident_bytes(self) -> int:
        """Memory of the measured process that is its own."""
        pages = Path(f"/proc/{self._child}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")

    def _part(self) -> None:
        """Send a part; the measured process begins when enough of it is there."""
        shape = self._shape
        self._until_done(self.parts)
        self._streams.turn(self.parts)
        bursts = list(order(shape.blocks // self._burst, shape.senders, shape.lag))
        start = min(_HEAD_START, len(bursts))
        for number, (sender, index) in enumerate(bursts, 1):
            burst = self._streams.burst(sender, index * self._burst, self._burst)
            self._sending.sendto(burst, self._to)
            if number == start:
                self._gate.open()
        self.parts += 1
        self._until_done(self.parts)

    def _until_done(self, parts: int) -> None:
        """Take sums until the measured process waits for another part."""
        end = time.monotonic() + _STALL_S
        while not self._gate.reached(parts):
            if time.monotonic() > end:
                raise RuntimeError(f"{self._kind} is stuck: {self._sink.blocks} sums came back")
            self._sink.drain()
            time.sleep(_NAP_S)


def measure(
    kind: Kind, shape: Shape, streams: Streams, seconds: float, ring_mb: int
) -> tuple[float, float]:
    """Gigabits per CPU second of one engine, and its waits in a part."""
    with Trial(kind, shape, streams, ring_mb) as trial:
        trial.load(_WARM_UP_S)
        load = trial.load(seconds)
    return load.datagrams * shape.size * 8 / load.cpu_ns, load.waits


def compare(
    shape: Shape, kinds: Sequence[Kind], seconds: float, repeats: int, ring_mb: int
) -> list[dict[str, Any]]:
    """One row for each engine: medians over the repeats, in which the engines take turns."""
    streams = Streams(shape, seed=1)
    rates: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    for repeat in range(repeats):
        for kind in kinds:
            rate, waits = measure(kind, shape, streams, seconds, ring_mb)
            rates[kind].append(rate)
            print(
                f"{shape.size} B, {shape.senders} senders, {kind}, repeat {repeat + 1}: "
                f"{rate:.1f} Gbit/s, {waits:.1f} waits in a part",
                file=sys.stderr,
                flush=True,
            )
    return [_row(shape, kind, rates) for kind in kinds]


def soak(shape: Shape, seconds: float, ring_mb: int) -> dict[str, Any]:
    """Whether time per datagram or memory grow while parts of rounds go by.

    Returns
    -------
    dict
        Parts and datagrams taken; nanoseconds of CPU per datagram in the first and in
        the last quarter of the time (medians of its spans) and their ratio; growth of the
        memory in use from the end of the first span on.
    """
    spans = 12
    with Trial("native", shape, Streams(shape, seed=1), ring_mb) as trial:
        while trial.parts * shape.blocks * shape.size < 1.1 * (ring_mb << 20):
            trial.load(_WARM_UP_S)  # until all of the ring has been touched
        each_ns, resident = [], []
        for _ in range(spans):
            load = trial.load(seconds / spans)
            each_ns.append(load.cpu_ns / load.datagrams)
            resident.append(trial.resident_bytes())
        parts = trial.parts
    first, last = statistics.median(each_ns[:3]), statistics.median(each_ns[-3:])
    return {
        "soak_s": seconds,
        "datagram_bytes": shape.size,
        "blocks": shape.blocks,
        "parts": parts,
        "datagrams": parts * shape.datagrams,
        "ns_per_datagram_first": round(first, 1),
        "ns_per_datagram_last": round(last, 1),
        "time_growth": round(last / first, 3),
        "memory_growth_bytes": resident[-1] - resident[0],
    }


def _row(shape: Shape, kind: Kind, rates: dict[Kind, list[float]]) -> dict[str, Any]:
    ratios = [own / bound for own, bound in zip(rates[kind], rates.get("bound", ()), strict=False)]
    return {
        "datagram_bytes": shape.size,
        "senders": shape.senders,
        "held_blocks": shape.held_blocks,
        "engine": kind,
        "gbps_per_core": round(statistics.median(rates[kind]), 1),
        "gbps_least": round(min(rates[kind]), 1),
        "gbps_most": round(max(rates[kind]), 1),
        "ratio_to_bound": round(statistics.median(ratios), 3) if ratios else None,
    }


def _pin(core: int) -> None:
    """Keep this process on one of the cores it may use."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1400, 8900], help="datagram bytes")
    parser.add_argument("--senders", type=int, default=8, help="streams that are added up")
    parser.add_argument("--buffers", type=int, default=704, help="of one part, of all senders")
    parser.add_argument("--lag", type=int, default=2, help="bursts that a sender is behind")
    parser.add_argument("--ring-mb", type=int, default=_RING_MB, help="sums kept to be sent again")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--engines", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--soak-s", type=float, default=6.0, help="seconds of the soak; 0: none")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("only one core: load and engine share it", file=sys.stderr)
    _pin(1)

    def shape(size: int, buffers: int) -> Shape:
        each = max(1, buffers // options.senders)
        return Shape(size, options.senders, each * segments(size), options.lag)

    rows = []
    for size in options.sizes:
        datagram_elements(size)
        rows += compare(
            shape(size, options.buffers),
            options.engines,
            options.seconds,
            options.repeats,
            options.ring_mb,
        )
    result: dict[str, Any] = {"rows": rows, "load_average": os.getloadavg()[0]}
    if options.soak_s:
        result["soak"] = [
            soak(shape(options.sizes[0], buffers), options.soak_s / 2, options.ring_mb)
            for buffers in (options.buffers // 8, options.buffers * 2)
        ]
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

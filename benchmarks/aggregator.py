"""How many gigabits a second of one core the aggregator takes in, adds, and sends on.

Run with ``python -m benchmarks.aggregator``. Senders and the sink of the sums are
one process on another core; everything goes through the loopback interface,
each burst with UDP_SEGMENT and UDP_GRO. The figure is bytes of UDP payload
received per CPU second (user and system) of the measured process, which checks
and adds every datagram, writes each finished sum with header and checksum into
the resend ring, and sends it from there.

``bound`` is a loop in C that receives and adds, nothing else: no checksum, no
table, no output. ``ratio_to_bound`` compares with it, repeat by repeat. The last
line is one JSON object.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agents.native.build import ensure_kernel_library
from benchmarks.aggregator_load import (
    Shape,
    Sink,
    Streams,
    datagram_elements,
    receiving_socket,
    segments,
    sending_socket,
)
from benchmarks.aggregator_side import KINDS, LIVE_ROUNDS, Board, Kind, run_side

_STALL_S = 5.0
_NAP_S = 1e-4
_AHEAD = 6
"""Bursts that each sender may be ahead of the sums, so that the engine need not wait for it."""
_WARM_UP_S = 0.3
_RESEND_BYTES = 32 << 20


class Trial:
    """One measurement: a forked process on one core, its load on the other."""

    def __init__(self, kind: Kind, shape: Shape, streams: Streams) -> None:
        self._kind: Kind = kind
        self._shape = shape
        self._streams = streams
        self.board = Board()
        self._sink = Sink(shape, streams.sums)
        self._incoming = receiving_socket()
        self._to = self._incoming.getsockname()
        self._sending = sending_socket(shape.size)
        self._burst = segments(shape.size)
        self.sent = 0
        self.round = 0

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
                    self.board,
                    resend_bytes=_RESEND_BYTES,
                )
                status = 0
            except BaseException:  # the child must say what ended it
                traceback.print_exc()
            finally:
                os._exit(status)
        self._incoming.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.board.values[Board.PHASE] = 2
        status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        self._sending.close()
        self._sink.socket.close()
        if status:
            raise RuntimeError(f"the measured process ended with status {status}")
        if self._sink.wrong or self.board.values[Board.REFUSED]:
            raise RuntimeError(
                f"{self._sink.wrong} wrong sums, {self.board.values[Board.REFUSED]} datagrams "
                "refused: the figure means nothing"
            )

    def load(self, seconds: float) -> None:
        """Send round after round for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._send_round()

    def measure(self, seconds: float) -> None:
        """Send for so long, measured."""
        self.board.values[Board.PHASE] = 1
        self.load(seconds)
        self.board.values[Board.PHASE] = 2

    def used_ns(self) -> int:
        """CPU time that the measured process has used so far."""
        return int(Path(f"/proc/{self._child}/schedstat").read_text().split()[0])

    def resident_bytes(self) -> int:
        """Memory of the measured process that is its own."""
        pages = Path(f"/proc/{self._child}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")

    def _send_round(self) -> None:
        shape, burst = self._shape, self._burst
        self._until(self._is_open)
        self._streams.turn(self.round)
        bursts = -(-shape.blocks // burst)
        behind = (shape.senders - 1) * shape.lag
        for step in range(bursts + behind):
            for sender in range(shape.senders):
                index = step - sender * shape.lag
                if 0 <= index < bursts:
                    first = index * burst
                    count = min(burst, shape.blocks - first)
                    self._sending.sendto(self._streams.burst(sender, first, count), self._to)
                    self.sent += count
            self._wait(step - behind - _AHEAD)
        self.round += 1
        self._wait(bursts)

    def _wait(self, bursts: int) -> None:
        """Wait until so many bursts of the round have come back, or were added by the bound."""
        due = self.round * self._shape.blocks + max(0, bursts) * self._burst
        if bursts * self._burst >= self._shape.blocks:
            due = self.round * self._shape.blocks
        self._until(lambda: self._reached(due))

    def _until(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + _STALL_S
        while not reached():
            if time.monotonic() > end:
                came = self._sink.blocks
                raise RuntimeError(f"{self._kind} is stuck: {came} sums came back, none more")

    def _is_open(self) -> bool:
        """Whether the engine has opened the round that is to be sent next."""
        if self._kind == "bound" or self.round < self.board.values[Board.ROUND] + LIVE_ROUNDS:
            return True
        time.sleep(_NAP_S)
        return False

    def _reached(self, due: int) -> bool:
        if self._kind == "bound":
            held = self._shape.held_blocks * self._shape.senders
            return self.sent - int(self.board.values[Board.DONE]) <= held
        self._sink.drain(wait=self._sink.blocks < due)
        return self._sink.blocks >= due


def measure(kind: Kind, shape: Shape, streams: Streams, seconds: float) -> float:
    """Gigabits per CPU second of one engine."""
    with Trial(kind, shape, streams) as trial:
        trial.load(_WARM_UP_S)
        trial.measure(seconds)
    board = trial.board.values
    return float(board[Board.BYTES]) * 8 / float(board[Board.CPU_NS])


def compare(
    shape: Shape, kinds: Sequence[Kind], seconds: float, repeats: int
) -> list[dict[str, Any]]:
    """One row for each engine: medians over the repeats, in which the engines take turns."""
    streams = Streams(shape, seed=1)
    rates: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    for repeat in range(repeats):
        for kind in kinds:
            rate = measure(kind, shape, streams, seconds)
            rates[kind].append(rate)
            print(
                f"{shape.size} B, {shape.senders} senders, {kind}, repeat {repeat + 1}: "
                f"{rate:.1f} Gbit/s",
                file=sys.stderr,
                flush=True,
            )
    return [_row(shape, kind, rates) for kind in kinds]


def soak(shape: Shape, seconds: float) -> dict[str, Any]:
    """Whether time per datagram or memory grow while rounds go by.

    Returns
    -------
    dict
        Rounds and datagrams taken; nanoseconds of CPU per datagram in the first and in
        the last quarter of the time (medians of its parts) and their ratio; growth of the
        memory in use from the end of the first part on.
    """
    parts = 12
    with Trial("native", shape, Streams(shape, seed=1)) as trial:
        while trial.round * shape.blocks * shape.size < 1.1 * _RESEND_BYTES:
            trial.load(_WARM_UP_S)  # until all of the ring has been touched
        each_ns, resident = [], []
        for _ in range(parts):
            before = trial.sent, trial.used_ns()
            trial.load(seconds / parts)
            after = trial.sent, trial.used_ns()
            each_ns.append((after[1] - before[1]) / (after[0] - before[0]))
            resident.append(trial.resident_bytes())
        rounds, sent = trial.round, trial.sent
    first, last = statistics.median(each_ns[:3]), statistics.median(each_ns[-3:])
    return {
        "soak_s": seconds,
        "datagram_bytes": shape.size,
        "blocks": shape.blocks,
        "rounds": rounds,
        "datagrams": sent,
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
    parser.add_argument("--blocks", type=int, default=1024, help="blocks of one stream and round")
    parser.add_argument("--lag", type=int, default=2, help="bursts that a sender is behind")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--engines", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--soak-s", type=float, default=6.0, help="seconds of the soak; 0: none")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("only one core: load and engine share it", file=sys.stderr)
    ensure_kernel_library()
    _pin(1)
    rows = []
    for size in options.sizes:
        datagram_elements(size)
        shape = Shape(size, options.senders, options.blocks, options.lag)
        rows += compare(shape, options.engines, options.seconds, options.repeats)
    result: dict[str, Any] = {"rows": rows, "load_average": os.getloadavg()[0]}
    if options.soak_s:
        result["soak"] = [
            soak(Shape(options.sizes[0], options.senders, blocks, options.lag), options.soak_s / 2)
            for blocks in (options.blocks // 4, options.blocks * 4)
        ]
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

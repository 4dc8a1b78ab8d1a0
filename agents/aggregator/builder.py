"""Builds the aggregator's datagrams, each in its row of the ring."""

from collections.abc import Callable

import numpy as np
from crc32c import crc32c

from agents.aggregator.ring import ResendRing
from agents.aggregator.table import Emission
from agents.bursts import Headers
from agents.records import Kind, Recorder
from agents.wire import (
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC,
    VERSION,
    Cause,
    DType,
    PacketType,
    Values,
    datagram_bytes,
)


class DatagramBuilder:
    """Turns sums that leave into datagrams, and records them.

    Parameters
    ----------
    ring
        Where the datagrams are built.
    send
        Sends what has been built; called at the latest when ``burst`` datagrams wait.
    burst
        Datagrams per call of ``send``.
    recorder, start_ns
        Gets one event per run of consecutive blocks; times since the start of round 0.
    job_id, epoch, city, dtype
        Header fields that never change.
    """

    def __init__(
        self,
        ring: ResendRing,
        send: Callable[[], None],
        burst: int,
        recorder: Recorder,
        *,
        start_ns: int,
        job_id: int,
        epoch: int,
        city: int,
        dtype: DType = DType.I32,
    ) -> None:
        self._ring = ring
        self._send = send
        self._burst = min(burst, ring.rows)
        self._recorder = recorder
        self._start_ns = start_ns
        self._city = city
        self._headers: Headers = ring.memory[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        self._payload: Values = ring.memory[:, HEADER_BYTES:].view(dtype.on_wire)
        self._element_bytes = dtype.element_bytes
        self._template = np.zeros(1, HEADER_DTYPE)
        fixed = {"magic": MAGIC, "version": VERSION, "type": PacketType.AGG, "dtype": dtype}
        fixed |= {"job_id": job_id, "epoch": epoch, "src": city}
        for name, value in fixed.items():
            self._template[name] = value
        self._cliques: dict[int, int] = {}
        self._now_ns = 0
        self._noted: list[int] | None = None

    def open_round(self, round_index: int, clique: int) -> None:
        """Remember the clique of a round."""
        self._cliques[round_index] = clique

    def close_round(self, round_index: int) -> None:
        """Forget a round; the last of its sums has been taken."""
        del self._cliques[round_index]

    def tick(self, now_ns: int) -> None:
        """Set the time that the next sums leave at."""
        self._now_ns = now_ns

    def take(self, emission: Emission) -> None:
        """Build the datagrams of sums that leave."""
        self._note(emission)
        ring, values, block = self._ring, emission.values, emission.block
        self._address(emission)
        while len(values):
            waiting = ring.next_seq - ring.sent_seq
            if waiting >= self._burst:
                self._send()
                waiting = 0
            part = values[: ring.room(self._burst - waiting)]
            self._build(block, part)
            block += len(part)
            values = values[len(part) :]

    def finish(self) -> None:
        """Record what has been built since the last call."""
        if self._noted is None:
            return
        round_index, block, count, bitmap, cause = self._noted
        self._recorder.add(
            self._now_ns - self._start_ns,
            round_index,
            Kind.AGGREGATE_OUT,
            self._city,
            block,
            count,
            bitmap,
            cause=cause,
        )
        self._noted = None

    def _note(self, emission: Emission) -> None:
        """Add sums to the event in the making, or begin a new one."""
        round_index, block, values, bitmap, cause = emission[:5]
        noted = self._noted
        follows = noted is not None and noted[1] + noted[2] == block
        if noted and follows and (noted[0], noted[3], noted[4]) == (round_index, bitmap, cause):
            noted[2] += len(values)
            return
        self.finish()
        self._noted = [round_index, block, len(values), bitmap, cause]

    def _address(self, emission: Emission) -> None:
        """Set the header fields that are the same in all datagrams of an emission."""
        template = self._template
        template["round"] = emission.round
        template["clique"] = self._cliques[emission.round]
        template["cause"] = Cause(emission.cause)
        template["bitmap"] = emission.bitmap
        template["weight"] = emission.bitmap.bit_count()
        template["flags"] = emission.flags
        template["exponent"] = emission.exponent
        template["n_elem"] = emission.values.shape[1]
        template["t_send_us"] = (self._now_ns - self._start_ns) // 1000 & 0xFFFFFFFF

    def _build(self, block: int, values: Values) -> None:
        """Fill the next rows; they do not cross the ring's end."""
        ring = self._ring
        count, width = values.shape
        seq, size = ring.next_seq, datagram_bytes(width, self._element_bytes)
        first = ring.row(seq)
        rows = slice(first, first + count)
        headers = self._headers[rows]
        headers[:] = self._template
        ramp = np.arange(count, dtype=np.uint64)
        headers["weight_id"] = ramp + np.uint64(block)
        headers["seq"] = (ramp + np.uint64(seq)) & np.uint64(0xFFFFFFFF)
        self._payload[rows, :width] = values
        ring.sizes[rows] = size
        ring.sent_ns[rows] = self._now_ns
        memory = ring.memory
        headers["crc"] = [crc32c(memory[row, :size]) for row in range(first, first + count)]
        ring.next_seq += count

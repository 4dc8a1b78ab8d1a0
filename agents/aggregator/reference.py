"""The engine in numpy: the table and a writer of datagrams behind one interface."""

from collections import Counter

import numpy as np

from agents.admission import misfit
from agents.aggregator.engine import EngineCounters, EngineSpec, Send, Traffic
from agents.aggregator.ring import ResendRing
from agents.aggregator.table import Emission, Table
from agents.bursts import Bytes, Run, parse, runs
from agents.records import Kind, Recorder
from agents.wire import (
    ELEMENT_DTYPE,
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC,
    VERSION,
    Cause,
    DType,
    PacketType,
    datagram_bytes,
    wire_bytes,
)
from crc32c import crc32c


class RingWriter:
    """Builds the datagrams of sums in the ring, and writes one event for each burst.

    Attributes
    ----------
    datagrams, wire_bytes
        Built so far, by round.
    """

    def __init__(self, spec: EngineSpec, ring: ResendRing, recorder: Recorder, send: Send) -> None:
        self.datagrams: Counter[int] = Counter()
        self.wire_bytes: Counter[int] = Counter()
        self._spec = spec
        self._ring = ring
        self._recorder = recorder
        self._send = send
        self._sent_seq = ring.next_seq
        self._now_ns = 0
        self._round = self._block = self._count = self._bitmap = 0
        self._cause = Cause.NONE

    def tick(self, now_ns: int) -> None:
        """Set the time that the next sums leave at."""
        self._now_ns = now_ns

    def take(self, emission: Emission) -> None:
        """Build the datagrams of consecutive sums."""
        for i, values in enumerate(emission.values):
            if self._ring.next_seq - self._sent_seq == self._ring.rows:
                self.send()
            self._note(emission, emission.block + i)
            self._build(emission, emission.block + i, values)

    def end_burst(self) -> None:
        """Write the event of the sums that were built last."""
        if self._count:
            since_start_ns = self._now_ns - self._spec.start_ns
            self._recorder.add(
                since_start_ns,
                self._round,
                Kind.AGGREGATE_OUT,
                self._spec.city,
                self._block,
                self._count,
                self._bitmap,
                cause=self._cause,
            )
        self._count = 0

    def send(self) -> None:
        """Send whatever was not sent yet."""
        count = self._ring.next_seq - self._sent_seq
        if count:
            self._send(self._sent_seq, count)
        self._sent_seq = self._ring.next_seq

    def _note(self, emission: Emission, block: int) -> None:
        """Count a sum to the event that is pending, or begin another one."""
        follows = (
            0 < self._count < self._spec.burst_datagrams
            and block == self._block + self._count
            and emission.round == self._round
            and emission.bitmap == self._bitmap
            and emission.cause == self._cause
            and self._ring.row(self._ring.next_seq) != 0
        )
        if not follows:
            self.end_burst()
            self._round, self._block = emission.round, block
            self._bitmap, self._cause = emission.bitmap, emission.cause
        self._count += 1

    def _build(self, emission: Emission, block: int, values: np.ndarray) -> None:
        spec, ring = self._spec, self._ring
        index, size = ring.row(ring.next_seq), datagram_bytes(len(values))
        row = ring.memory[index, :size]
        header = row[:HEADER_BYTES].view(HEADER_DTYPE)
        fields = {"magic": MAGIC, "version": VERSION, "type": PacketType.AGG, "flags": 0}
        fields |= {"dtype": DType.I32, "n_elem": len(values), "job_id": spec.job_id}
        fields |= {"epoch": spec.epoch, "round": emission.round, "src": spec.city}
        fields |= {"clique": spec.expectations[emission.round].clique, "cause": emission.cause}
        fields |= {"weight_id": block, "bitmap": emission.bitmap, "exponent": 0}
        fields |= {"seq": ring.next_seq & 0xFFFFFFFF, "weight": emission.bitmap.bit_count()}
        fields |= {"t_send_us": (self._now_ns - spec.start_ns) // 1000 & 0xFFFFFFFF, "crc": 0}
        for name, value in fields.items():
            header[name] = value
        row[HEADER_BYTES:].view(ELEMENT_DTYPE)[:] = values
        header["crc"] = crc32c(row)
        ring.sizes[index] = size
        ring.next_seq += 1
        self.datagrams[emission.round] += 1
        self.wire_bytes[emission.round] += wire_bytes(len(values))


class ReferenceEngine:
    """See `agents.aggregator.engine.Engine`."""

    def __init__(self, spec: EngineSpec, ring: ResendRing, recorder: Recorder, send: Send) -> None:
        self._spec = spec
        self._recorder = recorder
        self._writer = RingWriter(spec, ring, recorder, send)
        self._table = Table(
            spec.slots,
            spec.layout,
            self._writer.take,
            hashing=spec.hash,
            collision=spec.collision,
            timeout_ns=spec.timeout_ns,
        )
        self._rejects: Counter[str] = Counter()
        self._datagrams_in: Counter[int] = Counter()
        self._bytes_in: Counter[int] = Counter()
        self._closed: dict[int, tuple[int, int]] = {}
        self._live: set[int] = set()

    @property
    def occupied(self) -> int:
        """Blocks in memory."""
        return self._table.occupied

    @property
    def high_water(self) -> int:
        """Blocks in memory at most."""
        return self._table.high_water

    @property
    def next_timeout_ns(self) -> int:
        """When `expire` has something to look at."""
        return self._table.next_timeout_ns

    def open_round(self, round_index: int) -> None:
        """Accept contributions of a round."""
        self._live.add(round_index)
        self._table.open_round(round_index, self._spec.expectations[round_index].mask)

    def close_round(self, round_index: int, now_ns: int) -> None:
        """Let the held sums of a round leave and forget the round."""
        if round_index not in self._live:
            return
        self._writer.tick(now_ns)
        self._live.remove(round_index)
        self._closed[round_index] = self._table.progress(round_index)
        self._table.close_round(round_index)

    def progress(self, round_index: int) -> tuple[int, int]:
        """Contributions taken, and blocks complete before the round was closed."""
        if round_index in self._closed:
            return self._closed[round_index]
        return self._table.progress(round_index)

    def traffic(self, round_index: int) -> Traffic:
        """Datagrams that came and went in a round."""
        return Traffic(
            self._datagrams_in[round_index],
            self._bytes_in[round_index],
            self._writer.datagrams[round_index],
            self._writer.wire_bytes[round_index],
        )

    def take(self, buffer: Bytes, length: int, segment: int, now_ns: int) -> None:
        """Take a receive buffer apart and add what is in it."""
        self._writer.tick(now_ns)
        batches = parse(
            buffer,
            length,
            segment,
            kind=PacketType.DATA,
            job_id=self._spec.job_id,
            rejects=self._rejects,
        )
        for batch in batches:
            for run in runs(batch):
                self._add(run, now_ns)

    def expire(self, now_ns: int) -> None:
        """Let sums leave that are due."""
        self._writer.tick(now_ns)
        self._table.expire(now_ns)

    def flush(self, now_ns: int) -> None:
        """Send all that was built."""
        self._writer.tick(now_ns)
        self._writer.end_burst()
        self._writer.send()

    def counters(self) -> EngineCounters:
        """What happened so far."""
        counters = self._table.counters
        return EngineCounters(
            self._rejects + counters.drops, counters.emitted.copy(), counters.late
        )

    def _add(self, run: Run, now_ns: int) -> None:
        """Check a run of blocks against the plan and give it to the table."""
        count, width = run.values.shape
        reason = misfit(run, PacketType.DATA, self._spec)
        if reason:
            self._rejects[reason] += count
            return
        self._table.add(run.round, run.bitmap, run.block, run.values, now_ns)
        self._datagrams_in[run.round] += count
        self._bytes_in[run.round] += count * wire_bytes(width)
        self._recorder.add(
            now_ns - self._spec.start_ns,
            run.round,
            Kind.HELD,
            run.src,
            run.block,
            count,
            self._table.occupied,
        )

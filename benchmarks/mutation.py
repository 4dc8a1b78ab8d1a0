"""Datagrams that are almost right: valid ones of every type, then damaged on purpose.

Structure-aware: most damage is sealed with a correct checksum afterwards, so that it
gets past the first check. A whole receive buffer, as UDP_GRO would fill it, is made
at a time. Everything follows from one seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from agents.bursts import Bytes, Headers
from agents.recovery.serial import unwrap
from agents.wire import (
    ELEMENT_BYTES,
    HEADER_BYTES,
    HEADER_DTYPE,
    MAGIC,
    VERSION,
    DType,
    PacketType,
    StreamLayout,
    datagram_bytes,
)

Integers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

BUFFER_DATAGRAMS: Final = 64
"""As many as the kernel puts together at most."""
_SLACK_BYTES: Final = 9
_LEAST_CUT: Final = 20
_CONTROL_RANGES: Final = 8
_REPAIR_FLAG: Final = 1 << 7
_CONTROL_TYPES: Final = (
    PacketType.NACK,
    PacketType.HEARTBEAT,
    PacketType.UNAVAILABLE,
    PacketType.END_ROUND,
)
_DAMAGED_SHARES: Final = (0.0, 0.0, 0.02, 0.2, 1.0)
_INTERESTING: Final = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 63)
_FIELDS: Final = tuple(HEADER_DTYPE.names or ())
_CONSTANTS: Final = {"magic": MAGIC, "version": VERSION, "dtype": DType.I32}


@dataclass(frozen=True)
class Facts:
    """What makes a datagram valid for whoever is fuzzed."""

    kind: PacketType
    """The type that is added up there."""
    job_id: int
    layout: StreamLayout
    sources: tuple[int, ...]
    """Who may send: city indices."""
    mask: int
    """Whoever is expected, as bits."""
    clique: int
    follows_epochs: bool = True
    """Whether a later epoch takes the place of an earlier one."""


class Fed(NamedTuple):
    """One receive buffer."""

    buffer: Bytes
    length: int
    segment: int
    """Size of each datagram but the last."""

    @property
    def datagrams(self) -> int:
        """How many it holds; an empty one is one."""
        return max(1, -(-self.length // self.segment))


class Mutator:
    """An endless source of receive buffers.

    Parameters
    ----------
    facts
        What is valid.
    seed
        Of all choices.
    """

    def __init__(self, facts: Facts, seed: Sequence[int]) -> None:
        self._facts = facts
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(list(seed))))
        self._full_bytes = datagram_bytes(facts.layout.elements)
        rows = (BUFFER_DATAGRAMS, self._full_bytes + _SLACK_BYTES)
        self._rows = np.zeros(rows, np.uint8)
        self._headers: Headers = self._rows[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        self._buffer = np.zeros(1 << 16, np.uint8)
        self._epochs = np.ones(256, np.int64)
        self._next_seq = 0
        self._fronts: dict[tuple[int, int], int] = {}

    def next(self, rounds: Sequence[int]) -> Fed:
        """Make a buffer, for the rounds that are open; valid until the next call."""
        shape = self._random.random()
        if shape < 0.02:
            return self._garbage()
        if shape < 0.1:
            count, size, tail = self._fill_control(rounds)
        else:
            count, size, tail = self._fill(rounds, odd_size=shape < 0.2)
        rows = self._rows[:count, :size]
        damaged = self._damage(rows)
        self._seal(rows, tail, damaged)
        if self._facts.follows_epochs:
            self._follow_epochs(np.flatnonzero(damaged))
        length = (count - 1) * size + tail
        self._buffer[: count * size] = rows.reshape(-1)
        if shape > 0.98:  # cut at the wrong places
            return Fed(
                self._buffer, length, int(self._random.integers(_LEAST_CUT, 2 * size + _LEAST_CUT))
            )
        return Fed(self._buffer, length, size)

    def _chance(self, probability: float) -> bool:
        return bool(self._random.random() < probability)

    def _pick(self, values: Sequence[int]) -> int:
        return values[int(self._random.integers(len(values)))]

    def _garbage(self) -> Fed:
        """Noise, or nothing at all."""
        length = self._pick((0, 1, HEADER_BYTES - 1, HEADER_BYTES, 2000))
        self._buffer[:length] = self._random.integers(0, 256, length, np.uint8)
        return Fed(self._buffer, length, max(1, self._pick((7, 60, length))))

    def _fill(self, rounds: Sequence[int], *, odd_size: bool) -> tuple[int, int, int]:
        """Write valid datagrams into the first rows; their number, size, and the last one's."""
        layout, size = self._facts.layout, self._full_bytes
        count = int(self._random.integers(1, BUFFER_DATAGRAMS + 1))
        blocks = self._address(count, rounds)
        last = np.flatnonzero(blocks == layout.blocks - 1)
        if len(last):
            count = int(last[0]) + 1  # only the last datagram of a buffer may be short
        elements = np.full(count, layout.elements)
        tail = size
        if len(last):
            elements[-1] = layout.last_elements
            tail = datagram_bytes(layout.last_elements)
        if odd_size:
            size = tail = int(self._random.integers(1, size + _SLACK_BYTES))
            elements[:] = max(0, size - HEADER_BYTES) // ELEMENT_BYTES
        elif self._chance(0.05):
            tail = int(self._random.integers(1, size + 1))
        self._headers["n_elem"][:count] = elements
        return count, size, tail

    def _fill_control(self, rounds: Sequence[int]) -> tuple[int, int, int]:
        """Write datagrams of the recovery protocol: ranges of numbers near the latest."""
        count = int(self._random.integers(1, 5))
        ranges = int(self._random.integers(1, _CONTROL_RANGES + 1))
        size = datagram_bytes(2 * ranges)
        self._address(count, rounds)
        headers = self._headers[:count]
        headers["type"] = self._pick(_CONTROL_TYPES)
        headers["flags"] = _REPAIR_FLAG if self._chance(0.3) else 0
        headers["n_elem"] = 2 * ranges
        words = self._random.integers(0, 100, (count, ranges, 2))
        words[:, :, 0] = self._next_seq - words[:, :, 0] & 0xFFFFFFFF
        if self._chance(0.5):  # where a stream stands: the next number, and the oldest held
            words[:, 0] = self._next_seq & 0xFFFFFFFF, max(0, self._next_seq - 50) & 0xFFFFFFFF
        payload = self._rows[:count, HEADER_BYTES:size]
        payload[:] = words.astype("<u4").reshape(count, -1).view(np.uint8)
        return count, size, size

    def _numbers(self, count: int) -> Integers:
        """Sequence numbers: mostly those that follow, at times some are left out, or any."""
        choice = self._random.random()
        if choice < 0.1:
            self._next_seq += int(self._random.integers(1, 20))
        elif choice < 0.15:
            return self._next_seq - self._random.integers(0, 300) + np.arange(count) & 0xFFFFFFFF
        elif choice < 0.16:
            return self._random.integers(0, 1 << 32) + np.arange(count) & 0xFFFFFFFF
        self._next_seq += count
        return self._next_seq - count + np.arange(count) & 0xFFFFFFFF

    def _address(self, count: int, rounds: Sequence[int]) -> Integers:
        """Fill the headers: a run of one sender's stream, or datagrams at random."""
        facts, headers, blocks = self._facts, self._headers[:count], self._facts.layout.blocks
        round_index, src = self._pick(rounds), self._pick(facts.sources)
        front = self._fronts.get((round_index, src), 0)
        if self._chance(0.7):
            first = front
            self._fronts[round_index, src] = (front + count) % blocks
        else:
            first = int(self._random.integers(blocks))
        numbers = (first + np.arange(count)) % blocks
        sources = np.full(count, src)
        if self._chance(0.3):
            numbers = self._random.integers(0, blocks, count)
            sources = self._random.choice(facts.sources, count)
        for name, value in _CONSTANTS.items():
            headers[name] = value
        headers["type"] = facts.kind if self._chance(0.9) else self._pick(list(PacketType))
        headers["flags"] = 0
        headers["job_id"] = facts.job_id
        headers["round"] = round_index
        headers["clique"] = facts.clique
        headers["src"] = sources
        headers["epoch"] = self._epochs[sources] & 0xFFFFFFFF
        headers["weight_id"] = numbers
        headers["seq"] = self._numbers(count)
        headers["bitmap"] = self._bitmaps(sources)
        return numbers

    def _bitmaps(self, sources: Integers) -> npt.NDArray[np.uint64]:
        """Contributors: the source itself; of sums all that are expected, or some."""
        if self._facts.kind is PacketType.DATA:
            return np.uint64(1) << sources.astype(np.uint64)
        some = self._random.integers(0, 1 << 63, len(sources), np.uint64)
        if self._chance(0.5):
            some[:] = self._facts.mask
        return some & np.uint64(self._facts.mask)

    def _damage(self, rows: Bytes) -> Marks:
        """Damage some rows; which ones."""
        share = _DAMAGED_SHARES[int(self._random.integers(len(_DAMAGED_SHARES)))]
        damaged = self._random.random(len(rows)) < share
        chosen = np.flatnonzero(damaged)
        if len(chosen):
            kinds = self._random.integers(0, 4, len(chosen))
            self._edit_fields(chosen[kinds == 0])
            self._flip_bits(rows, chosen[kinds == 1])
            self._splice(rows, chosen[kinds == 2])
            self._scribble(rows, chosen[kinds == 3])
        return damaged

    def _edit_fields(self, chosen: Integers) -> None:
        """One header field of each: an interesting value, one beside it, or any."""
        for row in chosen.tolist():
            name = _FIELDS[int(self._random.integers(len(_FIELDS)))]
            limit = 8 * HEADER_DTYPE[name].itemsize
            value = int(self._headers[name][row])
            choice = int(self._random.integers(3))
            if choice == 0:
                value = self._pick(_INTERESTING)
            elif choice == 1:
                value += self._pick((-1, 1))
            else:
                value = int(self._random.integers(0, 1 << 63))
            value %= 1 << limit
            signed = HEADER_DTYPE[name].kind == "i" and value >> (limit - 1)
            self._headers[name][row] = value - (1 << limit) if signed else value

    def _flip_bits(self, rows: Bytes, chosen: Integers) -> None:
        """One bit of each, half of them in the header."""
        span = np.where(self._random.random(len(chosen)) < 0.5, HEADER_BYTES, rows.shape[1])
        at = self._random.integers(0, np.minimum(span, rows.shape[1]))
        rows[chosen, at] ^= np.uint8(1) << self._random.integers(0, 8, len(chosen), np.uint8)

    def _splice(self, rows: Bytes, chosen: Integers) -> None:
        """The head of one datagram and the rest of another."""
        cut = int(self._random.integers(0, rows.shape[1]))
        others = self._random.integers(0, len(rows), len(chosen))
        rows[chosen, cut:] = rows[others, cut:]

    def _scribble(self, rows: Bytes, chosen: Integers) -> None:
        """Noise instead of the rest."""
        cut = int(self._random.integers(0, rows.shape[1]))
        shape = (len(chosen), rows.shape[1] - cut)
        rows[chosen, cut:] = self._random.integers(0, 256, shape, np.uint8)

    def _follow_epochs(self, damaged: Integers) -> None:
        """Go on with an epoch that was raised by damage, or all that follows would be stale."""
        for row in damaged.tolist():
            src = int(self._headers["src"][row])
            epoch = unwrap(int(self._headers["epoch"][row]), int(self._epochs[src]))
            self._epochs[src] = max(int(self._epochs[src]), epoch)

    def _seal(self, rows: Bytes, tail: int, damaged: Marks) -> None:
        """Checksum all rows but a few of the damaged ones."""
        sealed = ~(damaged & (self._random.random(len(rows)) < 0.3))
        count, size = rows.shape
        crc = self._headers["crc"]
        for row in np.flatnonzero(sealed).tolist():
            bytes_ = tail if row == count - 1 else size
            if bytes_ >= HEADER_BYTES:
                crc[row] = 0
                crc[row] = crc32c(rows[row, :bytes_])

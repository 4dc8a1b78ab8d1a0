"""Seeded sequences of what may happen to an aggregator, to compare one table with another.

A trace is plain data: datagrams as they lie in a receive buffer, rounds that open
and close, and time that passes. The same seed makes the same trace.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from agents.bursts import Packer
from agents.context import Expectation
from agents.wire import DType, PacketType, StreamLayout

JOB_ID = 0x5EED
CITY = 0
LAYOUT = StreamLayout(blocks=41, elements=6, last_elements=2)
_SPECIAL_I32 = (-(1 << 31), -(1 << 31) + 1, -1, 0, 1, 1 << 30, (1 << 31) - 1)
_SPECIAL_F32 = (0, 1, 0x007FFFFF, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC12345)
_EXPONENTS = (-(1 << 15), -40, -3, -1, 0, 1, 2, 31, 33, (1 << 15) - 2, (1 << 15) - 1)
_MOST_DATAGRAMS = 7


class Step(NamedTuple):
    """One thing that happens; ``now_ns`` never decreases, but may stand still."""

    what: Literal["open", "close", "expire", "take"]
    now_ns: int
    round: int = 0
    data: bytes = b""
    segment: int = 1


@dataclass(frozen=True)
class Trace:
    """A sequence of steps and what a receiver has to know of them.

    Attributes
    ----------
    seed, adversarial
        An adversarial trace has extreme elements, flags, exponents, equal times,
        hot sets and mixed buffers; any trace has loss, duplicates, reordering and
        datagrams that must be refused.
    dtype, layout, senders
        Of the streams; senders are the cities 1, 2, …
    rounds, bursts
        How many.
    """

    seed: int
    adversarial: bool = False
    dtype: DType = DType.I32
    layout: StreamLayout = LAYOUT
    senders: int = 3
    rounds: int = 4
    bursts: int = 160
    job_id: int = JOB_ID
    city: int = CITY

    @cached_property
    def expectations(self) -> tuple[Expectation, ...]:
        """Whom the receiver expects; in some rounds one sender less, or one alone."""
        made = []
        for k in range(self.rounds):
            generator = np.random.default_rng([self.seed, 1, k])
            senders = tuple(range(1, self.senders + 1))
            if generator.random() < 0.3:
                senders = senders[: int(generator.integers(1, self.senders + 1))]
            made.append(Expectation(k, k * 1000, k % 3, senders, sum(1 << s for s in senders)))
        return tuple(made)

    def elements(self, round_index: int, src: int, block: int) -> np.ndarray:
        """What a sender sends, as on the wire; shape (n_elem,)."""
        generator = np.random.default_rng([self.seed, 2, round_index, src, block])
        count = self.layout.elements_of(block)
        if self.dtype in (DType.I32, DType.I32_EXPONENT):
            limit = (1 << 31) if self.adversarial else (1 << 20)
            values = generator.integers(-limit, limit, count)
            special = np.array(_SPECIAL_I32)
        else:
            drawn = generator.normal(0, 100, count).astype(np.float32)
            values = drawn.view(np.uint32).astype(np.int64)
            special = np.array(_SPECIAL_F32) | (generator.integers(0, 2) << 31)
        if self.adversarial:
            strange = generator.random(count) < generator.choice([0, 0.1, 0.9])
            values = np.where(strange, generator.choice(special, count), values)
        if self.dtype is DType.BF16:
            return (values >> 16).astype(np.uint16)
        return (
            values.astype(np.uint32).view(self.dtype.on_wire)
            if values.min() >= 0
            else (values.astype(np.int64).astype(np.int32).view(self.dtype.on_wire))
        )

    def flags_and_exponent(self, round_index: int, src: int, block: int) -> tuple[int, int]:
        """Header fields of a sender's block; the exponent is noise to most types."""
        generator = np.random.default_rng([self.seed, 3, round_index, src, block // 5])
        if not self.adversarial:
            return 0, int(generator.integers(-3, 4))
        flags = int(generator.integers(0, 256)) if generator.random() < 0.1 else 0
        return flags, int(generator.choice(_EXPONENTS))

    def datagram(self, round_index: int, src: int, block: int, **changes: Any) -> bytes:
        """A sender's datagram; ``changes`` are header fields to make it a misfit."""
        known = 0 <= round_index < self.rounds and block < self.layout.blocks
        key = (round_index, src, block) if known else (0, src, 0)
        flags, exponent = self.flags_and_exponent(*key)
        n_elem = self.layout.elements_of(block)
        packer = Packer(
            1,
            self.layout.elements,
            kind=changes.get("kind", PacketType.DATA),
            job_id=changes.get("job_id", self.job_id),
            epoch=7,
            src=src,
            dtype=changes.get("dtype", self.dtype),
        )
        payload = self.elements(*key).tobytes()
        room = packer.payload.view(np.uint8)
        room[0, : len(payload)] = np.frombuffer(payload, np.uint8)[: room.shape[1]]
        clique = self.expectations[key[0]].clique
        packer.address(
            round_index=round_index & 0xFFFFFFFF,
            clique=changes.get("clique", clique),
            bitmap=changes.get("bitmap", 1 << src),
            flags=flags,
            exponent=exponent,
        )
        return bytes(packer.seal(1, block, 0, 0, changes.get("n_elem", n_elem)))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What happens, in order."""
        return tuple(_Maker(self).make())


class _Maker:
    """Makes the steps of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rng = np.random.default_rng([trace.seed, 4])
        self._now_ns = 0
        self._at: Counter[tuple[int, int]] = Counter()

    def make(self) -> list[Step]:
        trace, rng = self._trace, self._rng
        steps = [Step("open", 0, 0)]
        per_round = max(1, trace.bursts // trace.rounds)
        for number in range(per_round * trace.rounds):
            newest, place = divmod(number, per_round)
            if place == 0 and newest > 0:
                if newest > 1:
                    steps.append(Step("close", self._now_ns, newest - 2))
                steps.append(Step("open", self._now_ns, newest))
            live = newest if rng.random() < 0.7 else max(0, newest - 1)
            steps.append(self._arrival(live))
            still = trace.adversarial and rng.random() < 0.5
            self._now_ns += 0 if still else int(rng.integers(1, 20))
            if rng.random() < 0.2:
                steps.append(Step("expire", self._now_ns))
        self._now_ns += 10_000
        steps.append(Step("expire", self._now_ns))
        closing = range(max(0, trace.rounds - 2), trace.rounds)
        return steps + [Step("close", self._now_ns, k) for k in closing]

    def _arrival(self, round_index: int) -> Step:
        """One receive buffer: mostly a sender's next blocks, sometimes something worse."""
        rng, kind = self._rng, self._rng.random()
        if kind < 0.05:
            data = rng.bytes(int(rng.integers(0, 400)))
            return Step("take", self._now_ns, 0, data, int(rng.integers(1, 300)))
        datagrams = self._burst(round_index)
        if kind < 0.2 or (self._trace.adversarial and kind < 0.4):
            datagrams.insert(int(rng.integers(0, len(datagrams) + 1)), self._misfit(round_index))
        if self._trace.adversarial and kind > 0.8:
            datagrams += self._burst(round_index)
            rng.shuffle(datagrams)
        size = max(len(d) for d in datagrams)
        full = [d for d in datagrams if len(d) == size][:_MOST_DATAGRAMS]
        short = [d for d in datagrams if len(d) < size][-1:]  # only the last one may be short
        data = b"".join(full + short)
        if rng.random() < 0.03:
            data = data[: int(rng.integers(1, len(data) + 1))]
        if rng.random() < 0.03:
            place = int(rng.integers(0, len(data)))
            data = (
                data[:place]
                + bytes([data[place] ^ 1 << int(rng.integers(0, 8))])
                + data[place + 1 :]
            )
        return Step("take", self._now_ns, 0, data, size)

    def _burst(self, round_index: int) -> list[bytes]:
        """Consecutive blocks of one sender: new ones, or a repetition, or from anywhere."""
        trace, rng = self._trace, self._rng
        src = int(rng.integers(1, trace.senders + 1))
        key, kind = (round_index, src), rng.random()
        block = self._at[key]
        if kind < 0.1:
            block = max(0, block - int(rng.integers(0, 8)))
        elif kind < 0.2:
            block = int(rng.integers(0, trace.layout.blocks))
        count = int(rng.integers(1, _MOST_DATAGRAMS + 1))
        blocks = range(block % trace.layout.blocks, trace.layout.blocks)[:count]
        self._at[key] = blocks[-1] + 1
        kept = [b for b in blocks if rng.random() >= 0.05] or [blocks[0]]
        return [trace.datagram(round_index, src, b) for b in kept]

    def _misfit(self, round_index: int) -> bytes:
        """A datagram that has to be refused."""
        trace, rng = self._trace, self._rng
        src, block = int(rng.integers(1, trace.senders + 1)), int(rng.integers(trace.layout.blocks))
        others = [dtype for dtype in DType if dtype is not trace.dtype]
        changes: list[dict[str, Any]] = [
            {"job_id": trace.job_id ^ 1},
            {"kind": PacketType.AGG},
            {"dtype": others[int(rng.integers(0, 3))]},
            {"clique": 77},
            {"bitmap": 1 << src | 1},
            {"bitmap": 0},
            {"bitmap": 1 << 63},
            {"n_elem": 1},
        ]
        choice = int(rng.integers(0, len(changes) + 4))
        if choice < len(changes):
            return trace.datagram(round_index, src, block, **changes[choice])
        strange = [(round_index, src, 1 << 40), (1 << 32, src, 0), (trace.rounds, src, 0)]
        strange.append((round_index, trace.city, block))
        return trace.datagram(*strange[choice - len(changes)])

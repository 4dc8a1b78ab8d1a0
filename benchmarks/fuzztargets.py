"""What is fuzzed: the aggregator's engine and the island's collector, each for one episode.

Both are the real objects. The engine is handed receive buffers, the collector gets
its datagrams through its own socket.
"""

import os
import socket
from collections import Counter
from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from agents.aggregator.engine import Engine, EngineSettings, ReferenceEngine
from agents.aggregator.ring import ResendRing
from agents.averaging import Replay, start_tables
from agents.bursts import Headers
from agents.collector import Collector
from agents.context import AgentContext, Endpoint
from agents.records import Recorder
from agents.state import State
from agents.weights import Weights
from agents.wire import HEADER_BYTES, HEADER_DTYPE, PacketType, datagram_bytes
from benchmarks.mutation import BUFFER_DATAGRAMS, Facts, Fed
from controller.planner import make_plan
from controller.schedule import load_schedule
from testbed.errors import CliquenetError
from testbed.topology import load_topology

ROUNDS: Final = 8
_CITY: Final = 0
_MTU_BYTES: Final = 212
"""32 elements a datagram: the format is what is fuzzed, not the additions."""
_BLOCKS: Final = 399.6
_WIRE_BYTES: Final = 98 + 4 * 32
_SLOTS: Final = 121
_TIMEOUT_NS: Final = 3_000_000
_BURST: Final = 4
_RING_ROWS: Final = 64
_SCALE: Final = 100.0
"""An access link of 1 Gbit/s: resends are limited to a share of it."""
_RESEND_MS: Final = 50.0
_EPOCH: Final = 1
NOBODY_PORT: Final = 9
_RULES: Final = (
    (1, 2, 4),
    ("evict-old", "forward-new", "priority"),
    ("mod", "mix"),
    (False, True),
)
_VARIANTS: Final = prod(map(len, _RULES))
_SOL_UDP: Final = 17
_UDP_SEGMENT: Final = 103


class FuzzError(CliquenetError):
    """A check failed: what was found."""


class Loopback:
    """Addresses on this machine, where nobody listens but the own island.

    Parameters
    ----------
    island_port
        Of the own island; 0: any that is free.
    """

    def __init__(self, island_port: int = 0) -> None:
        self._island_port = island_port

    def island(self, city: int) -> Endpoint:
        """Address of a city's island."""
        return "127.0.0.1", self._island_port if city == _CITY else NOBODY_PORT

    def aggregator(self, _city: int) -> Endpoint:
        """Address of a city's aggregator."""
        return "127.0.0.1", NOBODY_PORT

    def control(self, _city: int) -> Endpoint:
        """Where a city's aggregator hears requests."""
        return "127.0.0.1", NOBODY_PORT

    def group(self, _round_index: int, _sender: int) -> Endpoint:
        """No multicast here."""
        raise NotImplementedError

    def path(self, _city: int, _tag: int) -> Endpoint:
        """No collective here."""
        raise NotImplementedError


def fuzz_context() -> AgentContext:
    """One city of nine that all exchange with each other, in blocks of 32 elements."""
    topology = load_topology("nine-cities")
    plan = make_plan(
        topology,
        load_schedule("all-to-all", topology),
        payload_bytes=_BLOCKS * _WIRE_BYTES * _SCALE,
        memory_bytes=32e9,
        scale=_SCALE,
        rounds=ROUNDS,
        multicast=False,
    )
    return AgentContext(
        plan=plan,
        city=_CITY,
        start_ns=0,
        out_dir=Path(os.devnull).parent,
        mtu_bytes=_MTU_BYTES,
        resend_ms=_RESEND_MS,
        repair=True,
        addresses=Loopback(),
    )


class Target(Protocol):
    """One episode: `ROUNDS` rounds, at most two of them open."""

    facts: Facts

    def feed(self, fed: Fed, now_ns: int) -> None:
        """Hand over a buffer and check what can be checked at once."""

    def change_rounds(self, closing: int | None, opening: int | None, now_ns: int) -> None:
        """Close a round and open another."""

    def accounts(self) -> Counter[str]:
        """Every datagram so far under ``accepted`` or the reason why it was refused."""

    def close(self) -> None:
        """Let go of everything."""


def facts_of(ctx: AgentContext, kind: PacketType) -> Facts:
    """What is valid for the city of a context, which adds up datagrams of such a type."""
    expectation = ctx.expectations[0]
    sources = expectation.senders if kind is PacketType.DATA else (ctx.city,)
    return Facts(kind, ctx.job_id, ctx.layout, sources, expectation.mask, expectation.clique)


MakesEngine = Callable[[EngineSettings, ResendRing, Callable[[], None], Recorder], Engine]
"""An engine's class, or what stands for it."""


class EngineTarget:
    """The aggregator's engine, with its ring; what leaves is checked as an island would.

    Parameters
    ----------
    ctx, variant, make
        The run, a number that chooses the table's rules, and which engine.
    """

    def __init__(
        self, ctx: AgentContext, variant: int, make: MakesEngine = ReferenceEngine
    ) -> None:
        self.facts = facts_of(ctx, PacketType.DATA)
        self._ring = ResendRing(_RING_ROWS, datagram_bytes(ctx.layout.elements))
        self._headers: Headers = self._ring.memory[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        settings = EngineSettings(
            city=ctx.city,
            job_id=ctx.job_id,
            epoch=_EPOCH,
            start_ns=0,
            layout=ctx.layout,
            slots=_SLOTS,
            burst_datagrams=_BURST,
            timeout_ns=_TIMEOUT_NS,
            **_rules(variant),
        )
        self._engine = make(settings, self._ring, self._send, Recorder())
        self._left = np.zeros((ROUNDS, ctx.layout.blocks), np.uint64)
        self._live: list[int] = []
        self._accepted = 0

    def feed(self, fed: Fed, now_ns: int) -> None:
        """Hand over a buffer and check what can be checked at once."""
        engine = self._engine
        engine.take(fed.buffer, fed.length, fed.segment, now_ns)
        if now_ns >= engine.next_timeout_ns:
            engine.expire(now_ns)
        self._send()
        if not 0 <= engine.occupied <= engine.high_water <= _SLOTS:
            raise FuzzError(
                f"{engine.occupied} slots in use, {engine.high_water} at most, of {_SLOTS}"
            )

    def change_rounds(self, closing: int | None, opening: int | None, now_ns: int) -> None:
        """Close a round and open another."""
        if closing is not None:
            self._accepted += self._engine.progress(closing).contributions
            self._engine.close_round(closing, now_ns)
            self._live.remove(closing)
        if opening is not None:
            self._engine.open_round(opening, self.facts.clique, self.facts.mask)
            self._live.append(opening)
        self._send()
        if not self._live and self._engine.occupied:
            raise FuzzError(f"{self._engine.occupied} slots are in use after the last round")

    def accounts(self) -> Counter[str]:
        """Every datagram so far under ``accepted`` or the reason why it was refused."""
        live = sum(self._engine.progress(k).contributions for k in self._live)
        return self._engine.counters.drops + Counter(accepted=self._accepted + live)

    def close(self) -> None:
        """Nothing is held beyond the object itself."""

    def _send(self) -> None:
        """Check what waits in the ring: contributors of a block's sums never overlap."""
        ring = self._ring
        for seq in range(ring.sent_seq, ring.next_seq):
            header = self._headers[ring.row(seq)]
            place = int(header["round"]), int(header["weight_id"])
            bitmap = np.uint64(header["bitmap"])
            if header["seq"] != seq or self._left[place] & bitmap or not bitmap:
                raise FuzzError(f"datagram {seq} of block {place} repeats a contributor: {header}")
            self._left[place] |= bitmap
        ring.sent_seq = ring.next_seq


def _rules(variant: int) -> dict[str, Any]:
    """One of the 36 combinations of the table's rules; sums in order where streams are held."""
    ways, collision, hashing, held = tuple(product(*_RULES))[variant % _VARIANTS]
    return {
        "ways": ways,
        "collision": collision,
        "hashing": hashing,
        "memory_model": "hold" if held else "accumulate",
        "ordered": held,
    }


class IslandTarget:
    """The island's collector, with its state and its recovery, fed through its socket."""

    def __init__(self, ctx: AgentContext, _variant: int) -> None:
        self.facts = facts_of(ctx, PacketType.AGG)
        weights = Weights(ctx.seed, ctx.layout)
        tables = start_tables(ctx.seed, len(ctx.plan.topology.codes), weights.shape)
        self._file = Path(os.devnull).open("wb")  # noqa: SIM115 - closed by `close`
        state = State(tables[ctx.city], 1 << ctx.city, ctx.expectations, weights, self._file)
        replay = Replay(ctx.plan, ctx.city, tables)
        self._collector = Collector(ctx, weights, state, replay, _EPOCH, Recorder())
        if self._collector.recovery is None:
            raise FuzzError("the collector was made without recovery")
        self._recovery = self._collector.recovery
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(self._collector.socket.address)
        self._live: list[int] = []
        self._accepted = 0

    def feed(self, fed: Fed, now_ns: int) -> None:
        """Send a buffer and let the collector receive all of it."""
        step = fed.segment * BUFFER_DATAGRAMS
        self._socket.setsockopt(_SOL_UDP, _UDP_SEGMENT, fed.segment)
        for start in range(0, max(1, fed.length), step):
            self._socket.send(fed.buffer[start : min(start + step, fed.length)].tobytes())
        while self._collector.socket.wait(0):
            self._collector.receive(now_ns)
        self._recovery.poll(now_ns)
        if self._collector.socket.overflow:
            raise FuzzError(f"the socket lost {self._collector.socket.overflow} datagrams")

    def change_rounds(self, closing: int | None, opening: int | None, now_ns: int) -> None:
        """Close a round and open another."""
        if closing is not None:
            self._accepted += self._collector.accepted(closing)
            self._collector.close_round(closing)
            self._live.remove(closing)
        if opening is not None:
            self._collector.open_round(opening)
            self._live.append(opening)

    def accounts(self) -> Counter[str]:
        """Every datagram so far under ``accepted`` or the reason why it was refused."""
        live = sum(self._collector.accepted(k) for k in self._live)
        recovery = self._recovery.counters()
        return Counter(self._collector.drops()) + Counter(
            accepted=self._accepted + live,
            control=recovery["control_datagrams"],
            resent=recovery["duplicate_datagrams"],
        )

    def close(self) -> None:
        """Close sockets and files."""
        self._collector.close()
        self._socket.close()
        self._file.close()

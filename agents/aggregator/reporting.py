"""From the daemon's tables and counters to its status, and where that goes."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from agents.aggregator.engine import Engine
from agents.aggregator.ring import ResendRing
from agents.aggregator.status import (
    LOG_SUFFIX,
    SOCKET_SUFFIX,
    MemoryStatus,
    OldestBlock,
    RoundStatus,
    Status,
    StatusServer,
    append_status,
    status_file,
)
from agents.aggregator.table import OpenBlock
from agents.context import NS_PER_MS, AgentContext
from agents.rounds import RoundWindow
from agents.weights import contributors
from agents.wire import ELEMENT_BYTES

NS_PER_S = 1_000_000_000
LEAD_NS = 20 * NS_PER_MS
"""How long before a change of rounds the log is written: more than between two polls."""


def engine_status(
    ctx: AgentContext,
    engine: Engine,
    ring: ResendRing,
    *,
    slots: int,
    live: Sequence[int],
    rejects: Counter[str],
    socket_overflow: int,
    recovery: Mapping[str, float],
    now_ns: int,
) -> Status:
    """The status of an aggregator with such an engine.

    Parameters
    ----------
    ctx, engine, ring
        The aggregator, what adds up there, and where its output stays.
    slots, live
        Of the engine's table; rounds that are open.
    rejects, socket_overflow
        Datagrams that never came to the engine: refused by reason, and lost before the socket.
    recovery
        Counters of the resend protocol.
    now_ns
        CLOCK_MONOTONIC.
    """
    block_bytes = ctx.layout.elements * ELEMENT_BYTES
    counters = engine.counters
    return Status(
        city=ctx.code,
        time_ms=(now_ns - ctx.start_ns) / NS_PER_MS,
        memory=MemoryStatus(
            total_bytes=slots * block_bytes + ring.memory.nbytes,
            block_bytes=block_bytes,
            slots=slots,
            occupied_slots=engine.occupied,
            high_water_slots=engine.high_water,
            ring_bytes=ring.memory.nbytes,
            ring_held_s=_held_s(ring, now_ns),
        ),
        rounds=tuple(_round_status(ctx, engine, k) for k in sorted(live)),
        oldest=_oldest(ctx, engine.oldest(), now_ns),
        emitted_blocks=dict(counters.emitted),
        late_blocks=counters.late,
        saturated_blocks=counters.saturated,
        nonfinite_blocks=counters.nonfinite,
        drops=dict(counters.drops + rejects),
        socket_overflow=socket_overflow,
        recovery=dict(recovery),
    )


def _held_s(ring: ResendRing, now_ns: int) -> float:
    if ring.next_seq == 0:
        return 0.0
    return (now_ns - int(ring.sent_ns[ring.row(ring.oldest_seq)])) / NS_PER_S


def _round_status(ctx: AgentContext, engine: Engine, round_index: int) -> RoundStatus:
    expectation, codes = ctx.expectations[round_index], ctx.plan.topology.codes
    seen = engine.seen(round_index)
    came = {codes[city]: _came(seen, city) for city in expectation.senders}
    return RoundStatus(
        round=round_index,
        clique=expectation.clique,
        expected_blocks=ctx.layout.blocks if expectation.senders else 0,
        complete_blocks=engine.progress(round_index).complete,
        contributions={code: count for code, (count, _) in came.items()},
        gaps={code: end - count for code, (count, end) in came.items()},
    )


def _came(seen: npt.NDArray[np.uint64], city: int) -> tuple[int, int]:
    """How many blocks a sender has delivered, and one more than the last of them."""
    blocks = np.flatnonzero(seen >> np.uint64(city) & np.uint64(1))
    return len(blocks), int(blocks[-1]) + 1 if len(blocks) else 0


def _oldest(ctx: AgentContext, held: OpenBlock | None, now_ns: int) -> OldestBlock | None:
    if held is None:
        return None
    codes = ctx.plan.topology.codes
    return OldestBlock(
        round=held.round,
        block=held.block,
        age_ms=(now_ns - held.first_ns) / NS_PER_MS,
        missing=tuple(codes[city] for city in contributors(held.missing)),
    )


class StatusReporter:
    """Tells an aggregator's status: on its socket, if it has one, and in its log.

    The log gets a line shortly before each change of rounds and one at the end, when
    the ``with`` block is left: it is how the host sees into a virtual machine,
    whose sockets end at its border.

    Parameters
    ----------
    ctx
        Says where, and whether there is a socket.
    snapshot
        Makes the status.
    """

    def __init__(self, ctx: AgentContext, snapshot: Callable[[], Status]) -> None:
        self._snapshot = snapshot
        self._window = RoundWindow(ctx)
        self._log = status_file(ctx.out_dir, ctx.code, LOG_SUFFIX)
        path = status_file(ctx.out_dir, ctx.code, SOCKET_SUFFIX)
        self._server = StatusServer(path, snapshot) if ctx.status_socket else None

    def __enter__(self) -> "StatusReporter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        if kind is None:
            append_status(self._log, self._snapshot())

    def poll(self) -> None:
        """Serve whoever asks, and write what is due; never waits."""
        now_ns = time.monotonic_ns()
        if self._server is not None:
            self._server.poll(now_ns)
        if now_ns + LEAD_NS >= self._window.due_ns:
            append_status(self._log, self._snapshot())
            self._window.advance(now_ns + LEAD_NS)

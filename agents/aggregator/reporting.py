"""From the daemon's tables and counters to its status, and where that goes."""

from collections.abc import Callable, Mapping, Sequence

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
from agents.aggregator.table import Table
from agents.context import NS_PER_MS, AgentContext
from agents.weights import contributors
from agents.wire import ELEMENT_BYTES


def table_status(
    ctx: AgentContext,
    table: Table,
    live: Sequence[int],
    *,
    rejects: Mapping[str, int],
    socket_overflow: int,
    now_ns: int,
) -> Status:
    """The status of an aggregator with such a table.

    Parameters
    ----------
    ctx, table, live
        The aggregator, its table, and the rounds that are open there.
    rejects, socket_overflow
        Datagrams that never came to the table: refused by reason, and lost before the socket.
    now_ns
        CLOCK_MONOTONIC.
    """
    block_bytes = ctx.layout.elements * ELEMENT_BYTES
    drops = dict(rejects)
    for reason, count in table.counters.drops.items():
        drops[reason] = drops.get(reason, 0) + count
    return Status(
        city=ctx.code,
        time_ms=(now_ns - ctx.start_ns) / NS_PER_MS,
        memory=MemoryStatus(
            total_bytes=table.slots * block_bytes,
            block_bytes=block_bytes,
            slots=table.slots,
            occupied_slots=table.occupied,
            high_water_slots=table.high_water,
        ),
        rounds=tuple(_round_status(ctx, table, k) for k in sorted(live)),
        oldest=_oldest(ctx, table, now_ns),
        emitted_blocks=dict(table.counters.emitted),
        late_blocks=table.counters.late,
        drops=drops,
        socket_overflow=socket_overflow,
    )


def _round_status(ctx: AgentContext, table: Table, round_index: int) -> RoundStatus:
    expectation, codes = ctx.expectations[round_index], ctx.plan.topology.codes
    delivered = table.contributions(round_index)
    return RoundStatus(
        round=round_index,
        clique=expectation.clique,
        expected_blocks=ctx.layout.blocks if expectation.senders else 0,
        complete_blocks=table.progress(round_index)[1],
        contributions={codes[city]: delivered[city] for city in expectation.senders},
    )


def _oldest(ctx: AgentContext, table: Table, now_ns: int) -> OldestBlock | None:
    held = table.oldest()
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

    The log gets a line when `log` is called, at each change of rounds: it is how the
    host sees into a virtual machine, whose sockets end at its border.

    Parameters
    ----------
    ctx
        Says where, and whether there is a socket.
    snapshot
        Makes the status.
    """

    def __init__(self, ctx: AgentContext, snapshot: Callable[[], Status]) -> None:
        self._snapshot = snapshot
        self._log = status_file(ctx.out_dir, ctx.code, LOG_SUFFIX)
        path = status_file(ctx.out_dir, ctx.code, SOCKET_SUFFIX)
        self._server = StatusServer(path, snapshot) if ctx.status_socket else None

    def poll(self, now_ns: int) -> None:
        """Serve whoever asks; never waits."""
        if self._server is not None:
            self._server.poll(now_ns)

    def log(self) -> None:
        """Add the status to the log."""
        append_status(self._log, self._snapshot())

    def close(self) -> None:
        """Remove the socket."""
        if self._server is not None:
            self._server.close()

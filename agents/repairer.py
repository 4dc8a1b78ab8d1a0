"""The island asks senders themselves for blocks that no sum will bring any more.

That a block is lost is known when later ones are complete, when its sum came in part
because a time-out ended the wait, when its round has ended, or when a round should be
over by its plan and nothing of it comes any more: what an aggregator held when it died
is told by nobody.
"""

from collections.abc import Callable
from typing import Any

from agents.bursts import Run
from agents.context import NS_PER_MS, AgentContext
from agents.records import Kind, Recorder
from agents.recovery.bucket import datagram_bucket
from agents.recovery.control import REPAIR, Control, chunks, encode
from agents.recovery.gaps import NEVER_NS
from agents.recovery.overdue import Overdue
from agents.recovery.repair import Repairs, Request, Seen
from agents.recovery.rto import Rto
from agents.sockets import ControlSocket
from agents.wire import Cause, PacketType

REPAIR_SHARE = 0.25
"""Of the island's access link, for blocks that are asked for again."""
QUIET_NS = 20 * NS_PER_MS
"""How long nothing has to come, after its planned end, until a round is over."""
_RTO_MARGIN_NS = 20 * NS_PER_MS
_LONGEST_RTO_NS = 2000 * NS_PER_MS


class Repairer:
    """Asks for lost blocks.

    Parameters
    ----------
    ctx, epoch, socket, recorder
        The run, this process, what requests leave by, and what gets an event for each.
    seen
        What has come of a live round.
    """

    def __init__(
        self, ctx: AgentContext, epoch: int, socket: ControlSocket, recorder: Recorder, seen: Seen
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch
        self._socket = socket
        self._recorder = recorder
        size = ctx.layout.burst_bytes(0, 1)
        bucket = datagram_bucket(ctx.access_gbps, REPAIR_SHARE, size)
        self._repairs = Repairs(seen, self._timer, bucket)
        self._quiet_ns: dict[int, int] = {}
        self._overdue: dict[int, Overdue] = {}
        self._asked = 0
        self._arrived = 0

    @property
    def due_ns(self) -> int:
        """When `poll` has something to do."""
        overdue = (overdue.due_ns for overdue in self._overdue.values())
        return min(self._repairs.due_ns, *self._quiet_ns.values(), *overdue, NEVER_NS)

    def open_round(self, round_index: int) -> None:
        """Take up a round."""
        ctx = self._ctx
        expectation = ctx.expectations[round_index]
        if expectation.mask:
            self._repairs.open_round(round_index, expectation.mask, ctx.layout.blocks)
            planned_ns = round(ctx.plan.round(round_index).t_ms * NS_PER_MS)
            self._quiet_ns[round_index] = expectation.start_ns + planned_ns + QUIET_NS
            self._overdue[round_index] = Overdue()

    def close_round(self, round_index: int) -> None:
        """Forget a round."""
        self._repairs.close_round(round_index)
        self._quiet_ns.pop(round_index, None)
        self._overdue.pop(round_index, None)

    def lose(self, round_index: int, block: int, count: int, now_ns: int) -> None:
        """No sum completes these blocks of an open round any more."""
        self._repairs.lose(round_index, block, count, now_ns)

    def took(self, run: Run, kind: PacketType, now_ns: int) -> None:
        """Take note of what came, as a sum or from a sender itself."""
        count = len(run.values)
        if self._quiet_ns.get(run.round, NEVER_NS) != NEVER_NS:
            self._quiet_ns[run.round] = max(self._quiet_ns[run.round], now_ns + QUIET_NS)
        if kind is PacketType.DATA:
            self._arrived += count
            self._repairs.arrived(run.round, run.src, run.block, now_ns)
        elif run.round in self._overdue and run.bitmap == self._ctx.expectations[run.round].mask:
            self._overdue[run.round].complete(run.block + count, now_ns)
        elif run.cause == Cause.TIMEOUT:
            self._repairs.lose(run.round, run.block, count, now_ns)

    def refused(self, message: Control) -> None:
        """A sender says that it does not have a round any more."""
        self._repairs.refuse(message.round, message.src)

    def poll(self, now_ns: int, settled: Callable[[int], bool]) -> None:
        """Ask for what is due; ``settled`` says whether no sum of a round can come any more."""
        for round_index, quiet_ns in self._quiet_ns.items():
            if quiet_ns != NEVER_NS and (now_ns >= quiet_ns or settled(round_index)):
                self._quiet_ns[round_index] = NEVER_NS
                self._repairs.lose(round_index, 0, self._ctx.layout.blocks, now_ns)
        for round_index, overdue in self._overdue.items():
            end = overdue.poll(now_ns)
            if end:
                self._repairs.lose(round_index, 0, end, now_ns)
        for request in self._repairs.poll(now_ns):
            self._ask(request, now_ns)

    def counters(self) -> dict[str, Any]:
        """What was asked for, and what came."""
        return {
            "repair_nacks": self._asked,
            "repair_requested_blocks": self._repairs.requested,
            "repair_refused_blocks": self._repairs.refused,
            "repaired_blocks": self._arrived,
        }

    def _ask(self, request: Request, now_ns: int) -> None:
        ctx = self._ctx
        for ranges in chunks(request.ranges):
            message = Control(
                PacketType.NACK, ctx.city, self._epoch, request.round, self._asked, REPAIR, ranges
            )
            self._asked += 1
            self._socket.send(encode(message, ctx.job_id), ctx.addresses.island(request.source))
        self._recorder.add(
            now_ns - ctx.start_ns,
            request.round,
            Kind.REPAIR_NACK,
            request.source,
            request.ranges[0][0],
            sum(count for _, count in request.ranges),
            0,
        )

    def _timer(self, source: int) -> Rto:
        """A time-out for a sender that is as far away as the plan says."""
        ctx = self._ctx
        code = ctx.plan.topology.codes[source]
        streams = (stream for this_round in ctx.plan.period for stream in this_round.streams)
        one_way_ms = max(
            (
                s.delays_ms[ctx.code]
                for s in streams
                if s.sender == code and ctx.code in s.receivers
            ),
            default=0.0,
        )
        initial_ns = round(2 * one_way_ms * NS_PER_MS) + _RTO_MARGIN_NS
        return Rto(initial_ns, _RTO_MARGIN_NS, _LONGEST_RTO_NS)

"""All of an island's recovery behind one door: what the collector and the island talk to."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from agents.bursts import Batch, Run
from agents.context import END_MARGIN_NS, AgentContext
from agents.ownstream import OwnStream
from agents.records import Recorder
from agents.recovery.control import CONTROL_TYPES, LONGEST_BYTES, REPAIR, Control, decode
from agents.recovery.repair import Seen
from agents.repairer import Repairer
from agents.repairsource import RepairSource
from agents.requester import Requester
from agents.sockets import ControlSocket
from agents.state import State
from agents.weights import Weights
from agents.wire import PacketType


class Recovery:
    """Asks the aggregator for lost sums and, with ``repair``, senders for lost blocks.

    Parameters
    ----------
    ctx, weights, state, epoch
        The run, and the island's own stream, which others may ask for.
    seen
        What has come of a live round.
    recorder
        Gets an event for everything that is asked for or sent again.
    """

    def __init__(
        self,
        ctx: AgentContext,
        weights: Weights,
        state: State,
        epoch: int,
        seen: Seen,
        recorder: Recorder,
    ) -> None:
        self._ctx = ctx
        self._rejects: Counter[str] = Counter()
        self._heard = 0
        self._overflow = 0
        self._socket = ControlSocket(None, LONGEST_BYTES)
        self._requester = Requester(ctx, self._socket, recorder)
        self._repairer: Repairer | None = None
        self._source: RepairSource | None = None
        if ctx.repair:
            self._repairer = Repairer(ctx, epoch, self._socket, recorder, seen)
            stream = OwnStream(ctx, weights, state, epoch)
            self._source = RepairSource(ctx, stream, state, epoch, self._socket, recorder)

    @property
    def due_ns(self) -> int:
        """When `poll` has something to do."""
        parts = (self._requester, self._repairer, self._source)
        return min(part.due_ns for part in parts if part is not None)

    @property
    def serves_until_ns(self) -> int:
        """How long others may still need this island, CLOCK_MONOTONIC; 0 without ``repair``."""
        if self._source is None:
            return 0
        ctx = self._ctx
        last_end_ns = ctx.start_ns + ctx.plan.rounds * ctx.interval_ns
        asked_ns = self._source.asked_ns  # whoever asked may ask again when an answer is lost
        return max(last_end_ns, asked_ns + END_MARGIN_NS if asked_ns else 0) + ctx.timeout_ns

    def open_round(self, round_index: int) -> None:
        """Take up a round."""
        self._requester.open_round(round_index)
        if self._repairer is not None:
            self._repairer.open_round(round_index)

    def close_round(self, round_index: int) -> None:
        """Forget a round."""
        self._requester.close_round(round_index)
        if self._repairer is not None:
            self._repairer.close_round(round_index)

    def resume(self, received: Iterable[tuple[int, int, int]], now_ns: int) -> None:
        """Ask for what an earlier process of the island had received and lost.

        The aggregator sends again what it still keeps, the senders the rest.

        Parameters
        ----------
        received
            Round, first block and count.
        now_ns
            The time; the open rounds are known.
        """
        self._requester.greet()
        if self._repairer is not None:
            for round_index, block, count in received:
                self._repairer.lose(round_index, block, count, now_ns)

    def kind_of(self, first_type: int) -> PacketType | None:
        """What a buffer is to hold, by the type of its first datagram; None: control datagrams."""
        if first_type in CONTROL_TYPES:
            return None
        repaired = self._repairer is not None and first_type == PacketType.DATA
        return PacketType.DATA if repaired else PacketType.AGG

    def fresh(self, batches: Iterable[Batch], overflow: int, now_ns: int) -> Iterator[Batch]:
        """Leave out the sums that had come before; ``overflow`` is the socket's count."""
        overflowed = overflow != self._overflow
        self._overflow = overflow
        for batch in batches:
            yield from self._requester.fresh(batch, now_ns, overflowed=overflowed)

    def took(self, run: Run, kind: PacketType, now_ns: int) -> None:
        """Take note of what came."""
        if self._repairer is not None:
            self._repairer.took(run, kind, now_ns)

    def hear(self, datagram: bytes, now_ns: int) -> None:
        """Take a control datagram."""
        message = decode(datagram, self._ctx.job_id, self._rejects)
        if message is not None:
            refused = self.drops().total()
            self._act_on(message, now_ns)
            self._heard += self.drops().total() == refused

    def _act_on(self, message: Control, now_ns: int) -> None:
        repairs = bool(message.flags & REPAIR)
        if repairs and message.kind is PacketType.NACK and self._source is not None:
            self._source.hear(message, now_ns)
        elif repairs and message.kind is PacketType.UNAVAILABLE and self._repairer is not None:
            self._repairer.refused(message)
        elif repairs or message.kind is PacketType.NACK:
            self._rejects["type"] += 1
        elif message.src != self._ctx.city:
            self._rejects["source"] += 1
        else:
            self._requester.hear(message, now_ns)

    def poll(self, now_ns: int) -> None:
        """Ask and answer what is due."""
        self._requester.poll(now_ns)
        if self._repairer is not None:
            self._repairer.poll(now_ns, self._requester.settled)
        if self._source is not None:
            self._source.poll(now_ns)

    def counters(self) -> dict[str, Any]:
        """What was asked for and sent again."""
        parts = (self._requester, self._repairer, self._source)
        counted = {k: v for part in parts if part is not None for k, v in part.counters().items()}
        return {"control_datagrams": self._heard, **counted}

    def drops(self) -> Counter[str]:
        """Datagrams that were refused here, by reason."""
        own = self._rejects + self._requester.drops
        return own + self._source.drops if self._source is not None else own

    def close(self) -> None:
        """Close the sockets."""
        self._socket.close()
        if self._source is not None:
            self._source.close()

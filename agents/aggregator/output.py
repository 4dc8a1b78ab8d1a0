"""The aggregator's one stream to its island: sums in bursts, with sequence numbers."""

from agents.aggregator.table import Emission
from agents.bursts import Packer
from agents.context import AgentContext
from agents.records import Kind, Recorder
from agents.sockets import BurstSender
from agents.wire import Cause, PacketType, datagram_bytes


class AggregateStream:
    """Collects consecutive sums that left for the same reason and sends them as one burst.

    Attributes
    ----------
    datagrams, wire_bytes
        Sent so far, by round.
    """

    def __init__(self, ctx: AgentContext, epoch: int, recorder: Recorder) -> None:
        self.datagrams: dict[int, int] = {}
        self.wire_bytes: dict[int, int] = {}
        self._ctx = ctx
        self._recorder = recorder
        self._to = ctx.addresses.island(ctx.city)
        self._sender = BurstSender(datagram_bytes(ctx.layout.elements), interface=None)
        self._packer = Packer(
            ctx.burst_datagrams,
            ctx.layout.elements,
            kind=PacketType.AGG,
            job_id=ctx.job_id,
            epoch=epoch,
            src=ctx.city,
        )
        self._seq = 0
        self._now_ns = 0
        self._round = self._block = self._count = self._bitmap = 0
        self._cause = Cause.NONE

    def tick(self, now_ns: int) -> None:
        """Set the time that the next sums leave at."""
        self._now_ns = now_ns

    def take(self, emission: Emission) -> None:
        """Add sums to the pending burst, or send it first where they do not follow on."""
        values, block = emission.values, emission.block
        while len(values):
            if not self._continues(emission, block):
                self.flush()
                self._round, self._block, self._count = emission.round, block, 0
                self._bitmap, self._cause = emission.bitmap, emission.cause
            room = self._packer.rows - self._count
            part = values[:room]
            rows = slice(self._count, self._count + len(part))
            self._packer.payload[rows, : part.shape[1]] = part
            self._count += len(part)
            block += len(part)
            values = values[room:]

    def _continues(self, emission: Emission, block: int) -> bool:
        """Whether a block can be the next datagram of the pending burst."""
        return (
            0 < self._count < self._packer.rows
            and block == self._block + self._count
            and emission.round == self._round
            and emission.bitmap == self._bitmap
            and emission.cause == self._cause
        )

    def flush(self) -> None:
        """Send the pending burst, if any."""
        count, block, round_index = self._count, self._block, self._round
        if count == 0:
            return
        layout = self._ctx.layout
        since_start_ns = self._now_ns - self._ctx.start_ns
        clique = self._ctx.expectations[round_index].clique
        self._packer.address(
            round_index=round_index, clique=clique, bitmap=self._bitmap, cause=self._cause
        )
        burst = self._packer.seal(
            count,
            block,
            self._seq,
            since_start_ns // 1000,
            layout.elements_of(block + count - 1),
        )
        self._sender.send(burst, self._to)
        self._recorder.add(
            since_start_ns,
            round_index,
            Kind.AGGREGATE_OUT,
            self._ctx.city,
            block,
            count,
            self._bitmap,
            cause=self._cause,
        )
        sent_bytes = layout.burst_bytes(block, count)
        self.datagrams[round_index] = self.datagrams.get(round_index, 0) + count
        self.wire_bytes[round_index] = self.wire_bytes.get(round_index, 0) + sent_bytes
        self._seq += count
        self._count = 0

    def close(self) -> None:
        """Close the socket."""
        self._sender.close()

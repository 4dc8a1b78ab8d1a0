"""The sending side of a host in a collective: transfers, paced, one after the other."""

import time
from collections.abc import Collection, Sequence

from agents.bursts import Packer
from agents.context import NS_PER_MS, AgentContext
from agents.operands import Operands
from agents.pacing import Burst, burst_schedule
from agents.records import Kind, Recorder
from agents.rounds import NEVER_NS
from agents.sockets import BurstSender
from agents.wire import Elements, PacketType, StreamLayout, datagram_bytes
from controller.hostplan import HostPath, HostPlan, HostStep

_NS_PER_US = 1000


class Channel:
    """The sending side: one transfer after the other, each paced, over sockets that stay open.

    Attributes
    ----------
    due_ns
        CLOCK_MONOTONIC time of the next burst; `NEVER_NS` while no transfer is on its way.
    datagrams, wire_bytes
        What has left.
    """

    def __init__(
        self,
        ctx: AgentContext,
        plan: HostPlan,
        layout: StreamLayout,
        operands: Operands,
        recorder: Recorder,
    ) -> None:
        self.due_ns = NEVER_NS
        self.datagrams = self.wire_bytes = 0
        self._ctx, self._release, self._layout = ctx, plan.release, layout
        self._operands, self._recorder = operands, recorder
        self._packer = Packer(
            ctx.burst_datagrams,
            layout.elements,
            kind=PacketType.DATA,
            job_id=ctx.job_id,
            epoch=time.monotonic_ns() // NS_PER_MS & 0xFFFFFFFF,
            src=ctx.city,
        )
        self._sockets: dict[int, BurstSender] = {}
        self._paths: Sequence[HostPath] = ()
        self._step: HostStep | None = None
        # Of a transfer that goes on although another schedule has taken over: its data.
        self._former: Elements | None = None
        self._bursts: list[Burst] = []
        self._next = 0
        self._free_ns = self._zero_ns = ctx.start_ns
        self._know(plan.paths)

    @property
    def idle(self) -> bool:
        """Whether no transfer is on its way."""
        return self._step is None

    @property
    def orphaned(self) -> bool:
        """Whether the transfer on its way belongs to a schedule that is over."""
        return self._former is not None

    def begin(self, step: HostStep, now_ns: int) -> None:
        """Begin a transfer as soon as the one before it has left the link."""
        scale = self._ctx.plan.scale
        rate_gbps = self._paths[step.path].rate_gbps / scale
        begin_ns = max(now_ns, self._free_ns)
        if self._release == "planned":
            begin_ns = max(begin_ns, self._zero_ns + round(step.start_ms * NS_PER_MS))
        self._free_ns = begin_ns + round(self._layout.wire_bytes * 8 / rate_gbps)
        self._bursts = burst_schedule(
            self._layout,
            rate_gbps=rate_gbps,
            offset_ns=begin_ns,
            burst_datagrams=self._ctx.burst_datagrams,
        )
        self._step, self._next = step, 0
        self.due_ns = self._bursts[0].due_ns
        self._packer.address(round_index=step.transfer, clique=0, bitmap=1 << self._ctx.city)

    def send(self, now_ns: int) -> bool:
        """Send the burst that is due; returns whether it was the last one of its transfer."""
        step, burst = self._step, self._bursts[self._next]
        if step is None:
            raise ValueError("no transfer is on its way")
        ctx, path = self._ctx, self._paths[step.path]
        since_start_ns = now_ns - ctx.start_ns
        rows = self._operands.rows(step.chunk, burst.block, burst.count)
        if self._former is not None:
            rows = self._former[burst.block : burst.block + burst.count]
        self._packer.payload[: burst.count] = rows
        last = self._layout.elements_of(burst.block + burst.count - 1)
        packed = self._packer.seal(
            burst.count, burst.block, self.datagrams, since_start_ns // _NS_PER_US, last
        )
        addresses = ctx.addresses
        to = addresses.island if path.ends_at == "island" else addresses.aggregator
        self._sockets[path.tag].send(packed, to(path.dst))
        self._recorder.add(
            since_start_ns,
            step.transfer,
            Kind.EMIT,
            ctx.city,
            burst.block,
            burst.count,
            burst.wire_bytes,
        )
        self.datagrams += burst.count
        self.wire_bytes += burst.wire_bytes
        self._next += 1
        if self._next < len(self._bursts):
            self.due_ns = self._bursts[self._next].due_ns
            return False
        self._step, self._former, self.due_ns = None, None, NEVER_NS
        return True

    def cancel(self, transfers: Collection[int]) -> None:
        """Give up the transfer on its way if it is one of these; the rest of it never leaves."""
        if self._step is not None and self._step.transfer in transfers:
            self._step, self._former, self.due_ns = None, None, NEVER_NS

    def take_over(self, paths: Sequence[HostPath], zero_ns: int) -> None:
        """Go on with the paths and times of another schedule.

        The transfer on its way is finished, with the data that it began with.
        """
        if self._step is not None and self._former is None:
            self._former = self._operands.copy(self._step.chunk)
        self._zero_ns = zero_ns
        self._know(paths)

    def _know(self, paths: Sequence[HostPath]) -> None:
        """Keep a socket for each path from here."""
        ctx, size = self._ctx, datagram_bytes(self._layout.elements)
        self._paths = paths
        own = (path for path in paths if (path.src, path.starts_at) == (ctx.city, "island"))
        for tag in {path.tag for path in own} - set(self._sockets):
            self._sockets[tag] = BurstSender(size, None, ctx.addresses.path(ctx.city, tag))

    def close(self) -> None:
        """Close the sockets."""
        for sender in self._sockets.values():
            sender.close()

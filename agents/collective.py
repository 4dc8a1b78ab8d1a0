"""A host in a collective: sends, receives and adds chunks as its list of steps says.

One thread. It sleeps until the next burst is due or something has arrived. A send begins when
what it waits for is done (`agents.dependencies`), and not before its time in the schedule if the
plan says so. Datagrams go out at the rate of the path's slowest link, so that no window or slow
start is measured.
"""

import time
from collections import Counter

from agents.bursts import Packer, parse, runs
from agents.context import NS_PER_MS, AgentContext, run_agent
from agents.dependencies import Dependencies
from agents.gpu import Gpu
from agents.operands import Operands, chunk_layout
from agents.pacing import Burst, burst_schedule
from agents.records import Kind, Recorder
from agents.rounds import NEVER_NS
from agents.sockets import (
    BurstReceiver,
    BurstSender,
    interface_index,
    precise_timers,
    udp_counters,
)
from agents.wire import PacketType, StreamLayout, datagram_bytes
from controller.hostplan import HostPlan, HostStep
from controller.training import unroll

ROLE = "collective"
_NS_PER_US = 1000


def run_collective(ctx: AgentContext) -> int:
    """Run one city's host through the plan's collective; return the exit status.

    It ends when all its steps are done or at `AgentContext.deadline_ns`, and writes
    ``collective-<city>.bin`` (`agents.records`: the round of an event is the number of the
    transfer) and ``collective-<city>.json``. What is missing or wrong is told there.
    """
    return run_agent(ROLE, ctx, lambda c: Host(c).run())


class Host:
    """One city's host."""

    def __init__(self, ctx: AgentContext) -> None:
        if ctx.plan.collective is None:
            raise ValueError("the plan has no collective")
        self._ctx = ctx
        self._plan = ctx.plan.collective
        training = ctx.plan.training
        self._chunks = self._plan.chunks * (training.syncs if training else 1)
        self._steps = Dependencies(unroll(self._plan, training, ctx.city))
        self._effects = 0
        self._effects_per_sum = sum(s.kind != "send" for s in self._plan.steps[ctx.city])
        layout = chunk_layout(self._plan.chunk_bytes / ctx.plan.scale, ctx.mtu_bytes)
        self._operands = Operands(ctx.seed, ctx.city, self._chunks, layout)
        self._recorder = Recorder(ctx.output_path(ROLE, ".bin"))
        self._gpu = Gpu(ctx, training, self._recorder) if training else None
        self._channel = Channel(ctx, self._plan, layout, self._operands, self._recorder)
        self._sums = self._plan.hub is not None
        self._receiver = _receiver(ctx, self._plan)
        self._everybody = (1 << len(ctx.plan.topology.codes)) - 1
        self._drops: Counter[str] = Counter()
        self._done_ns: int | None = None

    def run(self) -> None:
        """Send and receive until all steps are done or the deadline has come."""
        precise_timers()
        channel, steps = self._channel, self._steps
        deadline_ns = self._ctx.deadline_ns
        now_ns = time.monotonic_ns()
        while now_ns < deadline_ns and not steps.done:
            compute_ns = self._compute(now_ns)
            if channel.idle and (step := steps.next_send()):
                channel.begin(step, now_ns)
            if now_ns >= channel.due_ns:
                if channel.send(now_ns):
                    self._carry_out(steps.sent(), now_ns)
                continue
            if self._receiver.wait(min(channel.due_ns, compute_ns, deadline_ns) - now_ns):
                now_ns = time.monotonic_ns()
                self._receive(now_ns)
            now_ns = time.monotonic_ns()
        self._write()

    def _receive(self, now_ns: int) -> None:
        """Take in one buffer of datagrams, and carry out what it completes."""
        came = self._receiver.receive(self._drops)
        if came is None:
            return
        batches = parse(
            self._receiver.buffer,
            *came,
            kind=PacketType.AGG if self._sums else PacketType.DATA,
            job_id=self._ctx.job_id,
            rejects=self._drops,
        )
        for run in (run for batch in batches for run in runs(batch)):
            step = self._steps.expects(run.round)
            if step is None or self._plan.paths[step.path].src != run.src:
                self._drops["transfer"] += len(run.values)
                continue
            if self._sums and run.bitmap != self._everybody:
                self._drops["partial sum"] += len(run.values)
                continue
            refused = self._operands.take(step.transfer, run.block, run.values)
            if refused:
                self._drops[refused] += len(run.values)
                continue
            self._recorder.add(
                now_ns - self._ctx.start_ns,
                step.transfer,
                Kind.AGGREGATE_IN if self._sums else Kind.DATA_IN,
                run.src,
                run.block,
                len(run.values),
                0,
            )
            if self._operands.complete(step.transfer):
                self._carry_out(self._steps.arrived(step.transfer), now_ns)

    def _compute(self, now_ns: int) -> int:
        """Let the training go on; returns when it has something to do next."""
        if self._gpu is None:
            return NEVER_NS
        self._gpu.advance(now_ns, self._effects // self._effects_per_sum)
        self._carry_out(self._steps.computed(self._gpu.steps), now_ns)
        return self._gpu.due_ns

    def _carry_out(self, effects: list[HostStep], now_ns: int) -> None:
        """Add or store the transfers that may take effect."""
        for step in effects:
            self._operands.apply(step.transfer, step.chunk, adds=step.kind == "reduce")
            self._done_ns = now_ns - self._ctx.start_ns
        self._effects += len(effects)

    def _write(self) -> None:
        ctx = self._ctx
        udp = udp_counters()  # before the socket is closed: what comes later meets no port
        self._receiver.close()
        self._channel.close()
        self._recorder.close()
        ctx.write_counters(
            ROLE,
            {
                "complete": self._steps.done,
                "steps_left": self._steps.left,
                "done_ns": self._done_ns,
                "chunks": self._chunks,
                "chunks_exact": self._operands.exact_chunks(len(ctx.plan.topology.codes)),
                "datagrams_out": self._channel.datagrams,
                "egress_bytes": self._channel.wire_bytes,
                "drops": dict(self._drops),
                "socket_overflow": self._receiver.overflow,
                "receive_buffer_bytes": self._receiver.buffer_bytes,
                "udp": udp,
            },
        )


def _receiver(ctx: AgentContext, plan: HostPlan) -> BurstReceiver:
    """What comes from other hosts, or, as multicast, from a hub's aggregator."""
    own_ip, port = ctx.addresses.island(ctx.city)
    if plan.hub is None:
        return BurstReceiver((own_ip, port), interface=None, idle_ns=0)
    receiver = BurstReceiver(("", port), interface=interface_index(f"{ctx.code}-i"), idle_ns=0)
    receiver.join([ctx.addresses.group(0, plan.hub)])
    return receiver


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
        self._ctx, self._plan, self._layout = ctx, plan, layout
        self._operands, self._recorder = operands, recorder
        self._packer = Packer(
            ctx.burst_datagrams,
            layout.elements,
            kind=PacketType.DATA,
            job_id=ctx.job_id,
            epoch=time.monotonic_ns() // NS_PER_MS & 0xFFFFFFFF,
            src=ctx.city,
        )
        size = datagram_bytes(layout.elements)
        own = (path for path in plan.paths if (path.src, path.starts_at) == (ctx.city, "island"))
        tags = {path.tag for path in own}
        self._sockets = {
            tag: BurstSender(size, None, ctx.addresses.path(ctx.city, tag)) for tag in tags
        }
        self._step: HostStep | None = None
        self._bursts: list[Burst] = []
        self._next = 0
        self._free_ns = ctx.start_ns

    @property
    def idle(self) -> bool:
        """Whether no transfer is on its way."""
        return self._step is None

    def begin(self, step: HostStep, now_ns: int) -> None:
        """Begin a transfer as soon as the one before it has left the link."""
        scale = self._ctx.plan.scale
        rate_gbps = self._plan.paths[step.path].rate_gbps / scale
        begin_ns = max(now_ns, self._free_ns)
        if self._plan.release == "planned":
            begin_ns = max(begin_ns, self._ctx.start_ns + round(step.start_ms * NS_PER_MS))
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
        ctx, path = self._ctx, self._plan.paths[step.path]
        since_start_ns = now_ns - ctx.start_ns
        rows = self._operands.rows(step.chunk, burst.block, burst.count)
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
        self._step, self.due_ns = None, NEVER_NS
        return True

    def close(self) -> None:
        """Close the sockets."""
        for sender in self._sockets.values():
            sender.close()

"""A host in a collective: sends, receives and adds chunks as its list of steps says.

One thread. It sleeps until the next burst is due or something has arrived. A send begins when
what it waits for is done (`agents.dependencies`), and not before its time in the schedule if the
plan says so. Datagrams go out at the rate of the path's slowest link, so that no window or slow
start is measured.
"""

import time
from collections import Counter

from agents.bursts import parse, runs
from agents.channel import Channel
from agents.context import AgentContext
from agents.dependencies import Dependencies
from agents.gpu import Gpu
from agents.operands import Operands, chunk_layout
from agents.orders import Message, Orders
from agents.records import Kind, Recorder
from agents.rounds import NEVER_NS
from agents.running import run_agent
from agents.sockets import BurstReceiver, interface_index, udp_counters
from agents.takeover import TakeOver, read_take_over
from agents.wire import PacketType
from controller.hostplan import HostPlan, HostStep
from controller.training import unroll
from testbed.errors import CliquenetError
from testbed.timers import set_timer_slack

ROLE = "collective"


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
        self._paths = self._plan.paths
        training = ctx.plan.training
        self._chunks = self._plan.chunks * ctx.plan.syncs
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
        self._orders = Orders(ctx.orders) if ctx.orders is not None else None
        self._ordered_end = self._orders is None
        self._told_done = False
        self._zero_ns = ctx.start_ns
        self._next: TakeOver | None = None
        self._next_steps = Dependencies(())
        # Transfers of which what still comes is to be thrown away.
        self._abandoned: set[int] = set()

    def run(self) -> None:
        """Send and receive until all steps are done or the deadline has come."""
        set_timer_slack(1)
        channel = self._channel
        deadline_ns = self._ctx.deadline_ns
        now_ns = time.monotonic_ns()
        while now_ns < deadline_ns and not (self._steps.done and self._ordered_end):
            self._tell_done()
            compute_ns = self._compute(now_ns)
            if channel.idle and (step := self._steps.next_send()):
                channel.begin(step, now_ns)
            if now_ns >= channel.due_ns:
                orphaned = channel.orphaned
                if channel.send(now_ns) and not orphaned:
                    self._carry_out(self._steps.sent(), now_ns)
            elif self._take_over_is_due(now_ns):
                self._take_over(now_ns)
            else:
                next_ns = min(channel.due_ns, compute_ns, self._next_ns(now_ns))
                self._wait(min(next_ns, deadline_ns) - now_ns)
            now_ns = time.monotonic_ns()
        self._write()

    def _wait(self, timeout_ns: int) -> None:
        """Sleep until the time is over, or something has come; then take it in."""
        others = () if self._orders is None else (self._orders,)
        came = self._receiver.wait(timeout_ns, *others)
        now_ns = time.monotonic_ns()
        if self._receiver in came:
            self._receive(now_ns)
        if self._orders is not None and self._orders in came:
            for order in self._orders.receive():
                self._obey(order)

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
            step, paths = self._steps.expects(run.round), self._paths
            # Others may have taken over a moment earlier.
            early = step is None and self._next is not None
            if early and self._next is not None:
                step, paths = self._next_steps.expects(run.round), self._next.paths
            if step is None or paths[step.path].src != run.src:
                why = "abandoned" if run.round in self._abandoned else "transfer"
                self._drops[why] += len(run.values)
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
            if not early and self._operands.complete(step.transfer):
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

    def _obey(self, order: Message) -> None:
        """Do what the run asks for; see `agents.orders`."""
        orders = self._orders
        if orders is None:
            return
        match order["order"]:
            case "report":
                orders.send(reply="report", applied=sorted(self._steps.applied))
            case "narrow":
                dropped = set(order["dropped"])
                self._channel.cancel(dropped)
                applied = self._steps.drop(dropped)
                self._abandoned |= dropped
                orders.send(reply="narrow", applied=sorted(applied))
            case "take-over":
                self._next = read_take_over(order)
                self._next_steps = Dependencies(self._next.steps)
            case "finish":
                self._ordered_end = True
            case unknown:
                raise CliquenetError(f"the run sent an unknown order: {unknown}")

    def _tell_done(self) -> None:
        """Tell the run once that all steps are done."""
        if self._orders is not None and self._steps.done and not self._told_done:
            self._told_done = True
            self._orders.send(reply="done", zero_ns=self._zero_ns)

    def _next_ns(self, now_ns: int) -> int:
        """When the next schedule takes over, if that is still to come."""
        return self._next.zero_ns if self._next and self._next.zero_ns > now_ns else NEVER_NS

    def _take_over_is_due(self, now_ns: int) -> bool:
        """Whether it is time, and what still belongs to the old schedule has begun."""
        if self._next is None or now_ns < self._next.zero_ns:
            return False
        return self._steps.sends_left <= (not self._channel.idle and not self._channel.orphaned)

    def _take_over(self, now_ns: int) -> None:
        """Go on by the next schedule, from the state that it was made for.

        Raises
        ------
        CliquenetError
            The state is another one.
        """
        new, self._next = self._next, None
        if new is None:
            raise ValueError("no schedule is to take over")
        old, applied = self._steps, self._steps.applied
        self._steps = self._next_steps
        coming = self._steps.arrives_here()
        missing, surplus = new.arrived - applied, applied - new.arrived - new.flying
        if missing or surplus:
            raise CliquenetError(
                f"a schedule takes over from another state: transfers {sorted(missing)} have not "
                f"arrived, {sorted(surplus)} have"
            )
        self._abandoned |= old.arrives_here() - applied - coming
        self._channel.take_over(new.paths, new.zero_ns)
        self._paths, self._zero_ns, self._told_done = new.paths, new.zero_ns, False
        self._operands.begin_again(new.origins, coming)
        for transfer in sorted(coming & applied):
            self._steps.arrived(transfer)  # it took effect under the old schedule
        for transfer in sorted(coming - applied):
            if self._operands.complete(transfer):
                self._carry_out(self._steps.arrived(transfer), now_ns)

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

"""The agents of a run: forked into their hosts, ended, started again."""

import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from agents.aggregator.daemon import run_aggregator
from agents.collective import run_collective
from agents.context import AgentContext
from agents.island import run_island
from agents.native.layout import kernel
from controller.plan import Plan
from experiments.faults import straggles
from experiments.runtime import Runtime
from testbed.network import Network
from testbed.privileges import Capability, keep_only
from testbed.processes import Child, Supervisor, adopt, terminate

MAINS: Mapping[str, Callable[[AgentContext], int]] = MappingProxyType(
    {"aggregator": run_aggregator, "island": run_island, "collective": run_collective}
)
_SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}


class Fleet:
    """Every agent of a run, by role and city."""

    def __init__(
        self,
        plan: Plan,
        runtime: Runtime,
        run_dir: Path,
        network: Network,
        supervisor: Supervisor,
        start_ns: int,
        *,
        ordered: bool = False,
    ) -> None:
        self._plan = plan
        self._runtime = runtime
        self._run_dir = run_dir
        self._network = network
        self._supervisor = supervisor
        self.start_ns = start_ns
        # What runs on the island hosts; aggregators start before it.
        self._island = "island" if plan.collective is None else "collective"
        self._children: dict[tuple[str, str], Child] = {}
        self._ordered = ordered
        self.orders: dict[str, socket.socket] = {}
        self._lives: dict[tuple[str, str], int] = {}
        self._down: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Start all agents."""
        aggregators = self._plan.aggregators
        if aggregators and self._runtime.engine == "native":
            kernel()  # aggregators inherit it: loading it costs more than what they use it for
        for code in aggregators:
            self.start_one("aggregator", code)
        for code in self._plan.topology.codes:
            self.start_one(self._island, code)

    def start_one(self, role: str, code: str) -> None:
        """Start an agent, for the first time or again; what it was before has ended."""
        lives = self._lives.get((role, code), 0)
        city = self._plan.topology.index(code)
        host_of = self._network.island if role == self._island else self._network.aggregator
        log = self._run_dir / "log" / f"{role}-{code}.log"
        context = self._context(city, lives)
        far = None
        if self._ordered:
            self.orders[code], far = socket.socketpair()
            context = replace(context, orders=far)
        main = partial(_confined, MAINS[role], context)
        pid = self._network.fork(host_of(city), main, log)
        if far is not None:
            far.close()
        child = self._supervisor.watch(adopt(f"{role} {code}", pid, log))
        if role == self._island:
            self._supervisor.expect_exit([child])
        self._children[role, code] = child
        self._lives[role, code] = lives + 1
        self._down.discard((role, code))

    def end_one(self, role: str, code: str, how: str, *, again: bool = True) -> int:
        """End an agent by ``kill`` or ``term``; ``again``: it will be started again.

        Returns
        -------
        int
            How many lives it has had.
        """
        if again:
            self._down.add((role, code))
        self._supervisor.end(self._children[role, code], _SIGNALS[how])
        return self._lives[role, code]

    def runs(self, role: str, code: str) -> bool:
        """Whether an agent has not ended."""
        return self._supervisor.alive([self._children[role, code]])

    def since_start_ns(self) -> int:
        """The time, since the start of round 0."""
        return time.monotonic_ns() - self.start_ns

    @property
    def islands_run(self) -> bool:
        """Whether any island has not ended, or is yet to start again."""
        return any(role == self._island for role, _ in self._down) or self._supervisor.alive(
            self._of(self._island)
        )

    @property
    def deadline_ns(self) -> int:
        """When islands give up, on the monotonic clock."""
        return self._context(0, 0).deadline_ns

    def drain(self, limit_s: float) -> None:
        """Let the aggregators finish what they hold, and wait for their end."""
        aggregators = self._of("aggregator")
        self._supervisor.expect_exit(aggregators)
        terminate([a for a in aggregators if self._supervisor.alive([a])])
        self._supervisor.wait_until(
            lambda: not self._supervisor.alive(aggregators), limit_s, "the aggregators' end"
        )

    def _of(self, role: str) -> list[Child]:
        return [child for (kind, _), child in self._children.items() if kind == role]

    def _context(self, city: int, restart: int) -> AgentContext:
        runtime = self._runtime
        return AgentContext(
            plan=self._plan,
            city=city,
            start_ns=self.start_ns,
            out_dir=self._run_dir / "raw",
            seed=runtime.seed,
            mtu_bytes=runtime.mtu_bytes,
            burst_datagrams=runtime.burst_datagrams,
            fifo_datagrams=runtime.fifo_datagrams,
            timeout_ms=runtime.timeout_ms,
            ways=runtime.ways,
            collision=runtime.collision,
            hash=runtime.hash,
            memory_model=runtime.memory_model,
            dtype=runtime.dtype,
            ordered=runtime.ordered,
            engine=runtime.engine,
            resend_ms=runtime.resend_ms,
            repair=runtime.repair,
            jitter_us=runtime.jitter_us,
            restart=restart,
            slow=straggles(runtime.events, self._plan.topology.codes[city]),
            status_socket=runtime.clock == "real",
        )


def _confined(main: Callable[[AgentContext], int], context: AgentContext) -> int:
    """Run an agent with what it needs of root's power, which is little."""
    keep_only((Capability.DAC_OVERRIDE, Capability.NET_ADMIN))
    return main(context)

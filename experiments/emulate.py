"""Runs a plan on the emulated network: the same program on either clock.

``python -m experiments.emulate RUN_DIR`` reads ``plan.json`` and
``runtime.json`` and writes ``raw/`` and ``log/``. It is the warm parent: it
imports numpy once, builds the network, starts the controller, and forks every
agent into its host's namespace.
"""

import json
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from agents.aggregator.daemon import run_aggregator
from agents.context import AgentContext
from agents.island import run_island
from controller.plan import Plan, read_plan
from experiments.control import ControlServer
from experiments.netfacts import network_facts
from experiments.runtime import Runtime, read_runtime
from testbed.errors import CliquenetError, MachineError
from testbed.namespaces import isolate
from testbed.network import Network, build_network
from testbed.probe import measure_round_trips
from testbed.processes import Child, Supervisor, adopt, spawn, terminate

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
READY_LIMIT_S = 120.0
DRAIN_LIMIT_S = 60.0
LEAD_S = 2
"""From the choice of the start time to the start: agents fork and get ready."""
END_SLACK_S = 10.0
"""Beyond the islands' own deadline, after which the run counts as hung."""


def stage(name: str, detail: str) -> None:
    """Tell the host which stage begins; it adds the wall time."""
    sys.stdout.write(f"@stage {json.dumps({'stage': name, 'detail': detail})}\n")
    sys.stdout.flush()


def emulate(run_dir: Path) -> None:
    """Run the plan of a run folder.

    Raises
    ------
    CliquenetError
        What failed: the build, a process of the run, a round whose rules were late.
    """
    plan = read_plan(run_dir / "plan.json")
    runtime = read_runtime(run_dir / "runtime.json")
    stage("boot", "building the network")
    isolate()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cliquenet-")))
        supervisor = Supervisor()
        stack.callback(supervisor.stop_all)
        port = _free_port()
        control = ControlServer(scratch / "control.sock", supervisor)
        stack.callback(control.close)
        controller = _start_controller(supervisor, run_dir, runtime, port, scratch)
        network = stack.enter_context(
            build_network(
                plan.topology,
                scale=plan.scale,
                mtu_bytes=runtime.mtu_bytes,
                name_prefix="",  # isolate(): nobody else is here
                controller_port=port,
                log_dir=run_dir / "log",
                step=lambda name: stage(name.replace(" ", "_"), name),
            )
        )
        supervisor.wait_until(lambda: control.ready, READY_LIMIT_S, "switches and first rules")
        stage("up", "network up, measuring round-trip times")
        trips = measure_round_trips(network, scale=plan.scale)
        before = network.counters()
        run = Run(plan, runtime, run_dir, network, supervisor, control)
        start_ns = run.rounds()
        control.send(command="stop")
        supervisor.expect_exit([controller])
        supervisor.wait_until(
            lambda: not supervisor.alive([controller]), DRAIN_LIMIT_S, "the controller's end"
        )
        network.check()
        facts = network_facts(plan, network, control, trips, before, start_ns)
        (run_dir / "raw" / "network.json").write_text(json.dumps(facts, indent=1) + "\n")
    stage("done", "network down")


class Run:
    """The rounds of one run on a network that is up."""

    def __init__(
        self,
        plan: Plan,
        runtime: Runtime,
        run_dir: Path,
        network: Network,
        supervisor: Supervisor,
        control: ControlServer,
    ) -> None:
        self._plan = plan
        self._runtime = runtime
        self._run_dir = run_dir
        self._network = network
        self._supervisor = supervisor
        self._control = control

    def rounds(self) -> int:
        """Run all rounds; returns the start of round 0 on the monotonic clock, in ns.

        Raises
        ------
        CliquenetError
            A process failed, the rules of a round were late, or the run hung.
        """
        start_ns = (time.monotonic_ns() // NS_PER_S + LEAD_S) * NS_PER_S
        self._control.send(command="start", start_ns=start_ns)
        aggregators = (
            self._fork("aggregator", run_aggregator, start_ns) if self._plan.aggregation else []
        )
        islands = self._fork("island", run_island, start_ns)
        self._supervisor.expect_exit(islands)
        for index in range(self._plan.rounds):
            self._wait_for_round(index, start_ns + index * self._interval_ns)
        end_ns = self._context(0, start_ns).deadline_ns
        limit_s = (end_ns - time.monotonic_ns()) / NS_PER_S + END_SLACK_S
        alive = self._supervisor.alive
        self._supervisor.wait_until(lambda: not alive(islands), limit_s, "the islands' end")
        stage("drain", "draining the aggregators")
        self._supervisor.expect_exit(aggregators)
        terminate(aggregators)
        self._supervisor.wait_until(
            lambda: not alive(aggregators), DRAIN_LIMIT_S, "the aggregators' end"
        )
        return start_ns

    @property
    def _interval_ns(self) -> int:
        return round(self._plan.round_interval_ms * NS_PER_MS)

    def _wait_for_round(self, index: int, at_ns: int) -> None:
        """Step until a round starts, and check that its rules are in place."""
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            self._supervisor.step(left_ns / NS_PER_S)
        self._supervisor.step(0.0)
        if index not in self._control.confirmed_ns:
            raise CliquenetError(f"the rules of round {index} were not confirmed when it started")
        stage("round", f"round {index + 1} of {self._plan.rounds}")

    def _fork(self, role: str, main: Callable[[AgentContext], int], start_ns: int) -> list[Child]:
        host_of = self._network.island if role == "island" else self._network.aggregator
        children = []
        for city, code in enumerate(self._plan.topology.codes):
            log = self._run_dir / "log" / f"{role}-{code}.log"
            body = partial(main, self._context(city, start_ns))
            pid = self._network.fork(host_of(city), body, log)
            children.append(self._supervisor.watch(adopt(f"{role} {code}", pid, log)))
        return children

    def _context(self, city: int, start_ns: int) -> AgentContext:
        runtime = self._runtime
        return AgentContext(
            plan=self._plan,
            city=city,
            start_ns=start_ns,
            out_dir=self._run_dir / "raw",
            seed=runtime.seed,
            mtu_bytes=runtime.mtu_bytes,
            burst_datagrams=runtime.burst_datagrams,
            fifo_datagrams=runtime.fifo_datagrams,
            timeout_ms=runtime.timeout_ms,
            collision=runtime.collision,
            hash=runtime.hash,
            jitter_us=runtime.jitter_us,
            status_socket=runtime.clock == "real",
        )


def _start_controller(
    supervisor: Supervisor, run_dir: Path, runtime: Runtime, port: int, scratch: Path
) -> Child:
    argv = [
        *(sys.executable, "-m", "controller"),
        *("--framework", runtime.controller),
        *("--port", str(port)),
        *("--plan", str(run_dir / "plan.json")),
        *("--control", str(scratch / "control.sock")),
    ]
    log = run_dir / "log" / "controller.log"
    return supervisor.watch(spawn("controller", argv, log, {}))


def _free_port() -> int:
    """A TCP port of this namespace that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(argv: list[str]) -> int:
    """Run the folder named on the command line; one line on standard error if it fails."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        emulate(Path(argv[0]))
    except CliquenetError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.status
    except MemoryError:
        sys.stderr.write("error: out of memory; raise guest_memory_mb or the scale\n")
        return MachineError.status
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

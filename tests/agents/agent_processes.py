"""Agents as processes over loopback addresses, for tests without root."""

import ctypes
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.aggregator.daemon import run_aggregator
from agents.context import AgentContext, Endpoint
from agents.island import run_island
from controller.plan import Plan
from testbed.namespaces import Namespace

Agent = Callable[[AgentContext], int]

_LEAD_NS = 1_200_000_000
"""Until round 0: on a busy machine six processes take a while to get ready."""


class LoopbackAddressing:
    """An address of 127/8 for every island and aggregator; no multicast."""

    def __init__(self) -> None:
        self._port = 20_000 + 4 * (os.getpid() % 3_000)  # four ports, below the ephemeral ones

    def island(self, city: int) -> Endpoint:
        return f"127.1.{city + 1}.1", self._port

    def aggregator(self, city: int) -> Endpoint:
        return f"127.1.{city + 1}.2", self._port

    def control(self, city: int) -> Endpoint:
        return f"127.1.{city + 1}.2", self._port + 1

    def group(self, round_index: int, sender: int) -> Endpoint:
        raise AssertionError("no multicast over loopback")

    def path(self, city: int, tag: int) -> Endpoint:
        return f"127.1.{city + 1}.1", self._port + 2 + tag


class Processes:
    """Forked agents; whatever is left at the end is killed."""

    def __init__(self) -> None:
        self._pids: list[int] = []

    def start(self, agent: Agent, ctx: AgentContext) -> int:
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                status = agent(ctx)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        self._pids.append(pid)
        return pid

    def wait(self, pid: int, limit_s: float = 20.0) -> int:
        """Exit status of an agent."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._pids.remove(pid)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        raise AssertionError(f"agent {pid} still runs after {limit_s} s")

    def terminate(self, pid: int) -> int:
        os.kill(pid, signal.SIGTERM)
        return self.wait(pid)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == -signal.SIGKILL

    def kill_all(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def inside(place: Namespace, agent: Agent) -> Agent:
    """Let an agent run in a network namespace."""

    def run(ctx: AgentContext) -> int:
        if ctypes.CDLL(None).setns(place.descriptor, 0) != 0:
            raise OSError("setns failed")
        return agent(ctx)

    return run


def context(plan: Plan, city: int, out_dir: Path, start_ns: int, **options: Any) -> AgentContext:
    options = {"addresses": LoopbackAddressing(), "timeout_ms": 200.0, **options}
    return AgentContext(plan=plan, city=city, out_dir=out_dir, start_ns=start_ns, **options)


def run_all(processes: Processes, plan: Plan, out_dir: Path, **options: Any) -> dict[str, Any]:
    """Run a whole plan; return the counters by ``<role>-<city>``."""
    start_ns = time.monotonic_ns() + _LEAD_NS
    codes = plan.topology.codes
    contexts = [context(plan, i, out_dir, start_ns, **options) for i in range(len(codes))]
    aggregators = [processes.start(run_aggregator, ctx) for ctx in contexts if plan.aggregation]
    islands = [processes.start(run_island, ctx) for ctx in contexts]
    assert [processes.wait(pid) for pid in islands] == [0] * len(islands)
    assert [processes.terminate(pid) for pid in aggregators] == [0] * len(aggregators)
    return {p.stem: json.loads(p.read_text()) for p in sorted(out_dir.glob("*.json"))}

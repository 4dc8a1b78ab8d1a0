"""Schedules of a run of a collective between hosts: the present one, and what takes over."""

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

from controller.collectives.generators import first_edge_link
from controller.collectives.hosts import host_plan, schedule_of
from controller.collectives.interruption import Break, Interruption, State, interrupted
from controller.collectives.network import Network
from controller.collectives.resynthesis import Resynthesis, changed, resynthesise
from controller.collectives.synthesis import Effort
from controller.hostplan import HostPlan
from controller.plan import Plan
from experiments.hostnetwork import datagram_network
from experiments.runtime import Runtime
from experiments.takeovers import Question, TakeoverRecord
from testbed.errors import InputError, UntrustedRunError

ATTEMPTS = 5
"""Schedules tried at each event; a number, so that the result does not depend on the machine."""
PS_PER_NS = 1000


@dataclass(frozen=True)
class Candidate:
    """What may take over.

    Attributes
    ----------
    found, hosts
        The schedule, and what hosts do in it.
    cpu_ms
        Processor time that it took, the check and hosts' steps included.
    """

    found: Resynthesis
    hosts: HostPlan
    cpu_ms: float


class Replanner:
    """The present schedule, and the network as it is known to be.

    Parameters
    ----------
    plan
        Of a collective between hosts.
    mtu_bytes, seed
        Of the run.

    Attributes
    ----------
    hosts
        What hosts run at present.
    """

    def __init__(self, plan: Plan, mtu_bytes: int, seed: int) -> None:
        if plan.collective is None:
            raise InputError("only a collective between hosts is planned anew")
        self._topology = plan.topology
        self._base = datagram_network(plan.topology, mtu_bytes, plan.scale)
        self._effort = Effort(seed, ATTEMPTS)
        self._access = first_edge_link(plan.topology)
        self.hosts: HostPlan = plan.collective
        self._schedule = schedule_of(self.hosts, plan.topology, self._base)

    def warm_up(self) -> None:
        """Compile what planning needs, so that its first use is measured without that."""
        half_ps = self._schedule.time_ps // 2
        event = Interruption((Break(frozenset(), half_ps),), half_ps, half_ps)
        resynthesise(self._schedule, self._base, event, self._effort)

    def state(self, question: Question) -> State:
        """Where hosts will be at the take-over."""
        return interrupted(self._schedule, self._interruption(question))

    def plan(self, question: Question) -> Candidate:
        """Plan what takes over.

        Raises
        ------
        InputError
            Some host is cut off.
        UntrustedRunError
            The checker found a fault.
        """
        began = time.process_time()
        network = self._network(question)
        event = self._interruption(question)
        found = resynthesise(self._schedule, network, event, self._effort)
        if found.faults:
            raise UntrustedRunError(f"the schedule that takes over: {found.faults[0]}")
        hosts = host_plan(
            found.schedule,
            self._topology,
            bound_us=self.hosts.bound_ms * 1e3,
            bound=self.hosts.bound,
            release=self.hosts.release,
            former=self.hosts,
        )
        return Candidate(found, hosts, (time.process_time() - began) * 1e3)

    def accept(self, candidate: Candidate) -> None:
        """Make a candidate the present schedule."""
        self.hosts = candidate.hosts
        self._schedule = candidate.found.schedule

    def _network(self, question: Question) -> Network:
        """The network as it is now."""
        rates = {self._access + edge: gbps * 125.0 for edge, gbps, _ in question.shapes}
        rates |= {self._access + edge: 0.0 for edge in question.down}
        latencies_ps = {}
        for edge, _, delay_ms in question.shapes:
            link = self._access + edge
            more_ps = round((delay_ms - self._topology.edges[edge].delay_ms) * 1e9)
            latencies_ps[link] = int(self._base.latency_ps[link]) + more_ps
        return changed(self._base, rates, latencies_ps)

    def _interruption(self, question: Question) -> Interruption:
        return Interruption(
            breaks=tuple(
                Break(frozenset(self._access + edge for edge in edges), at_ns * PS_PER_NS)
                for edges, at_ns in question.breaks
            ),
            until_ps=question.until_ns * PS_PER_NS,
            resume_ps=question.resume_ns * PS_PER_NS,
            landed=frozenset(question.landed),
        )


def replan_again(
    plan: Plan, runtime: Runtime, takeovers: Sequence[TakeoverRecord]
) -> list[tuple[float, bool] | None]:
    """Plan once more what a run has planned, to measure it by a clock that counts computing.

    Returns
    -------
    list
        For each take-over the processor time in ms, and whether the result is the run's;
        ``None`` where nothing was planned.
    """
    replanner = make_replanner(plan, runtime)
    found: list[tuple[float, bool] | None] = []
    for takeover in takeovers:
        if takeover.question is None:
            found.append(None)
            continue
        candidate = replanner.plan(takeover.question)
        found.append((candidate.cpu_ms, candidate.hosts == takeover.plan))
        if takeover.taken:
            replanner.accept(candidate)
    return found


def make_replanner(plan: Plan, runtime: Runtime) -> Replanner:
    """What plans anew in a run, ready to be measured."""
    replanner = Replanner(plan, runtime.mtu_bytes, runtime.seed)
    replanner.warm_up()
    # Else a collection in the middle of planning looks through all that numba has loaded.
    gc.collect()
    gc.freeze()
    return replanner

"""Schedules of a run of a collective between hosts: the present one, and what takes over."""

import time
from dataclasses import dataclass, replace

from controller.collectives.hosts import host_plan, schedule_of
from controller.collectives.interruption import Break, Interruption, State, interrupted
from controller.collectives.resynthesis import Resynthesis, changed, resynthesise
from controller.collectives.synthesis import Effort
from controller.hostplan import HostPlan
from controller.plan import Plan
from experiments.hostnetwork import datagram_network
from testbed.errors import InputError, UntrustedRunError

ATTEMPTS = 8
"""Schedules tried at each event, unless half the time that planning is given is used up."""
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
    replan_ms
        Time that planning anew is given.

    Attributes
    ----------
    hosts
        What hosts run at present.
    """

    def __init__(self, plan: Plan, mtu_bytes: int, seed: int, replan_ms: float) -> None:
        if plan.collective is None:
            raise InputError("only a collective between hosts is planned anew")
        self._topology = plan.topology
        self._base = datagram_network(plan.topology, mtu_bytes, plan.scale)
        self._effort = Effort(seed, ATTEMPTS, replan_ms / 2e3)
        self._access = 2 * len(plan.topology.cities)
        self._rates: dict[int, float] = {}
        self._latencies_ps: dict[int, int] = {}
        self.hosts: HostPlan = plan.collective
        self._schedule = schedule_of(self.hosts, plan.topology, self._base)

    def warm_up(self) -> None:
        """Compile what planning needs, so that its first use is measured without that."""
        half_ps = self._schedule.time_ps // 2
        event = Interruption((Break(frozenset(), half_ps),), half_ps, half_ps)
        resynthesise(self._schedule, self._base, event, replace(self._effort, budget_s=60.0))

    def break_at(self, edges: frozenset[int], at_ns: int) -> Break:
        """Edges of the topology that break, at a time from the present schedule's start."""
        return Break(frozenset(self._access + edge for edge in edges), at_ns * PS_PER_NS)

    def set_edge(self, edge: int, rate_gbps: float | None, delay_ms: float | None) -> None:
        """Note what an edge is like now; ``None`` is what it was built as, a rate of 0: down."""
        link = self._access + edge
        self._rates.pop(link, None)
        self._latencies_ps.pop(link, None)
        if rate_gbps is not None:
            self._rates[link] = rate_gbps * 125.0
        if delay_ms is not None:
            built_ms = self._topology.edges[edge].delay_ms
            more_ps = round((delay_ms - built_ms) * 1e9)
            self._latencies_ps[link] = int(self._base.latency_ps[link]) + more_ps

    def state(self, event: Interruption) -> State:
        """Where hosts will be at the take-over."""
        return interrupted(self._schedule, event)

    def plan(self, event: Interruption) -> Candidate:
        """Plan what takes over.

        Raises
        ------
        InputError
            Some host is cut off.
        UntrustedRunError
            The checker found a fault.
        """
        began = time.process_time()
        network = changed(self._base, self._rates, self._latencies_ps)
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

"""What a run does when links fail or change in the middle of a collective: another schedule.

The controller hears of dead links from their switches; who changes a rate says so. Hosts are
asked where they stand, and go on with all that does not need what broke. Meanwhile a schedule is
made for the state in which they will be after the time that planning is given; its paths are
installed and confirmed, and hosts take it over at that moment.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from agents.orders import Message
from agents.takeover import TakeOver
from controller.collectives.interruption import State
from controller.plan import Plan
from experiments.agenda import Agenda
from experiments.control import ControlServer
from experiments.fleet import Fleet
from experiments.hostorders import HostOrders
from experiments.replanner import Candidate, Replanner
from experiments.takeovers import Question
from testbed.errors import CliquenetError
from testbed.livelinks import LiveLinks
from testbed.processes import Supervisor

NS_PER_MS = 1_000_000
INSTALL_NS = 10 * NS_PER_MS
"""From the end of planning to the take-over: paths are installed and confirmed, hosts told."""
_TELL_NS = NS_PER_MS
_SETTLE_NS = 100 * NS_PER_MS
"""So much longer than planned hosts wait for what was given up, before they end."""
_PATHS_LIMIT_S = 5.0
_GATHER_NS = NS_PER_MS // 10
"""Links that fail together are reported one by one: who hears of one waits so long for others."""


class Replanning:
    """Answers events while a collective runs.

    Parameters
    ----------
    plan, replanner, replan_ms
        What runs, what plans anew, and the time that this is given.
    fleet, supervisor, control, agenda, links
        The run's hosts, processes, controller, and what it has to do.

    Attributes
    ----------
    records
        One for each event that was answered; see `experiments.takeovers`.
    """

    def __init__(
        self,
        plan: Plan,
        replanner: Replanner,
        replan_ms: float,
        *,
        fleet: Fleet,
        supervisor: Supervisor,
        control: ControlServer,
        agenda: Agenda,
        links: LiveLinks,
    ) -> None:
        self._topology, self._scale = plan.topology, plan.scale
        self._replanner, self._charged_ns = replanner, round(replan_ms * NS_PER_MS)
        self._fleet, self._supervisor, self._control = fleet, supervisor, control
        self._agenda, self._links = agenda, links
        self._zero_ns = fleet.start_ns
        self._down: frozenset[int] = frozenset()
        self._shapes: dict[int, tuple[float, float]] = {}
        self._begin_waits = False
        self._attempt = 0
        # What has happened since the present schedule began: edges and monotonic time of each.
        self._broken: list[tuple[frozenset[int], int]] = []
        self._finished = False
        self._settled_ns = fleet.start_ns
        self._until_ns: int | None = None
        self._done: dict[str, int] = {}
        self._orders = HostOrders(fleet.orders, supervisor, self._host_done)
        self.records: list[dict[str, Any]] = []
        control.on_link = self._link_changed

    def edges_changed(self, names: Sequence[str]) -> None:
        """Links have another rate or delay, which no switch reports."""
        edges = [e for e in self._topology.edges if f"{e.src}→{e.dst}" in names]
        for edge in edges:
            shape = self._links.shape(f"{edge.src}→{edge.dst}")
            rate_gbps = shape.rate_bytes_per_s * self._scale / 125e6
            self._shapes[edge.index] = rate_gbps, shape.delay_ns / NS_PER_MS
        self._notice(frozenset(edge.index for edge in edges))

    def _link_changed(self, link: str, up: bool) -> None:
        """Switches report a link: it is down, or up again, in both directions."""
        edges = self._topology.edges
        both = frozenset(e.index for e in edges if link in (f"{e.src}-{e.dst}", f"{e.dst}-{e.src}"))
        self._down = self._down - both if up else self._down | both
        self._notice(frozenset() if up else both)

    def _notice(self, edges: frozenset[int]) -> None:
        now_ns = time.monotonic_ns()
        self._broken.append((edges, now_ns))
        if not self._begin_waits:
            self._begin_waits = True
            # A take-over that hosts have been told of comes first.
            self._agenda.at(max(now_ns + _GATHER_NS, self._zero_ns), partial(self._begin, now_ns))

    def _begin(self, noticed_ns: int) -> None:
        """Ask hosts where they stand, narrow what they do, and plan what takes over."""
        self._begin_waits = False
        self._attempt += 1
        if self._finished:
            self._note(noticed_ns, "all hosts were done")
            return
        resume_ns = max(noticed_ns, self._zero_ns) + self._charged_ns + INSTALL_NS
        self._until_ns = min(self._until_ns or resume_ns, resume_ns)
        reports = self._orders.ask("report")
        question = Question(
            down=tuple(sorted(self._down)),
            shapes=tuple((edge, *shape) for edge, shape in sorted(self._shapes.items())),
            breaks=tuple((tuple(sorted(e)), t - self._zero_ns) for e, t in self._broken),
            until_ns=self._until_ns - self._zero_ns,
            resume_ns=resume_ns - self._zero_ns,
            landed=tuple(sorted(frozenset().union(*reports.values()))),
        )
        state = self._replanner.state(question)
        applied = self._orders.ask("narrow", dropped=sorted(state.dropped))
        for code, transfers in applied.items():
            if transfers:
                number = min(transfers)
                raise CliquenetError(f"{code} has taken in transfer {number}, which was given up")
        candidate = self._replanner.plan(question)
        ready_ns = resume_ns - INSTALL_NS
        self._agenda.at(
            ready_ns, partial(self._install, self._attempt, candidate, question, noticed_ns)
        )

    def _install(
        self, attempt: int, candidate: Candidate, question: Question, noticed_ns: int
    ) -> None:
        """Add the paths of a schedule, and when they are confirmed tell hosts to take it over."""
        resume_ns = self._zero_ns + question.resume_ns
        number = len(self.records)
        known = len(self._replanner.hosts.paths)
        paths = [path.model_dump(mode="json") for path in candidate.hosts.paths[known:]]
        if attempt == self._attempt:
            self._control.paths_ns.pop(number, None)
            self._control.send(command="paths", set=number, paths=paths)
            self._supervisor.wait_until(
                lambda: number in self._control.paths_ns, _PATHS_LIMIT_S, "new paths"
            )
        if attempt != self._attempt or self._begin_waits:
            self._note(noticed_ns, "overtaken by another event", candidate, question=question)
            return
        if time.monotonic_ns() > resume_ns - _TELL_NS:
            raise CliquenetError("the paths of the new schedule were confirmed too late")
        self._tell(candidate, resume_ns)
        self._note(
            noticed_ns,
            "taken over",
            candidate,
            question=question,
            paths_added=len(paths),
            confirmed_ns=self._control.paths_ns[number] - self._fleet.start_ns,
            zero_ns=resume_ns - self._fleet.start_ns,
        )
        self._replanner.accept(candidate)
        self._zero_ns, self._until_ns = resume_ns, None
        self._settled_ns = resume_ns + candidate.found.state.settled_ps // 1000 + _SETTLE_NS
        self._broken.clear()

    def _tell(self, candidate: Candidate, resume_ns: int) -> None:
        """Tell every host its part."""
        state: State = candidate.found.state
        for city, code in enumerate(self._topology.codes):
            part = TakeOver(
                zero_ns=resume_ns,
                paths=candidate.hosts.paths,
                steps=candidate.hosts.steps[city],
                origins=candidate.hosts.origins[city],
                arrived=frozenset(state.arrived_at(city)),
                flying=frozenset(f.transfer for f in state.flights if f.target == city),
            )
            self._orders.tell(code, **part.order())

    def _note(
        self,
        noticed_ns: int,
        outcome: str,
        candidate: Candidate | None = None,
        question: Question | None = None,
        **details: Any,
    ) -> None:
        """Write down what came of an event; see `experiments.takeovers`."""
        start_ns = self._fleet.start_ns
        record = {
            "outcome": outcome,
            "noticed_ns": noticed_ns - start_ns,
            "question": None if question is None else question.model_dump(mode="json"),
            "charged_ms": self._charged_ns / NS_PER_MS,
            **details,
        }
        if candidate is not None:
            found = candidate.found
            record |= {
                "cpu_ms": candidate.cpu_ms,
                "attempts": found.attempts,
                "chunks_final": found.state.final,
                "flights": len(found.state.flights),
                "dropped": sorted(found.state.dropped),
                "first_transfer": found.state.next_transfer,
                "plan": candidate.hosts.model_dump(mode="json"),
            }
        self.records.append(record)

    def _host_done(self, code: str, message: Message) -> None:
        """A host has done all its steps; when all have, none of them is needed any more."""
        self._done[code] = int(message["zero_ns"])
        # What has happened and is not answered yet may need them.
        if self._broken or len(self._done) < len(self._topology.codes):
            return
        if all(zero_ns == self._zero_ns for zero_ns in self._done.values()):
            self._finished = True
            # What was given up still arrives, and is to be counted.
            self._agenda.at(self._settled_ns, partial(self._orders.tell_all, order="finish"))

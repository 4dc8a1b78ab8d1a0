"""Runs a plan on the emulated network: the same program on either clock.

``python -m experiments.emulate RUN_DIR`` reads ``plan.json`` and
``runtime.json`` and writes ``raw/`` and ``log/``. It is the warm parent: it
imports numpy once, builds the network, starts the controller, and forks every
agent into its host's namespace.
"""

import json
import math
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.plan import Plan, read_plan
from experiments.agenda import Agenda
from experiments.bringup import Standing, brought_up, stage, work_through
from experiments.faultplay import Scene, not_reached, play
from experiments.faults import changes_links, hits_control
from experiments.fleet import Fleet
from experiments.impairments import resolve
from experiments.incarnations import FAULTS_FILE, REACTIONS_FILE
from experiments.netfacts import network_facts
from experiments.runtime import Runtime, read_runtime
from experiments.takeovers import TAKEOVERS_FILE
from testbed.errors import CliquenetError
from testbed.fidelity import FIDELITY_FILE, measure, refuse
from testbed.linktrial import FULL, SHORT
from testbed.livelinks import LiveLinks
from testbed.namespaces import isolate

if TYPE_CHECKING:
    from experiments.replanner import Replanner
    from experiments.replanning import Replanning

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
DRAIN_LIMIT_S = 60.0
END_SLACK_S = 10.0
"""Beyond the islands' own deadline, after which the run counts as hung."""


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
    begun_s = time.monotonic()
    isolate()
    with brought_up(plan, runtime, run_dir) as standing:
        network = standing.network
        stage("up", "network up, measuring links and paths")
        runtime = runtime.after_building_for(time.monotonic() - begun_s)
        fidelity = measure(network, scale=plan.scale, effort=FULL if runtime.verify else SHORT)
        (run_dir / "raw" / FIDELITY_FILE).write_text(fidelity.model_dump_json(indent=1))
        if runtime.verify:
            standing.controller.stop()
        else:
            refuse(fidelity, runtime.limits.at(runtime.clock))
            run = Run(plan, runtime, run_dir, standing)
            _run_and_record(run, plan, runtime, run_dir, standing)
        network.openvswitch.alive()
    stage("done", "network down")


def _run_and_record(
    run: "Run",
    plan: Plan,
    runtime: Runtime,
    run_dir: Path,
    standing: Standing,
) -> None:
    """Run all rounds, and write down what the network did meanwhile."""
    network, control = standing.network, standing.control
    before = network.counters()
    impairments = resolve(runtime.impairments, plan.topology)
    changing = changes_links(runtime.events)
    with network.impaired(impairments, changing=changing) as links:
        start_ns = run.rounds(links)
        fault_drops = links.lost()
    standing.controller.stop()
    facts = network_facts(plan, network, control, before, start_ns, impairments, fault_drops)
    _write_json(run_dir / "raw" / "network.json", facts)
    _write_json(run_dir / "raw" / FAULTS_FILE, run.timeline())
    _write_json(run_dir / "raw" / REACTIONS_FILE, run.reactions())
    if (takeovers := run.takeovers()) is not None:
        _write_json(run_dir / "raw" / TAKEOVERS_FILE, takeovers)


class Run:
    """The rounds of one run on a network that is up."""

    def __init__(
        self,
        plan: Plan,
        runtime: Runtime,
        run_dir: Path,
        standing: Standing,
    ) -> None:
        self._plan = plan
        self._network = network = standing.network
        self._controller = standing.controller
        self._tolerant = hits_control(runtime.events)
        self._mtu_bytes = runtime.mtu_bytes
        self._replanner = _replanner(plan, runtime)
        self._replanning: Replanning | None = None
        self._replan_ms = runtime.replan_ms
        self._timeline: list[dict[str, Any]] = []
        self._faults = sorted(runtime.events, key=lambda fault: fault.at_ms)
        self._supervisor = supervisor = standing.supervisor
        self._control = standing.control
        # Agents fork and get ready meanwhile, and compute what comes before the first round.
        compute_s = 0 if plan.training is None else math.ceil(plan.training.compute_ms / 1000)
        whole_s = time.monotonic_ns() // NS_PER_S + compute_s
        self._start_ns = whole_s * NS_PER_S + round(runtime.lead_s * NS_PER_S)
        self._fleet = Fleet(
            *(plan, runtime, run_dir, network, supervisor, self._start_ns),
            ordered=self._replanner is not None,
        )

    def rounds(self, links: LiveLinks) -> int:
        """Run all rounds; returns the start of round 0 on the monotonic clock, in ns.

        Parameters
        ----------
        links
            What faults of links happen to.

        Raises
        ------
        CliquenetError
            A process failed, the rules of a round were late, or the run hung.
        """
        start_ns, fleet = self._start_ns, self._fleet
        self._control.send(command="start", start_ns=start_ns)
        fleet.start()
        agenda = Agenda(self._supervisor)
        for index in range(self._plan.rounds):
            agenda.at(start_ns + index * self._interval_ns, partial(self._begin_round, index))
        plan = self._plan
        scene = Scene(
            topology=plan.topology,
            scale=plan.scale,
            mtu_bytes=self._mtu_bytes,
            fleet=fleet,
            links=links,
            controller=self._controller,
            network=self._network,
            agenda=agenda,
            timeline=self._timeline,
        )
        if self._replanner is not None:
            from experiments.replanning import Replanning

            self._replanning = Replanning(
                *(plan, self._replanner, self._replan_ms),
                fleet=fleet,
                supervisor=self._supervisor,
                control=self._control,
                agenda=agenda,
                links=links,
            )
            scene = replace(scene, reshaped=self._replanning.edges_changed)
        for fault in self._faults:
            at_ns = start_ns + round(fault.at_ms * NS_PER_MS)
            agenda.at(at_ns, partial(play, fault, scene))
        end_ns = fleet.deadline_ns + round(END_SLACK_S * NS_PER_S)
        agenda.run(lambda: not fleet.islands_run, end_ns, "the islands' end")
        stage("drain", "draining the aggregators")
        fleet.drain(DRAIN_LIMIT_S)
        return start_ns

    def timeline(self) -> list[dict[str, Any]]:
        """What the config's events did, for ``raw/faults.json``."""
        left = self._faults[len(self._timeline) :]
        return self._timeline + [not_reached(fault) for fault in left]

    def reactions(self) -> list[dict[str, Any]]:
        """What the controller did about events, for ``raw/reactions.json``."""
        told = self._control.reactions
        return [
            {**{k: v for k, v in one.items() if k != "t_ns"}, "at_ns": one["t_ns"] - self._start_ns}
            for one in told
            if one["t_ns"] >= self._start_ns
        ]

    def takeovers(self) -> list[dict[str, Any]] | None:
        """What new schedules took over; ``None`` where no event could make it necessary."""
        return None if self._replanning is None else self._replanning.records

    @property
    def _interval_ns(self) -> int:
        return round(self._plan.round_interval_ms * NS_PER_MS)

    def _begin_round(self, index: int) -> None:
        """Check that the rules of a round, which begins now, are in place.

        If an event may be why they are not, it goes on without them, as packets would.
        """
        if index not in self._control.confirmed_ns and not self._tolerant:
            raise CliquenetError(f"the rules of round {index} were not confirmed when it started")
        stage("round", f"round {index + 1} of {self._plan.rounds}")


def _replanner(plan: Plan, runtime: Runtime) -> "Replanner | None":
    """What plans anew when links change; before the start, for compilation takes its time."""
    if plan.collective is None or not runtime.events:
        return None
    # Takes scipy and numba to import: only who needs it waits for them.
    from experiments.replanner import make_replanner

    return make_replanner(plan, runtime)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def main(argv: list[str]) -> int:
    """Run the folder named on the command line; one line on standard error if it fails."""
    return work_through(lambda: emulate(Path(argv[0])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

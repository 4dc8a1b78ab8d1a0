"""Runs inside the virtual machine: Open MPI's all-reduces between the hosts of a plan.

``python -m experiments.openmpi.guest FOLDER`` reads ``plan.json``, ``runtime.json`` and
``job.json`` of the folder, and writes ``report.json``.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from controller.plan import Plan, read_plan
from experiments.bringup import Standing, brought_up, stage, work_through
from experiments.openmpi.job import AllReduce, Case, Job, Report, Variant
from experiments.openmpi.launch import agent_script, command, reason
from experiments.openmpi.package import environment
from experiments.openmpi.rank import RankJob, RankReport
from experiments.runtime import Runtime, read_runtime
from testbed.errors import CliquenetError
from testbed.jsonmodel import read_model
from testbed.namespaces import isolate, write_sysctl
from testbed.processes import ChildFailedError, spawn

_LAUNCH_LIMIT_S = 60.0
_PATIENCE = 40.0
"""Each all-reduce may take so many times as long as our ring is planned to take."""
_WINDOW_BYTES = 1 << 28
"""Far beyond any rate × round-trip time here, so that windows never limit a connection."""
_PAGE_BYTES = 4096
_NS_PER_MS = 1e6


def run(folder: Path) -> None:
    """Do the job of a folder.

    Raises
    ------
    CliquenetError
        The network did not come up. An all-reduce that fails is part of the report.
    """
    plan, runtime = read_plan(folder / "plan.json"), read_runtime(folder / "runtime.json")
    job = read_model(Job, folder / "job.json")
    stage("boot", "building the network")
    pages = len(job.hosts) * _WINDOW_BYTES // _PAGE_BYTES
    write_sysctl("net/ipv4/tcp_mem", f"{pages} {pages} {pages}")
    isolate()
    with brought_up(plan, runtime, folder) as standing:
        stage("up", "network up")
        ranks = _Ranks(job, plan, runtime, folder, standing)
        cases = tuple(ranks.case(variant) for variant in job.variants)
        standing.controller.stop()
        standing.network.check()
    report = Report(job=job, cases=cases)
    (folder / "report.json").write_text(report.model_dump_json(indent=1) + "\n")


class _Ranks:
    """Starts one rank per host, once for each algorithm."""

    def __init__(
        self, job: Job, plan: Plan, runtime: Runtime, folder: Path, standing: Standing
    ) -> None:
        self._job, self._folder, self._standing = job, folder, standing
        self._environment = environment(Path(job.root), Path(job.shim))
        self._rank_job = RankJob(
            seed=runtime.seed,
            cities=tuple(plan.topology.index(code) for code in job.hosts),
            wire_bytes=plan.payload_bytes / plan.scale,
            mtu_bytes=runtime.mtu_bytes,
            repeats=job.repeats,
        )
        (folder / "rank.json").write_text(self._rank_job.model_dump_json())
        spaces = standing.network.islands()
        self._first = spaces[self._rank_job.cities[0]]
        for space in spaces:
            with space.entered():
                _tune_tcp()
        self._agent = folder / "agent.sh"
        self._agent.write_text(
            agent_script(
                {
                    code: f"/proc/{os.getpid()}/fd/{space.descriptor}"
                    for code, space in zip(plan.topology.codes, spaces, strict=True)
                }
            )
        )
        self._agent.chmod(0o755)
        self._limit_s = _LAUNCH_LIMIT_S + _PATIENCE * job.repeats * plan.prediction.t_ms / 1e3

    def case(self, variant: Variant) -> Case:
        """All repetitions of one variant."""
        stage(variant.name, f"Open MPI, {variant.name}")
        before, log = self._dropped(), self._folder / "log" / f"{variant.name}.log"
        try:
            found = self._launch(variant, log)
        except ChildFailedError:
            said = reason(log.read_text(errors="replace"))
            return Case(name=variant.name, error=f"{said} (log: log/{log.name})")
        return Case(
            name=variant.name,
            runs=tuple(all_reduce(found, index) for index in range(self._job.repeats)),
            dropped=self._dropped() - before,
        )

    def _launch(self, variant: Variant, log: Path) -> list[RankReport]:
        """Start all ranks, and wait for their end."""
        reports = self._folder / "raw" / variant.name
        shutil.rmtree(reports, ignore_errors=True)  # of a run that was interrupted
        reports.mkdir()
        module = ["experiments.openmpi.rank", str(self._folder / "rank.json"), str(reports)]
        argv = command(self._job.hosts, variant.settings, self._agent, module)
        supervisor = self._standing.supervisor
        with self._first.entered():
            child = supervisor.watch(spawn("Open MPI", argv, log, self._environment))
        supervisor.expect_exit([child])
        supervisor.wait_until(
            lambda: not supervisor.alive([child]),
            self._limit_s,
            f"the end of Open MPI, {variant.name}",
        )
        return [
            read_model(RankReport, reports / f"rank-{rank}.json")
            for rank in range(len(self._job.hosts))
        ]

    def _dropped(self) -> int:
        counters: list[Mapping[str, int]] = self._standing.network.counters()["queues"]
        return sum(queue["drops"] for queue in counters)


def all_reduce(found: list[RankReport], index: int) -> AllReduce:
    """One repetition, of what all ranks measured.

    Raises
    ------
    CliquenetError
        Ranks did not start together.
    """
    begins = {report.begin_ns[index] for report in found}
    if len(begins) != 1:
        raise CliquenetError(f"ranks started all-reduce {index} at {len(begins)} different times")
    last_ns = max(report.end_ns[index] for report in found)
    return AllReduce(
        time_ms=(last_ns - begins.pop()) / _NS_PER_MS,
        exact=all(report.exact[index] for report in found),
        retransmitted=sum(report.retransmitted[index] for report in found),
    )


def _tune_tcp() -> None:
    """Let the current host's TCP fill any link here, and keep what a connection has learned."""
    for name in ("tcp_rmem", "tcp_wmem"):
        write_sysctl(f"net/ipv4/{name}", f"4096 {_WINDOW_BYTES >> 2} {_WINDOW_BYTES}")
    write_sysctl("net/ipv4/tcp_slow_start_after_idle", "0")


def main(argv: list[str]) -> int:
    """Run the folder named on the command line; one line on standard error if it fails."""
    return work_through(lambda: run(Path(argv[0]).resolve()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

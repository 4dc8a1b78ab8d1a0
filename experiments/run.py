"""Runs one experiment: plan, run folder, network on the chosen clock, clean-up."""

import compileall
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from agents.native.build import ensure_kernel_library
from controller.plan import Plan
from experiments.config import LEAD_S, ExperimentConfig
from experiments.faults import disturbed
from experiments.impairments import resolve, uplinks
from experiments.planning import plan_experiment
from experiments.results import create_run, own, read_json, set_state, write_json, write_manifest
from experiments.runtime import Runtime
from experiments.stages import StageFollower
from experiments.trust import write_refusal
from testbed.errors import CliquenetError, InfeasibleError, InputError, UntrustedRunError
from testbed.health import HEALTH_FILE, watch_host
from testbed.interrupts import termination_interrupts
from testbed.paths import cache_dir, give_to_caller
from testbed.preflight import ASKED, Clock, choose_clock, require_root
from testbed.virtualtime.boot import is_guest
from testbed.virtualtime.kernel import ensure_kernel
from testbed.virtualtime.machine import run_in_virtual_time

ROOT = Path(__file__).parent.parent
ROOMS = ("agents", "controller", "experiments", "testbed")


class Progress(Protocol):
    """A step that is shown to the user while it lasts."""

    def tick(self, detail: str = "") -> None:
        """Show how far it is."""


ProgressFactory = Callable[[str], AbstractContextManager[Progress]]


def run_experiment(
    config: ExperimentConfig, results_dir: Path, *, force: bool, progress: ProgressFactory
) -> Path:
    """Plan and run one experiment.

    Parameters
    ----------
    config
        What to run; its clock may still be ``auto``.
    results_dir
        Folder of all runs.
    force
        Run a schedule that the planner calls infeasible.
    progress
        Makes the context manager that shows a step.

    Returns
    -------
    Path
        The run's folder, with the raw records of a complete run.

    Raises
    ------
    InputError
        Packets cannot follow the plan.
    InfeasibleError
        The planner refuses the schedule, and ``force`` is off.
    CliquenetError
        The run failed; its folder says so.
    """
    clock, why = choose_clock(config.clock)
    config = config.at_clock(clock)
    with progress("planning"):
        plan = plan_experiment(config)
    if plan.not_runnable:
        raise InputError(f"{plan.schedule} cannot run on packets: {plan.not_runnable}")
    if not plan.feasible and not force:
        raise InfeasibleError(
            f"{plan.schedule} is infeasible: {plan.reason} (FORCE=1 runs it all the same)"
        )
    kernel = choose_kernel(clock)
    if config.engine == "native" and config.aggregation:
        ensure_kernel_library()  # here, for the virtual machine may not keep what it builds
    run_dir = create_run(results_dir, config)
    with state_of(run_dir), termination_interrupts():
        runtime = make_runtime(config, plan, run_dir)
        record_start(run_dir, config, plan, runtime, kernel, why)
        title = f"running {plan.rounds} rounds of {plan.schedule} in {clock} time"
        with progress(title if why == ASKED else f"{title} ({why})") as step:
            try:
                times = run_program("experiments.emulate", config, run_dir, kernel, step)
            except UntrustedRunError:
                write_refusal(run_dir, config.limits.at(clock))
                raise
        _add_wall_times(run_dir, times)
    return run_dir


def choose_kernel(clock: str) -> Path | None:
    """What the emulation runs on: the virtual-time kernel, or this machine's own (none)."""
    if clock == "virtual":
        return ensure_kernel()
    require_root()
    return None


def record_start(
    run_dir: Path,
    config: ExperimentConfig,
    plan: Plan,
    runtime: Runtime,
    kernel: Path | None,
    clock_reason: str,
) -> None:
    """Write what the emulation reads, and the manifest."""
    plan.write(run_dir / "plan.json")
    runtime.write(run_dir / "runtime.json")
    name = f"User Mode Linux {kernel.parent.name}" if kernel else host_kernel()
    write_manifest(run_dir, config, kernel=name, extra={"clock_reason": clock_reason})


@contextmanager
def state_of(run_dir: Path) -> Iterator[None]:
    """Mark the run complete, incomplete or failed, however the block ends."""
    try:
        yield
    except KeyboardInterrupt:
        set_state(run_dir, "incomplete", "interrupted")
        raise
    except BaseException as error:
        set_state(run_dir, "failed", str(error))
        raise
    else:
        set_state(run_dir, "complete")
    finally:
        give_to_caller(run_dir)


def host_kernel() -> str:
    """The release of this machine's own kernel, and whether that is a packaged program."""
    return f"{platform.release()}{' (User Mode Linux)' if is_guest() else ''}"


def make_runtime(config: ExperimentConfig, plan: Plan, run_dir: Path) -> Runtime:
    """What the emulation needs to know beside the plan."""
    timeout_ms = config.timeout_ms
    clock: Clock = "real" if config.clock == "real" else "virtual"
    # Bursts meet the shaper of an uplink whole: it would lose all of one or none.
    # And every switch takes a burst in whole before it sends it on, which adds up over steps.
    lossy_uplink = uplinks(
        (
            *resolve(config.lossy_links, plan.topology),
            *disturbed(config.events, plan.topology),
        )
    )
    return Runtime(
        clock=clock,
        seed=config.seed,
        mtu_bytes=config.mtu_bytes,
        burst_datagrams=1 if lossy_uplink or plan.collective else config.burst_datagrams,
        fifo_datagrams=config.fifo_datagrams,
        timeout_ms=plan.prediction.t_ms if timeout_ms is None else timeout_ms,
        collision=config.collision,
        hash=config.hash,
        jitter_us=config.jitter_us,
        controller=config.controller,
        ways=config.ways,
        memory_model=config.memory_use,
        dtype=config.dtype,
        ordered=config.ordered,
        engine=config.engine,
        resend_ms=config.resend_ms,
        repair=config.repair,
        replan_ms=config.replan_ms,
        impairments=config.lossy_links,
        events=config.events,
        lead_s=LEAD_S[clock] if config.lead_s is None else config.lead_s,
        # Hosts of a collective get other paths themselves; detours would meet those.
        on_link_down="ignore" if plan.collective else config.on_link_down,
        on_fault=config.on_fault,
        limits=config.limits,
    )


def run_program(
    module: str, config: ExperimentConfig, run_dir: Path, kernel: Path | None, step: Progress
) -> dict[str, float]:
    """Run a module on a run folder, in the guest or on this host, and keep its output.

    Parameters
    ----------
    module
        Takes the folder as its argument.
    config
        Seed, memory and limits.
    run_dir
        With folders ``log`` and ``raw`` in it; all that the guest may write to.
    kernel
        The virtual-time kernel, or ``None`` for this host.
    step
        Shows how far it is.

    Returns
    -------
    dict
        Wall seconds of each step until the network was up.

    Raises
    ------
    UntrustedRunError
        The network is not as asked for; nothing ran on it.
    CliquenetError
        It failed; its last line.
    """
    run_dir = run_dir.resolve()
    # Compiled once here: the guest would compile every module again at each boot.
    for room in ROOMS:
        compileall.compile_dir(ROOT / room, quiet=2)
    command = [sys.executable, "-m", module, str(run_dir)]
    log = run_dir / "log" / "emulation.log"
    with watch_host(run_dir / "raw" / HEALTH_FILE), StageFollower(log, step.tick) as follower:
        if kernel is not None:
            status = run_in_virtual_time(
                command,
                kernel=kernel,
                on_output=follower.feed,
                seed=config.seed,
                memory_mb=config.guest_memory_mb,
                writable=run_dir,
                cwd=ROOT,
                wall_limit_s=config.wall_limit_s,
                on_boot=partial(own, run_dir),
                # What is compiled for planning is found there.
                env={"CLIQUENET_CACHE": str(cache_dir())},
            ).status
        else:
            status = follower.run(command, cwd=ROOT, wall_limit_s=config.wall_limit_s)
    if status == UntrustedRunError.status:
        raise UntrustedRunError(follower.last_error())
    if status != 0:
        raise CliquenetError(f"the run failed: {follower.last_error()} (logs: {run_dir / 'log'})")
    return follower.wall_times_until("up")


def _add_wall_times(run_dir: Path, times: dict[str, float]) -> None:
    path = run_dir / "raw" / "network.json"
    write_json(path, {**read_json(path), "network_up": times})

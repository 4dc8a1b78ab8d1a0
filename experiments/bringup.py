"""Brings up what every run stands on: the network, and the controller that programs it."""

import json
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.plan import Plan
from experiments.control import ControlServer
from experiments.controllerprocess import ControllerProcess
from experiments.runtime import Runtime
from testbed.errors import CliquenetError, MachineError
from testbed.interrupts import termination_interrupts
from testbed.network import Network, build_network
from testbed.processes import Supervisor

READY_LIMIT_S = 120.0


def stage(name: str, detail: str) -> None:
    """Tell the host which stage begins; it adds the wall time."""
    sys.stdout.write(f"@stage {json.dumps({'stage': name, 'detail': detail})}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Standing:
    """A network that is up, with its first rules in place."""

    network: Network
    control: ControlServer
    supervisor: Supervisor
    controller: ControllerProcess


@contextmanager
def brought_up(plan: Plan, runtime: Runtime, run_dir: Path) -> Iterator[Standing]:
    """Build the network of a run folder; call `testbed.namespaces.isolate` before.

    Raises
    ------
    CliquenetError
        The network or the controller did not come up.
    """
    allow_open_files()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cliquenet-")))
        supervisor = Supervisor()
        stack.callback(supervisor.stop_all)
        port = _free_port()
        control = ControlServer(scratch / "control.sock", supervisor)
        stack.callback(control.close)
        controller = ControllerProcess(
            supervisor, control, run_dir, runtime, port, scratch / "control.sock"
        )
        controller.start()
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
        yield Standing(network, control, supervisor, controller)


def work_through(work: Callable[[], None]) -> int:
    """Do a program's work; returns its exit status, with one line on standard error."""
    try:
        with termination_interrupts():
            work()
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


def allow_open_files() -> None:
    """As many as this process may have: a large network's links are probed all at once."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _free_port() -> int:
    """A TCP port of this namespace that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

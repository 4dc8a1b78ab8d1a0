"""The controller's process: started, killed and started again, told to stop."""

import signal
import sys
from pathlib import Path

from experiments.control import ControlServer
from experiments.runtime import Runtime
from testbed.processes import Child, Supervisor, spawn

_END_LIMIT_S = 60.0


class ControllerProcess:
    """The controller of a run, which connects to the run's control socket.

    Parameters
    ----------
    supervisor, control
        Who watches it, and who listens to it.
    run_dir, runtime
        Where the plan and the logs are, and what to run.
    port
        Where it listens for switches, on 127.0.0.1.
    socket
        The path of the control socket.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        control: ControlServer,
        run_dir: Path,
        runtime: Runtime,
        port: int,
        socket: Path,
    ) -> None:
        self.port = port
        self._supervisor = supervisor
        self._control = control
        self._run_dir = run_dir
        self._argv = [
            *(sys.executable, "-m", "controller"),
            *("--framework", runtime.controller),
            *("--port", str(port)),
            *("--plan", str(run_dir / "plan.json")),
            *("--control", str(socket)),
            *("--on-link-down", runtime.on_link_down),
        ]
        self._lives = 0
        self._child: Child | None = None

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._child is not None and self._supervisor.alive([self._child])

    def start(self, start_ns: int | None = None) -> None:
        """Start it; with the start of round 0 if that is known, so that it catches up."""
        begun = [] if start_ns is None else ["--start-ns", str(start_ns)]
        life = f".{self._lives}" if self._lives else ""
        log = self._run_dir / "log" / f"controller{life}.log"
        child = spawn("controller", [*self._argv, *begun], log, {})
        self._child = self._supervisor.watch(child)
        self._lives += 1

    def kill(self) -> None:
        """End it there and then."""
        if self._child is not None:
            self._supervisor.end(self._child, signal.SIGKILL)

    def stop(self) -> None:
        """Tell it to stop and wait for its end; one that was killed is gone already."""
        child = self._child
        if child is None or not self.runs:
            return
        if self._control.connected:
            self._control.send(command="stop")
        else:  # it had no time to connect after its last start
            self._supervisor.end(child, signal.SIGTERM)
        self._supervisor.expect_exit([child])
        self._supervisor.wait_until(lambda: not self.runs, _END_LIMIT_S, "the controller's end")

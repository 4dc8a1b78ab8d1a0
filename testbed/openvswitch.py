"""Open vSwitch daemons of our own: fresh database, own folder, own namespace.

They are started directly (the distribution's service script takes seconds), end
with the process that started them, and share nothing with an Open vSwitch that
the machine may run for other purposes.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.commands import run
from testbed.errors import CliquenetError, CommandError, MachineError
from testbed.namespaces import die_with_parent

SCHEMAS = (
    Path("/usr/share/openvswitch/vswitch.ovsschema"),
    Path("/usr/local/share/openvswitch/vswitch.ovsschema"),
)
MIN_UPTIME_S = 11.0
"""Open vSwitch counts the cores only when its clock, which starts at boot, is
beyond 10 s; before that it finds none and starts no thread for new flows."""
_READY_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 5.0
_POLL_S = 0.01
_LOST = re.compile(r"lookups: hit:(\d+) missed:(\d+) lost:(\d+)")


@dataclass(frozen=True)
class DatapathCounters:
    """What the kernel datapath did with packets since it exists."""

    hits: int
    misses: int
    """Packets that went to the daemon for want of a cached flow."""
    lost: int
    """Packets that should have gone there, but found its queue full."""


class OpenVSwitch:
    """``ovsdb-server`` and ``ovs-vswitchd`` in the current network namespace.

    Parameters
    ----------
    directory
        Existing folder for database, sockets and process ids; keep it short
        (a socket's path has at most 107 characters).
    log_directory
        Existing folder for the daemons' logs.
    """

    def __init__(self, directory: Path, log_directory: Path) -> None:
        self._directory = directory
        self._logs = log_directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def _database(self) -> str:
        return f"unix:{self._directory}/db.sock"

    @property
    def _target(self) -> str:
        return f"{self._directory}/ovs-vswitchd.ctl"

    def start(self) -> None:
        """Start both daemons; returns when the database answers.

        Raises
        ------
        MachineError
            Open vSwitch is not installed, or its kernel part is missing.
        CliquenetError
            A daemon ended; its last line.
        """
        time.sleep(max(0.0, MIN_UPTIME_S - time.clock_gettime(time.CLOCK_MONOTONIC)))
        schema = next((path for path in SCHEMAS if path.exists()), None)
        if schema is None:
            raise MachineError("Open vSwitch is not installed here; run `sudo make setup`")
        database = self._directory / "conf.db"
        run(["ovsdb-tool", "create", str(database), str(schema)])
        self._spawn("ovsdb-server", [str(database), f"--remote=p{self._database}"])
        socket = self._directory / "db.sock"
        self._wait(socket.exists, "ovsdb-server", "to open its socket")
        self._spawn("ovs-vswitchd", [self._database])

    def configure(self, arguments: Sequence[str]) -> None:
        """Run one ``ovs-vsctl`` and wait until the switch daemon has done it all.

        Raises
        ------
        MachineError
            The kernel has no Open vSwitch datapath, or no thread takes new flows.
        CliquenetError
            The configuration is wrong, or a daemon ended; its last line.
        """
        self._control([f"--timeout={_READY_TIMEOUT_S:.0f}", *arguments])
        log = self._log("ovs-vswitchd").read_text(errors="replace")
        if "failed to create datapath" in log:
            raise MachineError(
                "this kernel has no openvswitch datapath; CLOCK=virtual brings its own kernel"
            )
        if "n-handler-threads to 0" in log:
            raise MachineError("Open vSwitch counted no core and would drop every new flow")

    def table(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Read columns of a database table; one dictionary per row.

        An optional column without a value is an empty list.
        """
        text = self._control(
            ["--format=json", f"--columns={','.join(columns)}", "list", name],
        )
        answer = json.loads(text)
        rows = []
        for row in answer["data"]:
            values = [_plain(value) for value in row]
            rows.append(dict(zip(answer["headings"], values, strict=True)))
        return rows

    def datapath_counters(self) -> DatapathCounters:
        """Counters of the kernel datapath."""
        text = run(["ovs-appctl", "-t", self._target, "dpctl/show", "system@ovs-system"])
        found = _LOST.search(text)
        if found is None:
            raise CliquenetError("ovs-appctl dpctl/show printed no lookup counters")
        hits, misses, lost = (int(group) for group in found.groups())
        return DatapathCounters(hits, misses, lost)

    def alive(self) -> None:
        """Check that both daemons run.

        Raises
        ------
        CliquenetError
            One has ended; its last line.
        """
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise CliquenetError(
                    f"{name} ended with status {process.returncode}: {self._last_line(name)}"
                )

    def stop(self) -> None:
        """End both daemons, the switch daemon first, with its datapath and bridges."""
        switch = self._processes.pop("ovs-vswitchd", None)
        if switch is not None:
            with suppress(CommandError, MachineError):  # then it ends by a signal
                run(["ovs-appctl", "-t", self._target, "exit", "--cleanup"])
                _wait_for_end(switch)
            _end(switch)
        for process in self._processes.values():
            _end(process)
        self._processes.clear()

    def _control(self, arguments: Sequence[str]) -> str:
        try:
            return run(["ovs-vsctl", f"--db={self._database}", *arguments])
        except CommandError as error:
            self.alive()
            last = error.output.splitlines()[-1:] or [self._last_line("ovs-vswitchd")]
            raise CliquenetError(f"Open vSwitch refused its configuration: {last[0]}") from error

    def _spawn(self, name: str, arguments: Sequence[str]) -> None:
        directory = str(self._directory)
        argv = [
            name,
            *arguments,
            f"--pidfile={directory}/{name}.pid",
            f"--unixctl={directory}/{name}.ctl",
            f"--log-file={self._log(name)}",
            "--no-chdir",
            "-vconsole:off",
            "-vsyslog:off",
        ]
        folders = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        self._processes[name] = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(folders, directory)},
            preexec_fn=die_with_parent,
        )

    def _wait(self, ready: Callable[[], bool], name: str, what: str) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not ready():
            self.alive()
            if time.monotonic() > deadline:
                raise CliquenetError(f"waited {_READY_TIMEOUT_S:.0f} s in vain for {name} {what}")
            time.sleep(_POLL_S)

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _last_line(self, name: str) -> str:
        log = self._log(name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "it wrote no log"


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_END_TIMEOUT_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    _wait_for_end(process)
    process.kill()
    process.wait()


def _plain(value: Any) -> Any:
    """A value of the database's JSON without its wrapping of sets and maps."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "set":
        return value[1]
    if isinstance(value, list) and len(value) == 2 and value[0] == "map":
        return dict(value[1])
    return value

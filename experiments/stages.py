"""Follows the emulation's output: stages with their wall times, log, last error."""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from testbed.errors import MachineError

STAGE_MARK = b"@stage "
KILL_GRACE_S = 10.0


class StageFollower:
    """Takes the output of `experiments.emulate` and keeps what matters.

    Parameters
    ----------
    log
        File that receives every line that is not a stage mark.
    on_stage
        Called with a phrase when a stage begins.
    """

    def __init__(self, log: Path, on_stage: Callable[[str], None]) -> None:
        self._log: BinaryIO = log.open("wb")
        self._on_stage = on_stage
        self._begun_s = time.monotonic()
        self._stages: list[tuple[str, float]] = []
        self._pending: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self._errors: list[str] = []

    def __enter__(self) -> "StageFollower":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream, rest in self._pending.items():
            if rest:
                self._line(stream, rest)
        self._log.close()

    def feed(self, stream: str, data: bytes) -> None:
        """Take bytes of ``stdout`` or ``stderr`` as they arrive."""
        *lines, self._pending[stream] = (self._pending[stream] + data).split(b"\n")
        for line in lines:
            self._line(stream, line)

    def run(self, command: Sequence[str], *, cwd: Path, wall_limit_s: float) -> int:
        """Run the command on this host, feeding its output; returns its status."""
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            return self._read(process, time.monotonic() + wall_limit_s)
        finally:
            _end(process)

    def wall_times_until(self, stage: str) -> dict[str, float]:
        """Wall seconds that each step took up to the beginning of ``stage``, and their sum.

        A step is named by the stage that ends it.
        """
        times: dict[str, float] = {}
        before_s = 0.0
        for name, at_s in self._stages:
            times[f"{name}_wall_s"] = round(at_s - before_s, 3)
            before_s = at_s
            if name == stage:
                break
        return {**times, "total_wall_s": round(before_s, 3)}

    def last_error(self) -> str:
        """What the emulation said last on standard error, on one line."""
        return self._errors[-1] if self._errors else "it said nothing"

    def _line(self, stream: str, line: bytes) -> None:
        if line.startswith(STAGE_MARK):
            facts = json.loads(line[len(STAGE_MARK) :])
            self._stages.append((facts["stage"], time.monotonic() - self._begun_s))
            self._on_stage(str(facts.get("detail", facts["stage"])))
            return
        self._log.write(line + b"\n")
        text = line.decode(errors="replace").strip()
        if stream == "stderr" and text:
            self._errors = [*self._errors[-20:], text.removeprefix("error: ")]

    def _read(self, process: "subprocess.Popen[bytes]", deadline_s: float) -> int:
        with selectors.DefaultSelector() as selector:
            for name in ("stdout", "stderr"):
                selector.register(getattr(process, name), selectors.EVENT_READ, name)
            while selector.get_map():
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise MachineError("the run reached its wall-time limit and was stopped")
                for key, _ in selector.select(left_s):
                    data = os.read(key.fd, 65536)
                    if data:
                        self.feed(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
        return process.wait()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let the emulation clean up after itself; kill it only if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()

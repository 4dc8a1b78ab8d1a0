"""Runs an experiment in real time where this machine's own kernel cannot.

``python -m experiments.provereal [OPTION]…`` boots the distribution's packaged User Mode
Linux and runs ``experiment`` there, with ``--config real-clock`` unless another one is
named: the program and the options that a fit host would run. Any user can; the guest is
root's.
"""

import compileall
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.native.build import ensure_kernel_library
from experiments.results import owned_by_this_process
from experiments.run import ROOMS, ROOT
from testbed.arguments import Arguments
from testbed.errors import CliquenetError, InputError
from testbed.interrupts import termination_interrupts
from testbed.paths import cache_dir, calling_user, give_to_caller, make_dir
from testbed.virtualtime.machine import run_in_guest
from testbed.virtualtime.packaged import PACKAGE, ensure_packaged_kernel

CONFIG = "real-clock"
_MEMORY_MB = 2048
_LIMIT_S = 3600.0


def command(arguments: Sequence[str]) -> tuple[list[str], Path]:
    """The guest's command, and the folder of its results.

    Raises
    ------
    InputError
        The options ask for virtual time.
    """
    parser = Arguments(add_help=False, allow_abbrev=False)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--clock", default="auto")
    options, others = parser.parse_known_args(arguments)
    if options.clock not in ("auto", "real"):
        raise InputError(f"CLOCK={options.clock}: this proves the real clock; leave it out")
    results = options.results.absolute()
    argv = [sys.executable, "-m", "experiments.cli", "experiment", "--config", CONFIG]
    return [*argv, *others, "--clock", options.clock, "--results", str(results)], results


def prove(arguments: Sequence[str]) -> int:
    """Run the experiment in the guest; returns its exit status.

    Raises
    ------
    CliquenetError
        The guest cannot be had, or it died.
    """
    argv, results = command(arguments)
    kernel = ensure_packaged_kernel()
    ensure_kernel_library()
    for room in ROOMS:
        compileall.compile_dir(ROOT / room, quiet=2)
    sys.stderr.write(f"in {PACKAGE} {kernel.package_version}, kernel {kernel.release}:\n")
    with termination_interrupts():
        outcome = run_in_guest(
            argv,
            boot=kernel.boot(),
            on_output=_pass_on,
            memory_mb=_MEMORY_MB,
            writable=make_dir(results),
            env=_environment(),
            cwd=ROOT,
            wall_limit_s=_LIMIT_S,
        )
    give_to_caller(results)
    return outcome.status


def _environment() -> dict[str, str]:
    """What the guest has of the caller: its runs' owner, the cache, a home it may read."""
    return {
        **owned_by_this_process(),
        "CLIQUENET_CACHE": str(cache_dir()),
        "HOME": str(calling_user().home),
        "COLUMNS": str(shutil.get_terminal_size((100, 24)).columns),
    }


def _pass_on(stream: str, data: bytes) -> None:
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    target.write(data)
    target.flush()


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit status."""
    try:
        return prove(arguments)
    except CliquenetError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.status
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

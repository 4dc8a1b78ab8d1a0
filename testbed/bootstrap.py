"""Sets up what is missing: packages, environment, kernel, libraries. Runs on a bare Python 3.10.

``python3 -m testbed.bootstrap [ACTION]``; without an action it sets up.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.compiled import ensure_library
from testbed.distribution import install_packages, missing_packages, this_distribution
from testbed.environment import ensure_environment, environment_exists, environment_python
from testbed.errors import CliquenetError, InputError, MachineError, suggestion
from testbed.interrupts import termination_interrupts
from testbed.paths import cache_dir, calling_user, give_to_caller, make_dir
from testbed.virtualtime.kernel import ensure_kernel

ROOT = Path(__file__).parent.parent
KERNEL_SOURCES = ROOT / "agents" / "native"
"""Of the aggregator; as `agents.native.build` says, which the set-up cannot import."""
_CACHED = ("venv", "kernel", "native", "uftp", "log")


def set_up() -> None:
    """Set up everything that is missing; quick if nothing is.

    Raises
    ------
    MachineError
        Something is missing that this user, or nobody, can set up here.
    """
    missing = missing_packages(this_distribution().packages())
    if missing:
        install(missing)
    ensure_environment()
    ensure_kernel()
    ensure_library("aggregator", sorted(KERNEL_SOURCES.glob("*.c")), KERNEL_SOURCES)


def install(missing: list[str]) -> None:
    """Install packages of the distribution.

    Raises
    ------
    MachineError
        This is not root, who alone can; or the package manager failed.
    """
    if os.geteuid() != 0:
        raise MachineError(
            f"{len(missing)} packages are missing and only root can install them: run "
            f"`sudo make setup`, or `sudo apt-get install {' '.join(missing)}`"
        )
    log = make_dir(cache_dir() / "log") / "packages.log"
    log.unlink(missing_ok=True)
    log.touch()
    give_to_caller(log)
    install_packages(missing, log)


def print_python() -> None:
    """Print the path of the environment's interpreter.

    Raises
    ------
    MachineError
        There is none yet.
    """
    if not environment_exists():
        raise MachineError("this clone is not set up yet: run `sudo make setup`")
    print(environment_python())


def give_back() -> None:
    """Hand what root made in this clone under sudo (caches, results) to the calling user."""
    if calling_user().uid == os.getuid():
        return
    for path in ROOT.iterdir():
        if path.name != ".git":
            give_to_caller(path)


def clear_cache() -> None:
    """Remove our kernel, environments and libraries from the cache folder, nothing else."""
    for name in _CACHED:
        folder = cache_dir() / name
        if folder.exists():
            shutil.rmtree(folder)
            print(f"removed {folder}")


ACTIONS = {
    "set-up": set_up,
    "print-python": print_python,
    "give-back": give_back,
    "clear-cache": clear_cache,
}


def main(arguments: Sequence[str]) -> int:
    """Run one action; returns the exit status."""
    try:
        name = arguments[0] if arguments else "set-up"
        if name not in ACTIONS or len(arguments) > 1:
            raise InputError(f'no action "{name}": {suggestion(name, ACTIONS)}')
        with termination_interrupts():
            ACTIONS[name]()
    except CliquenetError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return MachineError.status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Builds the virtual-time kernel once and keeps it in the cache."""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from testbed.errors import CommandError, MachineError
from testbed.locking import file_lock
from testbed.longrun import run_logged
from testbed.paths import cache_dir, give_to_caller, make_dir
from testbed.progress import Step
from testbed.virtualtime.edits import EDITS, SourceEdit, apply_edits
from testbed.virtualtime.source import KernelSource, find_source

CONFIG = Path(__file__).with_name("kernel.config")

BUILD_BYTES = 2_500_000_000
_TOOLS = ("gcc", "make", "flex", "bison", "bc", "ld", "tar", "xz")
# A make above us (`make setup`) would pass its options and variables on.
_OWN_MAKE = {"MAKEFLAGS": "", "MFLAGS": "", "MAKELEVEL": "", "MAKEOVERRIDES": ""}
_SET = re.compile(r"(CONFIG_\w+)=(.+)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")
_ERROR = re.compile(r"(error|fatal|not found|not recognized|No space left|Cannot)", re.IGNORECASE)

# Not compiled for User Mode Linux, and more than half of the archive's bytes. Their
# Kconfig files stay: the configuration reads all of them.
_LEFT_OUT = ("arch/arm*", "drivers/gpu", "drivers/media", "drivers/net/ethernet", "sound")


def asked_options(config: str) -> dict[str, str]:
    """What a configuration asks for.

    Parameters
    ----------
    config
        Lines ``CONFIG_X=value`` and ``# CONFIG_X is not set``; other comments are skipped.

    Returns
    -------
    dict
        Option name to value; ``n`` stands for "is not set".

    Raises
    ------
    MachineError
        A line is neither, or names an option a second time.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(config.splitlines(), start=1):
        text = line.strip()
        match = _SET.fullmatch(text) or _UNSET.fullmatch(text)
        if match is None:
            if text and not text.startswith("#"):
                raise MachineError(f"kernel configuration, line {number}: `{text}` is no option")
            continue
        if match[1] in options:
            raise MachineError(f"kernel configuration, line {number}: {match[1]} stands twice")
        options[match[1]] = match[2] if match.re is _SET else "n"
    return options


def check_options(asked: dict[str, str], configured: str) -> None:
    """Check that each option asked for is what the kernel was configured with.

    Parameters
    ----------
    asked
        As :func:`asked_options` returns.
    configured
        Text of the ``.config`` that the kernel's own tool wrote.

    Raises
    ------
    MachineError
        An option was dropped or changed, most often because a dependency is missing.
    """
    got = asked_options(configured)
    wrong = [f"{name}={want}" for name, want in asked.items() if got.get(name, "n") != want]
    if wrong:
        raise MachineError(f"the kernel source does not accept: {', '.join(wrong)}")


def cached_kernel(
    source: KernelSource, config: str | None = None, edits: tuple[SourceEdit, ...] = EDITS
) -> Path:
    """Where the kernel of this source, configuration and edits lies, or would lie, in the cache."""
    content = [source.digest(), CONFIG.read_text() if config is None else config, repr(edits)]
    key = hashlib.sha256("\0".join(content).encode()).hexdigest()[:16]
    return cache_dir() / "kernel" / key / "linux"


def ensure_kernel(source: KernelSource | None = None) -> Path:
    """The virtual-time kernel, built first if the cache does not hold it.

    Two builders at once are safe: the second waits for the first.

    Parameters
    ----------
    source
        What to build; by default what the distribution's package put here.

    Returns
    -------
    pathlib.Path
        The program ``linux``.

    Raises
    ------
    MachineError
        Something that the build needs is missing, or it failed.
    """
    source = source or find_source()
    program = cached_kernel(source)
    if program.exists():
        return program
    make_dir(program.parent.parent)
    with file_lock(program.parent.parent / "lock", "another build of the kernel"):
        if not program.exists():
            _build(source, program)
    return program


def build_reason(error: CommandError) -> str:
    """The line of the output that says what went wrong, as far as one can tell."""
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    telling = [line for line in lines if _ERROR.search(line)]
    return (telling or lines or [str(error)])[0]


def _build(source: KernelSource, program: Path) -> None:
    """Build in a folder beside the target, then move the result into place in one step."""
    home = program.parent.parent
    _check_machine(home)
    log = home / f"{program.parent.name}.log"
    log.unlink(missing_ok=True)
    for left in home.glob("build-*"):  # of a build that was killed: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix="build-", dir=home))
    try:
        _unpack(source, work, log)
        tree = next(path for path in work.iterdir() if path.is_dir())
        apply_edits(tree)
        _configure(tree, log)
        _compile(tree, log)
        result = work / "result"
        result.mkdir()
        shutil.copy2(tree / "linux", result / "linux")
        shutil.copy2(tree / ".config", result / "config")
        result.chmod(0o755)
        give_to_caller(result)
        result.rename(program.parent)
        log.unlink()
    except CommandError as error:
        give_to_caller(log)
        raise MachineError(
            f"building the kernel: {build_reason(error)} (all of it: {log})"
        ) from error
    except OSError as error:
        raise MachineError(f"building the kernel: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_machine(folder: Path) -> None:
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise MachineError(
            f"building the kernel needs {', '.join(missing)}: run `sudo make setup`, or "
            "`sudo apt-get install gcc make flex bison bc binutils tar xz-utils`"
        )
    free = shutil.disk_usage(folder).free
    if free < BUILD_BYTES:
        raise MachineError(
            f"building the kernel needs {BUILD_BYTES / 1e9:.1f} GB in {folder}, "
            f"{free / 1e9:.1f} GB are free: make room, or set CLIQUENET_CACHE to another disk"
        )


def _unpack(source: KernelSource, work: Path, log: Path) -> None:
    excluded = [
        f"--exclude=*/{folder}/{'**/' if deep else ''}*.{kind}"
        for folder in _LEFT_OUT
        for kind in "chS"
        for deep in (False, True)
    ]
    with Step(f"unpacking {source.archive.name}") as step:
        argv = ["tar", "--wildcards", *excluded, "-xf", str(source.archive), "-C", str(work)]
        run_logged(argv, log=log, on_tick=step.tick)


def _configure(tree: Path, log: Path) -> None:
    with Step("configuring the kernel") as step:
        argv = ["make", "ARCH=um", f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig"]
        run_logged(argv, cwd=tree, env=_OWN_MAKE, log=log, on_tick=step.tick)
    check_options(asked_options(CONFIG.read_text()), (tree / ".config").read_text())


def _compile(tree: Path, log: Path) -> None:
    # The kernel stirs its version, which holds the date, into its random pool.
    fixed = {
        "KBUILD_BUILD_USER": "cliquenet",
        "KBUILD_BUILD_HOST": "cliquenet",
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
    }
    begin = log.stat().st_size
    with Step("building the kernel (2 to 5 minutes on two cores)") as step:

        def tick() -> None:
            with log.open("rb") as file:
                file.seek(begin)
                step.tick(f"{file.read().count(b'  CC ')} files")

        argv = ["make", "ARCH=um", f"-j{len(os.sched_getaffinity(0))}", "linux"]
        run_logged(argv, cwd=tree, env={**_OWN_MAKE, **fixed}, log=log, on_tick=tick)

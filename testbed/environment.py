"""The virtual environment from the lock file, kept in the cache."""

import hashlib
import os
import re
import shutil
from pathlib import Path

from testbed.errors import CommandError, MachineError
from testbed.locking import file_lock
from testbed.longrun import run_logged
from testbed.paths import cache_dir, give_to_caller, make_dir
from testbed.progress import Step

# The distribution's mininet is visible to the distribution's interpreter only.
SYSTEM_PYTHON = Path("/usr/bin/python3")
LOCK_FILE = Path(__file__).parent.parent / "requirements.lock"

# What builds the source packages (ryu needs these very versions); pinned before the rest.
_BUILD_TOOLS = ("pip", "setuptools", "wheel", "pbr")
_MARKER = "complete"
NEEDED_BYTES = 1_500_000_000
_PROBE = "import mininet, numpy, os_ken, pyarrow, pydantic, ryu"
# Neither the user's nor make's settings may lead pip elsewhere.
_CLEAN = {"PYTHONPATH": "", "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "install")
_HASHED = ("--no-build-isolation", "--no-deps", "--require-hashes", "--quiet", "-r")


def environment_python() -> Path:
    """Interpreter of the environment for this lock file, whether made yet or not."""
    return _folder() / "bin" / "python"


def environment_exists() -> bool:
    """Whether the environment for this lock file is complete."""
    return (_folder() / _MARKER).exists() and environment_python().exists()


def ensure_environment() -> Path:
    """The environment's interpreter; the environment is made first if it is missing.

    A half-made one is made anew. Two set-ups at once are safe.

    Raises
    ------
    MachineError
        It cannot be made: no network, no disk, no compiler, a package that does not build.
    """
    if environment_exists():
        return environment_python()
    folder = _folder()
    make_dir(folder.parent)
    with file_lock(folder.parent / "lock", "another set-up of the environment"):
        if not environment_exists():
            _make(folder)
    return environment_python()


def build_tool_lines(lock: str) -> str:
    """The lock file's entries, with their hashes, of the tools that build packages.

    Parameters
    ----------
    lock
        Text of the lock file.

    Raises
    ------
    MachineError
        A tool is not in it.
    """
    entries = []
    for tool in _BUILD_TOOLS:
        match = re.search(rf"^{tool}==(?:.*\\\n)*.*\n?", lock, re.MULTILINE)
        if match is None:
            raise MachineError(f"{LOCK_FILE.name} does not pin {tool}")
        entries.append(match[0])
    return "".join(entries)


def pip_reason(output: str) -> str:
    """Why pip failed, in one line, with what mends it where that is known."""
    silent = ("Temporary failure in name resolution", "NewConnectionError", "timed out")
    if any(sign in output for sign in (*silent, "ProxyError")):
        return "the package registry does not answer: check the network or proxy, then try again"
    absent = re.search(r"No matching distribution found for (\S+)", output)
    if absent:
        return (
            f"the package registry does not answer, or does not have {absent[1]}: check the "
            "network, proxy or mirror, then try again"
        )
    if "No space left on device" in output:
        return "no space left on the disk: make room, or set CLIQUENET_CACHE to another disk"
    if "DO NOT MATCH THE HASHES" in output:
        return f"a package is not the one that {LOCK_FILE.name} names: its hash differs"
    if "gcc" in output and "No such file" in output:
        return "no compiler: run `sudo make setup`, or `sudo apt-get install gcc python3-dev`"
    errors = [line.strip() for line in output.splitlines() if "error" in line.lower()]
    return errors[-1] if errors else (output.splitlines() or ["no output"])[-1]


def _folder() -> Path:
    key = hashlib.sha256(LOCK_FILE.read_bytes())
    key.update(str(SYSTEM_PYTHON.resolve()).encode())
    return cache_dir() / "venv" / key.hexdigest()[:16]


def _make(folder: Path) -> None:
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        raise MachineError(
            f"the environment needs {NEEDED_BYTES / 1e9:.1f} GB in {folder.parent}, "
            f"{free / 1e9:.1f} GB are free: make room, or set CLIQUENET_CACHE to another disk"
        )
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    tools = folder / "build-tools.lock"
    try:
        with Step("making the virtual environment") as step:
            argv = [str(SYSTEM_PYTHON), "-m", "venv", "--system-site-packages", str(folder)]
            run_logged(argv, log=log, env=_CLEAN, on_tick=step.tick)
            tools.write_text(build_tool_lines(LOCK_FILE.read_text()))
            run_logged([python, *_PIP, *_HASHED, str(tools)], log=log, env=_CLEAN)
        with Step("installing the Python packages of requirements.lock") as step:
            argv = [python, *_PIP, *_HASHED, str(LOCK_FILE)]
            run_logged(argv, log=log, env=_CLEAN, on_tick=step.tick)
            run_logged([python, "-c", _PROBE], log=log, env=_CLEAN, on_tick=step.tick)
    except CommandError as error:
        give_to_caller(log)
        shutil.rmtree(folder, ignore_errors=True)
        reason = pip_reason(error.output)
        raise MachineError(f"making the environment: {reason} (all of it: {log})") from error
    except OSError as error:
        raise MachineError(f"making the environment: {error}") from error
    (folder / _MARKER).touch()
    os.sync()
    give_to_caller(folder)
    log.unlink()

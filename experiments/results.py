"""The folder of one run: its place, its state, its manifest."""

import json
import os
import platform
import time
from collections.abc import Mapping
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any, Literal

from experiments.config import ExperimentConfig
from experiments.identity import run_prefix
from testbed.commands import run
from testbed.errors import CliquenetError, InputError, suggestion
from testbed.paths import give_to_caller, make_dir

State = Literal["running", "complete", "incomplete", "failed"]
"""``incomplete``: interrupted. ``failed``: ended by an error."""

PARTS = ("raw", "log", "events", "plots")
LATEST = "latest"
_OWNER_VARIABLE = "CLIQUENET_OWNER"
VERIFIED = "verify"
"""Folder of all verifications, below that of all runs."""

_ROOT = Path(__file__).parent.parent
_PACKAGES = (
    "matplotlib",
    "mininet",
    "networkx",
    "numpy",
    "os-ken",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyroute2",
    "ryu",
    "scipy",
)


def create_run(results_dir: Path, config: ExperimentConfig, prefix: str | None = None) -> Path:
    """Make the folder of a new run and point ``latest`` to it.

    The repetition is the first free number; two runs that start at the same
    moment get different ones, because making the folder is what claims it.

    Returns
    -------
    Path
        ``results_dir/<run id>``, with its parts, in state ``running``.
    """
    prefix = run_prefix(config) if prefix is None else prefix
    try:
        make_dir(results_dir)
        run_dir = _claim(results_dir, prefix)
        for part in PARTS:
            (run_dir / part).mkdir()
        set_state(run_dir, "running")
        _point_latest(results_dir, run_dir.name)
        give_to_caller(run_dir)
    except OSError as error:
        raise CliquenetError(f"cannot make a run folder in {results_dir}: {error}") from error
    return run_dir


def find_run(results_dir: Path, name: str) -> Path:
    """Find the folder of a run, named by its path, its id, or ``latest``."""
    for candidate in (results_dir / name, Path(name)):
        if candidate.is_dir():
            return candidate.resolve()
    known = [p.name for p in results_dir.iterdir() if p.is_dir()] if results_dir.is_dir() else []
    hint = suggestion(name, known) if known else "there is no run yet"
    raise InputError(f'no run "{name}" in {results_dir}: {hint}')


def set_state(run_dir: Path, state: State, message: str = "") -> None:
    """Record how the run stands, and the wall time since it was created."""
    now = time.time()
    started = now if state == "running" else float(read_state(run_dir).get("started_unix_s", now))
    status: dict[str, Any] = {
        "state": state,
        "message": message,
        "started_unix_s": round(started, 3),
        "wall_s": round(now - started, 3),
    }
    if state == "running":
        status["owner"] = _owner()
    write_json(run_dir / "status.json", status)


def own(run_dir: Path, pid: int, folder: Path | None = None) -> None:
    """Note down what a run has made on this machine: a process, and a folder outside its own.

    `experiments.cleanup` takes it away if the run cannot.
    """
    status = read_state(run_dir)
    made = {"process": _identify(pid), "folder": None if folder is None else str(folder)}
    write_json(run_dir / "status.json", {**status, "made": [*status.get("made", ()), made]})


def owned_by_this_process() -> dict[str, str]:
    """The environment that makes this process the owner of a run inside its guest.

    The guest's own processes mean nothing to whoever looks at the run from here.
    """
    return {_OWNER_VARIABLE: json.dumps(_identify(os.getpid()))}


def is_running(process: object) -> bool:
    """Tell whether a process that a state names is still there, and not another of its number."""
    return isinstance(process, dict) and process == _identify(int(process.get("pid", 0)))


def owner_runs(status: dict[str, Any]) -> bool:
    """Tell whether the process that set the state ``running`` is still there."""
    return is_running(status.get("owner"))


def read_state(run_dir: Path) -> dict[str, Any]:
    """Read what `set_state` recorded; empty if nothing was."""
    path = run_dir / "status.json"
    return read_json(path) if path.exists() else {}


def write_manifest(
    run_dir: Path, config: ExperimentConfig, *, kernel: str, extra: Mapping[str, object]
) -> None:
    """Write ``manifest.json``: what this run was made from.

    Parameters
    ----------
    run_dir, config
        The run, and its config with the clock decided.
    kernel
        What the network runs on: the release, in virtual time with the hash of its build.
    extra
        Further entries of the host part of the run.
    """
    manifest = {
        "run_id": run_dir.name,
        "config": config.resolved(),
        "clock": config.clock,
        "seed": config.seed,
        "kernel": kernel,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "git_commit": git_commit(),
        "verdict": None,
        **extra,
    }
    write_json(run_dir / "manifest.json", manifest)


def read_manifest(run_dir: Path) -> dict[str, Any]:
    """Read what `write_manifest` wrote; empty if nothing was."""
    path = run_dir / "manifest.json"
    return read_json(path) if path.exists() else {}


def configured(manifest: Mapping[str, Any], key: str, default: float) -> float:
    """A number of the config that a manifest holds; a run of an older version may lack it."""
    return float(manifest.get("config", {}).get(key, default))


def amend_manifest(run_dir: Path, **entries: object) -> None:
    """Set entries of a manifest that exists; do nothing where there is none."""
    path = run_dir / "manifest.json"
    if path.exists():
        write_json(path, {**read_json(path), **entries})


def git_commit() -> str | None:
    """Commit of the working tree that runs, ``-dirty`` if it was changed; None outside git."""
    git = ("git", "-c", f"safe.directory={_ROOT}", "-C", str(_ROOT))
    try:
        commit = run([*git, "rev-parse", "HEAD"], timeout_s=10).strip()
        changed = run([*git, "status", "--porcelain", "--untracked-files=no"], timeout_s=10)
    except CliquenetError:
        return None
    return f"{commit}-dirty" if changed.strip() else commit


def write_json(path: Path, value: object) -> None:
    """Write JSON so that a reader sees the old file or the new one, never a half."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text)
    give_to_caller(half)
    half.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a run folder.

    Raises
    ------
    InputError
        The file is missing, or holds something else.
    """
    try:
        value = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} does not hold a JSON object")
    return value


def _claim(results_dir: Path, prefix: str) -> Path:
    for repetition in count(1):
        run_dir = results_dir / f"{prefix}-{repetition}"
        try:
            run_dir.mkdir()
        except FileExistsError:
            continue
        return run_dir
    raise AssertionError("unreachable: count() does not end")


def _point_latest(results_dir: Path, run_id: str) -> None:
    latest = results_dir / LATEST
    if latest.exists() and not latest.is_symlink():
        raise CliquenetError(f"{latest} is not a link: move it away")
    half = results_dir / f".{LATEST}.{os.getpid()}"
    half.unlink(missing_ok=True)
    half.symlink_to(run_id)
    give_to_caller(half)
    half.replace(latest)


def _owner() -> dict[str, Any]:
    told = os.environ.get(_OWNER_VARIABLE)
    return json.loads(told) if told else _identify(os.getpid())


def _identify(pid: int) -> dict[str, object]:
    """Number, start time (proc(5), field 22) and boot of a process: no other shares all three."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        # The name, in parentheses, may hold spaces and parentheses itself.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return {"pid": pid, "start_ticks": None, "boot_id": boot_id}
    return {"pid": pid, "start_ticks": int(fields[19]), "boot_id": boot_id}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

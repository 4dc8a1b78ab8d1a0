"""Runs a stored run again from its manifest, and tells whether the same came out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.comparison.tablefiles import new_table
from experiments.config import ExperimentConfig
from experiments.identity import run_prefix
from experiments.outcome import work_out
from experiments.results import read_json, read_state, write_json
from experiments.run import ProgressFactory, run_experiment
from experiments.sameness import Part, compare_runs
from experiments.sources import load_config
from testbed.errors import InputError, UntrustedRunError

ENVIRONMENT = ("kernel", "python", "packages", "git_commit")
"""Entries of a manifest that may explain a difference."""


@dataclass(frozen=True)
class Reproduction:
    """A run beside its repetition."""

    old_dir: Path
    new_dir: Path
    parts: tuple[Part, ...]
    environment: tuple[str, ...]
    """What was different in the environment of the repetition."""

    @property
    def same(self) -> bool:
        """Whether every part is."""
        return all(part.same for part in self.parts)


def stored_config(run_dir: Path) -> ExperimentConfig:
    """Resolve the config of a stored run, as its manifest has it.

    Raises
    ------
    InputError
        The run is not complete, its manifest is damaged, or a topology or schedule file that
        it names has changed since.
    """
    state = read_state(run_dir).get("state")
    if state != "complete":
        raise InputError(f"{run_dir.name} is {state or 'no run'}: only a complete run is repeated")
    path = run_dir / "manifest.json"
    values = read_json(path).get("config")
    if not isinstance(values, dict):
        raise InputError(f"{path}: config: is not an object")
    try:
        config = load_config(None, values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    run_id = run_dir.resolve().name
    if not run_id.startswith(f"{run_prefix(config)}-"):
        raise InputError(
            f"{path}: its config now stands for {run_prefix(config)}, not for {run_id}: the "
            "topology or schedule file, or the keys of this version, have changed"
        )
    return config


def reproduce(run_dir: Path, results_dir: Path, progress: ProgressFactory) -> Reproduction:
    """Run a stored run again and compare both.

    Parameters
    ----------
    run_dir
        The stored run; it stays as it is.
    results_dir
        Folder of all runs; gets the repetition, with ``reproduction.json``.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    InputError
        See `stored_config`.
    CliquenetError
        The repetition failed.
    """
    config = stored_config(run_dir)
    new_dir = run_experiment(config, results_dir, force=True, progress=progress)
    work_out(new_dir)
    made = Reproduction(
        old_dir=run_dir,
        new_dir=new_dir,
        parts=tuple(compare_runs(run_dir, new_dir)),
        environment=tuple(_environment(run_dir, new_dir)),
    )
    write_json(new_dir / "reproduction.json", as_json(made))
    return made


def as_json(made: Reproduction) -> dict[str, Any]:
    """The comparison as an object."""
    return {
        "run_id": made.old_dir.name,
        "repetition": made.new_dir.name,
        "same": made.same,
        "parts": [vars(part) for part in made.parts],
        "environment": list(made.environment),
    }


def reproduce_and_show(run_dir: Path, results_dir: Path, progress: ProgressFactory) -> int:
    """Reproduce a run and print what is the same.

    Raises
    ------
    UntrustedRunError
        Something is not.
    """
    made = reproduce(run_dir, results_dir, progress)
    title = f"{made.old_dir.name} and {made.new_dir.name}"
    table = new_table(title, ("part", "same", "difference"), ("part", "same", "difference"))
    for part in made.parts:
        table.add_row(part.name, "yes" if part.same else "NO", part.difference)
    console = Console(soft_wrap=True, markup=False)
    console.print(table)
    for line in made.environment:
        console.print(f"environment: {line}", highlight=False)
    if not made.same:
        first = next(part for part in made.parts if not part.same)
        raise UntrustedRunError(f"not reproduced: {first.name}: {first.difference}")
    return 0


def _environment(old_dir: Path, new_dir: Path) -> list[str]:
    old, new = (read_json(folder / "manifest.json") for folder in (old_dir, new_dir))
    lines = []
    for key in ENVIRONMENT:
        was, now = old.get(key), new.get(key)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            lines += [
                f"{name} {was.get(name)} became {now.get(name)}"
                for name in sorted({*was, *now})
                if was.get(name) != now.get(name)
            ]
        elif was != now:
            lines.append(f"{key} {was} became {now}")
    return lines

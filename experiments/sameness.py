"""Whether two runs of one config gave the same: trace, summary, tables and plots' data."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.results import read_json

OF_THE_MACHINE = frozenset(
    {"run_id", "wall_s", "network_up_wall_s", "network_up", "processor_s", "clock_reason", "host"}
)
"""Entries of a summary that tell of the machine's own time, not of the run's."""
_TABLES = ("events", "plots")


@dataclass(frozen=True)
class Part:
    """One part of a run beside the same part of the other."""

    name: str
    same: bool
    difference: str = ""
    """The first place where they differ, and both values."""


def compare_runs(old_dir: Path, new_dir: Path) -> list[Part]:
    """Compare what two runs measured.

    Parameters
    ----------
    old_dir, new_dir
        Folders of analysed runs.

    Returns
    -------
    list of Part
        The trace, the summary, then each table of ``events/`` and ``plots/``.

    Raises
    ------
    InputError
        A run has no summary.
    """
    old, new = (read_json(folder / "summary.json") for folder in (old_dir, new_dir))
    parts = [
        _part("trace", _differences(*(s.get("trace_sha256", "none") for s in (old, new)))),
        _part("summary", _differences(_of_the_run(old), _of_the_run(new))),
    ]
    for folder in _TABLES:
        parts += [
            _compare_tables(name, old_dir / folder / name, new_dir / folder / name)
            for name in sorted(_tables(old_dir / folder) | _tables(new_dir / folder))
        ]
    return parts


def near(expected: object, found: object, relative: float) -> list[str]:
    """Every place where JSON values differ; floats may by a share of the expected one.

    Whole numbers, texts and the shape have to be equal.
    """
    return [f"{where}: {text}" for where, text in _walk(expected, found, relative)]


def _of_the_run(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in summary.items() if k not in OF_THE_MACHINE and k != "trace_sha256"}


def _part(name: str, differences: list[str]) -> Part:
    return Part(name, not differences, differences[0] if differences else "")


def _differences(old: object, new: object) -> list[str]:
    return [f"{where}: {text}" if where else text for where, text in _walk(old, new, 0.0)]


def _walk(old: object, new: object, relative: float, where: str = "") -> Iterator[tuple[str, str]]:
    """Places where two JSON values differ, and both values there."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            inner = f"{where}.{key}" if where else str(key)
            if key not in old or key not in new:
                yield inner, "only in the " + ("first" if key in old else "second")
            else:
                yield from _walk(old[key], new[key], relative, inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _walk(a, b, relative, f"{where}[{index}]")
    elif not _equal(old, new, relative):
        yield where, f"{_short(old)} became {_short(new)}"


def _equal(old: object, new: object, relative: float) -> bool:
    if isinstance(old, float) and isinstance(new, int | float):
        return old == new or math.isclose(new, old, rel_tol=relative, abs_tol=relative * 1e-3)
    return type(old) is type(new) and old == new


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _tables(folder: Path) -> set[str]:
    return {p.name for p in folder.glob("*") if p.suffix in (".csv", ".parquet")}


def _compare_tables(name: str, old: Path, new: Path) -> Part:
    missing = next((path for path in (old, new) if not path.exists()), None)
    if missing:
        return Part(name, same=False, difference=f"only one run has it: {missing} is missing")
    a, b = (pd.read_csv(p) if p.suffix == ".csv" else pd.read_parquet(p) for p in (old, new))
    if list(a.columns) != list(b.columns) or len(a) != len(b):
        shapes = " became ".join(f"{len(t)} rows of {len(t.columns)}" for t in (a, b))
        return Part(name, same=False, difference=shapes)
    for column in a.columns:
        unequal = (a[column] != b[column]) & ~(a[column].isna() & b[column].isna())
        if unequal.any():
            row = int(unequal.to_numpy().argmax())
            values = f"{_short(a[column].iloc[row])} became {_short(b[column].iloc[row])}"
            return Part(name, same=False, difference=f"{column} of row {row}: {values}")
    return Part(name, same=True)

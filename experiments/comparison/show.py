"""What every comparison prints when it is done, and how it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from experiments.terminal import print_line, print_object
from testbed.errors import CliquenetError, UntrustedRunError


class _Row(Protocol):
    """A run in a table."""

    @property
    def run_id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def reason(self) -> str: ...


class _Made(Protocol):
    """A comparison that was made: where its files are, and its rows, which are dataclasses."""

    @property
    def folder(self) -> Path: ...
    @property
    def rows(self) -> Sequence[Any]: ...
    @property
    def files(self) -> Sequence[Path]: ...


def show(
    made: _Made,
    table: Callable[[], None],
    *,
    as_json: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Print a comparison, and return its exit status.

    Parameters
    ----------
    made
        The comparison.
    table
        Prints it as people read it.
    as_json
        Print it as one object instead.
    more
        Further entries of that object.

    Raises
    ------
    CliquenetError
        A run failed.
    UntrustedRunError
        A run finished, but failed its checks.
    """
    if as_json:
        rows = [asdict(row) for row in made.rows]
        files = [str(path) for path in made.files]
        print_object({"folder": str(made.folder), "rows": rows, **more, "files": files})
    else:
        table()
        plots = sum(path.suffix == ".png" for path in made.files)
        print_line(f"table and plot{'s' if plots > 1 else ''}: {made.folder}")
    return conclude(made.rows)


def conclude(rows: Sequence[_Row]) -> int:
    """Status of a comparison: raise if a run failed, or finished but failed its checks."""
    failed = [row for row in rows if row.source == "failed"]
    if failed:
        raise CliquenetError(f"{len(failed)} of {len(rows)} runs failed: {failed[0].reason}")
    wrong = [row.run_id for row in rows if row.verdict == "FAIL"]
    if wrong:
        raise UntrustedRunError(f"{len(wrong)} runs failed their checks: {', '.join(wrong)}")
    return 0

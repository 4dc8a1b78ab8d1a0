"""A live view of aggregators on one screen, in plain ANSI."""

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agents.aggregator.status import Status
from agents.aggregator.statusclient import find_sources, read_status
from testbed.errors import InputError

_CLEAR = "\x1b[H\x1b[2J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_WIDEST = 200
_MEGABYTE = 1e6
_CAUSES = ("complete", "timeout", "collision", "flush", "bypass")
_COLUMNS = (
    *("city", "time s", "round done", "held MB", "of %", "high %", "ring MB", "ring s"),
    *(*_CAUSES, "late", "drops", "overflow", "gaps"),
)


class View(NamedTuple):
    """One source and what came from it: a status, or why there is none."""

    name: str
    status: Status | None
    error: str = ""


def show(paths: Sequence[Path], *, interval_s: float) -> int:
    """Show the aggregators at some paths until Ctrl-C, or once if this is no terminal.

    Parameters
    ----------
    paths
        See `find_sources`; looked at anew each time.
    interval_s
        Between two looks.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    InputError
        A path does not exist.
    """
    if not sys.stdout.isatty():
        sys.stdout.write(render(look(paths), _WIDEST) + "\n")
        return 0
    try:
        sys.stdout.write(_HIDE_CURSOR)
        while True:
            width, height = shutil.get_terminal_size()
            lines = render(look(paths), width).splitlines()
            sys.stdout.write(_CLEAR + "\n".join(lines[: height - 1]))
            sys.stdout.flush()
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0
    finally:
        sys.stdout.write(_SHOW_CURSOR + "\n")
        sys.stdout.flush()


def look(paths: Sequence[Path]) -> list[View]:
    """Fetch every status once."""
    return [_view(source) for source in find_sources(paths)]


def render(views: Sequence[View], width: int) -> str:
    """The screen: a table, then who is waited for, then who gave no answer.

    Parameters
    ----------
    views
        What was fetched.
    width
        Columns of the screen; longer lines are cut.
    """
    known = [view.status for view in views if view.status is not None]
    if not views:
        return "no aggregator has a status here yet"
    lines = _table([list(_COLUMNS), *(_cells(status) for status in known)]) if known else []
    waiting = [_waiting(status) for status in known if status.oldest is not None]
    reasons = [text for text in map(_counts, known) if text]
    silent = [f"{view.name}: {view.error}" for view in views if view.status is None]
    for heading, found in (("waiting for", waiting), ("counted", reasons), ("silent", silent)):
        lines += ["", heading, *(f"  {line}" for line in found)] if found else []
    return "\n".join(line[:width] for line in lines)


def _view(source: Path) -> View:
    try:
        return View(source.stem, read_status(source))
    except InputError as error:
        return View(source.stem, None, str(error))


def _cells(status: Status) -> list[str]:
    memory, emitted = status.memory, status.emitted_blocks
    return [
        status.city,
        f"{status.time_ms / 1e3:.2f}",
        " ".join(
            f"{r.round}:{_percent(r.complete_blocks, r.expected_blocks)}" for r in status.rounds
        ),
        f"{memory.occupied_slots * memory.block_bytes / _MEGABYTE:.1f}",
        _percent(memory.occupied_slots, memory.slots),
        _percent(memory.high_water_slots, memory.slots),
        f"{memory.ring_bytes / _MEGABYTE:.1f}",
        f"{memory.ring_held_s:.2f}",
        *(str(emitted.get(cause, 0)) for cause in _CAUSES),
        str(status.late_blocks),
        str(sum(status.drops.values())),
        str(status.socket_overflow),
        str(sum(sum(r.gaps.values()) for r in status.rounds)),
    ]


def _waiting(status: Status) -> str:
    """Who keeps the oldest block waiting, and what each sender has delivered of its round."""
    oldest = status.oldest
    if oldest is None:
        return ""
    delivered = {r.round: r.contributions for r in status.rounds}.get(oldest.round, {})
    return (
        f"{status.city}: {', '.join(oldest.missing)} "
        f"(round {oldest.round}, block {oldest.block}, {oldest.age_ms:.1f} ms; "
        f"delivered: {_pairs(delivered)})"
    )


def _counts(status: Status) -> str:
    """Everything that is counted by a name, where it is not zero."""
    sums = {"saturated": status.saturated_blocks, "nonfinite": status.nonfinite_blocks}
    groups: list[tuple[str, Mapping[str, float]]] = [
        ("sums", _positive(sums)),
        ("drops", status.drops),
        *((f"gaps of round {r.round}", _positive(r.gaps)) for r in status.rounds),
        ("recovery", _positive(status.recovery)),
    ]
    texts = [f"{name}: {_pairs(counts)}" for name, counts in groups if counts]
    return f"{status.city}: {'; '.join(texts)}" if texts else ""


def _positive(counts: Mapping[str, float]) -> dict[str, float]:
    return {name: count for name, count in counts.items() if count}


def _pairs(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.10g}" for name, value in counts.items())


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "–"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Right-aligned columns, the first one left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

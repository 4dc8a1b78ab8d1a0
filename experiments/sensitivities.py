"""What would shorten T, as `make plan` tells it: on the terminal, as JSON, as a file."""

from pathlib import Path
from typing import Any

from rich.console import Console

from controller.bottlenecks import Bottleneck, Bottlenecks
from experiments.results import write_json
from testbed.errors import CliquenetError

FILE_NAME = "sensitivities.json"

_LINES = 5
_OF_A_KIND = 2
_PLACES = 4
_NAMES = {
    "link": "capacity of",
    "access": "access links of",
    "rate": "capacity and access of",
    "delay": "delay of",
    "memory": "memory of",
}


def sensitivities_object(found: Bottlenecks) -> dict[str, Any]:
    """As JSON values: the list, and what is odd about it.

    Returns
    -------
    dict
        ``sensitivities``: objects with ``what``, ``places``, ``unit`` and
        ``gain_ms_per_unit``; ``sensitivities_note``: text, or empty.
    """
    return {
        "sensitivities": [
            {
                "what": each.what,
                "places": list(each.places),
                "unit": each.unit,
                "gain_ms_per_unit": each.gain_ms,
            }
            for each in found.found
        ],
        "sensitivities_note": found.note,
    }


def write_sensitivities(folder: Path, found: Bottlenecks) -> Path:
    """Write them beside a plan.

    Raises
    ------
    CliquenetError
        The folder cannot be written.
    """
    path = folder / FILE_NAME
    try:
        write_json(path, sensitivities_object(found))
    except OSError as error:
        raise CliquenetError(f"cannot write {path}: {error}") from error
    return path


def print_sensitivities(found: Bottlenecks, console: Console | None = None) -> None:
    """Print the largest gains of each kind, a line each; a note if there are none."""
    console = console or Console(highlight=False)
    lines = [_line(each) for each in _shown(found)]
    if found.note:
        lines.append(found.note)
    for number, line in enumerate(lines):
        title = "shorter T" if number == 0 else ""
        console.print(f"{title:<12}{line}", markup=False, soft_wrap=True)


def _shown(found: Bottlenecks) -> list[Bottleneck]:
    """The first few of each kind: gains per unit of different kinds do not compare."""
    counts: dict[str, int] = {}
    shown = []
    for each in found.found:
        counts[each.what] = counts.get(each.what, 0) + 1
        if counts[each.what] <= _OF_A_KIND:
            shown.append(each)
    return shown[:_LINES]


def _line(each: Bottleneck) -> str:
    places = ", ".join(each.places[:_PLACES])
    if len(each.places) > _PLACES:
        places += f" and {len(each.places) - _PLACES} more"
    together = " together" if len(each.places) > 1 else ""
    less = "less" if each.what == "delay" else "more"
    return f"−{each.gain_ms:.3g} ms per {each.unit} {less}: {_NAMES[each.what]} {places}{together}"

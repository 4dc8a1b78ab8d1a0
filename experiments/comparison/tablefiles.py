"""What all comparisons do with their rows: cells, CSV, Markdown, a table on the terminal."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

Cells = Mapping[str, str]
"""One row as people read it: heading to text, in order."""


def number(value: float | None, form: str, absent: str = "–") -> str:
    """Format a figure that may be absent."""
    return absent if value is None else format(value, form)


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write every field of every row; an absent figure is an empty cell."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def markdown_lines(rows: Sequence[Cells], left: Iterable[str] = ()) -> list[str]:
    """Lines of a Markdown table; columns are aligned right but for those named."""
    headings = list(rows[0])
    rule = [":--" if heading in left else "--:" for heading in headings]
    return [_line(texts) for texts in (headings, rule, *(row.values() for row in rows))]


def write_markdown(
    path: Path, rows: Sequence[Cells], title: str, notes: Sequence[str] = ()
) -> Path:
    """Write a title, a Markdown table below it, and notes below that."""
    lines = [f"# {title}", "", *markdown_lines(rows)]
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    path.write_text("\n".join(lines) + "\n")
    return path


def new_table(title: str, headings: Iterable[str], left: Iterable[str]) -> Table:
    """A table for the terminal; columns are aligned right but for those named."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for heading in headings:
        justify: Literal["left", "right"] = "left" if heading in left else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    return table


def print_cells(
    rows: Sequence[Cells], brief: Mapping[str, str], title: str, legend: str, console: Console
) -> None:
    """Print some columns of a table.

    Parameters
    ----------
    rows
        The cells.
    brief
        The columns that are printed, and what they are called there.
    title, legend
        Above and below it.
    console
        Where to.
    """
    table = new_table(title, brief.values(), ("schedule", "link"))
    for row in rows:
        table.add_row(*(row[heading] for heading in brief))
    console.print(table)
    console.print(legend, style="dim")


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"

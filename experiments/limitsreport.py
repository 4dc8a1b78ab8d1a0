"""Prints the limits of the fidelity check."""

from rich.console import Console
from rich.table import Table

from testbed.limits import DEFAULTS, Limits


def print_limits(console: Console | None = None) -> None:
    """Print each key of LIMITS with its default on either clock."""
    console = console or Console(highlight=False)
    table = Table(title="LIMITS, by clock (–: not judged)", title_justify="left", box=None)
    for heading in ("name", *DEFAULTS, "what"):
        table.add_column(heading, justify="right" if heading in DEFAULTS else "left")
    for name, field in Limits.model_fields.items():
        values = (getattr(limits, name) for limits in DEFAULTS.values())
        shown = ("–" if value is None else f"{value:g}" for value in values)
        table.add_row(name, *shown, field.description or "")
    console.print(table)

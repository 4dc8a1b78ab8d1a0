"""Looks at running aggregators: ``python -m agents.aggregator top`` and ``… status``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agents.aggregator.statusclient import find_sources, read_status
from agents.aggregator.top import show
from testbed.commandline import run_command_line
from testbed.errors import InputError

LATEST_RUN = Path(__file__).parents[2] / "results" / "latest"

app = typer.Typer(
    name="python -m agents.aggregator",
    help="Look at running aggregators.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Where = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Sockets, logs, or a run's folder; the latest run by default.",
        show_default=False,
    ),
]


@app.command()
def top(
    where: Where = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> int:
    """Show aggregators on one screen until Ctrl-C; once, if this is no terminal."""
    paths = where or [LATEST_RUN]
    if not find_sources(paths) and not sys.stdout.isatty():
        raise InputError(f"{paths[0]}: no aggregator has a status there")
    return show(paths, interval_s=interval)


@app.command()
def status(socket: Annotated[Path, typer.Argument(help="Socket or log.")]) -> int:
    """Print the status of one aggregator as JSON."""
    typer.echo(read_status(socket).model_dump_json(indent=1))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; one line per error."""
    return run_command_line(app, argv)


if __name__ == "__main__":
    sys.exit(main())

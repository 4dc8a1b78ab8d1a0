"""The command line: parses, calls, and turns every outcome into an exit status.

0 done · 1 failed · 2 bad input · 3 finished, but not to be believed ·
4 infeasible · 5 the machine lacks something · 130 interrupted
"""

import sys

import typer

from experiments.commands import comparisons, plans, runs, verifying
from testbed.commandline import run_command_line

app = typer.Typer(
    name="cliquenet",
    help="Geo-distributed training over an intelligent network, on real packets.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _command in (
    runs.experiment,
    verifying.verify,
    plans.plan,
    plans.optimize,
    comparisons.compare,
    comparisons.loss,
    plans.collective,
    comparisons.compare_collectives,
    comparisons.compare_failures,
    comparisons.sync_sgd,
    runs.analyse,
    runs.plot,
    runs.reproduce,
    runs.clean,
    runs.variables,
):
    app.command()(_command)


def main(argv: list[str] | None = None) -> int:
    """Run a command line and return its exit status; one line per error."""
    return run_command_line(app, argv)


if __name__ == "__main__":
    sys.exit(main())

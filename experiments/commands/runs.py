"""One experiment: run it, work its records out again, tidy up."""

from pathlib import Path

import typer

from experiments.commands.options import (
    DEFAULT_RESULTS,
    Config,
    Force,
    Results,
    Run,
    Set,
    Text,
    resolved_config,
)
from testbed.errors import UntrustedRunError


def experiment(
    context: typer.Context,
    schedule: Text = None,
    clock: Text = None,
    memory: Text = None,
    multicast: Text = None,
    aggregation: Text = None,
    rounds: Text = None,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    trees: Text = None,
    rates: Text = None,
    chunks: Text = None,
    model: Text = None,
    release: Text = None,
    config: Config = None,
    set_: Set = None,
    force: Force = False,
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Plan, run, analyse and plot one experiment, and print its summary."""
    resolved = resolved_config(context)
    from experiments.run import run_experiment
    from testbed.progress import Step

    run_dir = run_experiment(resolved, results, force=resolved.force, progress=Step)
    return _analyse(run_dir)


def analyse(run: Run = "latest", results: Results = DEFAULT_RESULTS) -> int:
    """Work the records of a run out again: events, summary, plots."""
    from experiments.results import find_run

    return _analyse(find_run(results, run))


def plot(run: Run = "latest", results: Results = DEFAULT_RESULTS) -> int:
    """Draw the plots of an analysed run again, from its files only."""
    from experiments.outcome import draw
    from experiments.results import find_run

    for path in draw(find_run(results, run)):
        typer.echo(path)
    return 0


def reproduce(run: Run = "latest", results: Results = DEFAULT_RESULTS) -> int:
    """Run a stored run again from its manifest and compare all that it measured."""
    from experiments.reproduce import reproduce_and_show
    from experiments.results import find_run
    from testbed.progress import Step

    return reproduce_and_show(find_run(results, run), results, Step)


def clean(results: Results = DEFAULT_RESULTS) -> int:
    """Remove what interrupted runs of ours left behind on this machine; keep results."""
    from experiments.cleanup import clean_all

    for line in clean_all(results) or ["nothing to clean"]:
        typer.echo(line)
    return 0


def variables() -> int:
    """List every variable with its default and its values."""
    from experiments.limitsreport import print_limits
    from experiments.report import print_variables

    print_variables()
    print_limits()
    return 0


def _analyse(run_dir: Path) -> int:
    """Analyse, plot and report one run; a run that failed its checks raises."""
    from experiments.outcome import work_out

    summary = work_out(run_dir)
    if summary["verdict"] == "FAIL":
        raise UntrustedRunError(f"{run_dir.name} failed its checks: {summary['reasons'][0]}")
    return 0

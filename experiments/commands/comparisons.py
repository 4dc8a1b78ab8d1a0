"""Several runs beside each other, in one table."""

from typing import Annotated

import typer

from experiments.commands.options import (
    DEFAULT_RESULTS,
    Budget,
    Config,
    Force,
    Format,
    Jobs,
    Quick,
    Results,
    Set,
    Text,
    is_json,
    resolved_config,
)


def compare(
    context: typer.Context,
    rounds: Text = None,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    trees: Text = None,
    rates: Text = None,
    config: Config = None,
    set_: Set = None,
    budget: Budget = 30.0,
    quick: Annotated[bool, typer.Option(help="A tenth of the payload, coarser sweeps.")] = False,
    jobs: Jobs = None,
    force: Force = False,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Plan and run schedules, ablations and memories, and write one table of them."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.comparison.compare import Request
    from experiments.plancommand import compare_and_show

    request = Request(resolved, quick=quick, budget_s=budget, workers=jobs, force=resolved.force)
    return compare_and_show(request, results, as_json=as_json)


def loss(
    context: typer.Context,
    schedule: Text = None,
    memory: Text = None,
    rounds: Text = None,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    trees: Text = None,
    rates: Text = None,
    config: Config = None,
    set_: Set = None,
    quick: Quick = False,
    jobs: Jobs = None,
    force: Force = False,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Run schedules at several loss rates of the last hop, with recovery and without."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.plancommand import sweep_losses_and_show

    return sweep_losses_and_show(
        resolved, results, quick=quick, workers=jobs, force=resolved.force, as_json=as_json
    )


def compare_collectives(
    context: typer.Context,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    chunks: Text = None,
    config: Config = None,
    set_: Set = None,
    quick: Quick = False,
    jobs: Jobs = None,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Run all-reduce between hosts by each algorithm, and through the network; one table."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.plancommand import compare_collectives_and_show

    return compare_collectives_and_show(
        resolved, results, quick=quick, workers=jobs, as_json=as_json
    )


def sync_sgd(
    context: typer.Context,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    chunks: Text = None,
    config: Config = None,
    set_: Set = None,
    quick: Quick = False,
    jobs: Jobs = None,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Compute and synchronise in turns, by each algorithm and through the network; one table."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.plancommand import compare_training_and_show

    return compare_training_and_show(resolved, results, quick=quick, workers=jobs, as_json=as_json)


def compare_failures(
    context: typer.Context,
    schedule: Text = None,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    chunks: Text = None,
    config: Config = None,
    set_: Set = None,
    quick: Quick = False,
    jobs: Jobs = None,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Run an all-reduce between hosts once for each link, which fails at half the time."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.plancommand import compare_failures_and_show

    return compare_failures_and_show(resolved, results, quick=quick, workers=jobs, as_json=as_json)

"""Several runs beside each other, in one table."""

from dataclasses import asdict
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
    from experiments.comparison import compare as comparison
    from experiments.comparison.show import show
    from experiments.comparison.tables import print_rows
    from experiments.terminal import print_line
    from testbed.progress import Step

    request = comparison.Request(
        resolved, quick=quick, budget_s=budget, workers=jobs, force=resolved.force
    )
    made = comparison.compare(request, results, progress=Step)

    def table() -> None:
        print_rows(made.rows, made.title)
        for note in made.notes:
            print_line(note)

    return show(made, table, as_json=as_json, more={"notes": made.notes})


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
    from experiments.comparison.loss import sweep_losses
    from experiments.comparison.loss_rows import print_losses
    from experiments.comparison.show import show
    from testbed.progress import Step

    made = sweep_losses(
        resolved, results, quick=quick, workers=jobs, force=resolved.force, progress=Step
    )
    return show(made, lambda: print_losses(made.rows, made.title), as_json=as_json)


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
    from experiments.comparison import collectives
    from experiments.comparison.collective_rows import gain, print_collectives
    from experiments.comparison.show import show
    from testbed.progress import Step

    made = collectives.compare_collectives(
        resolved, results, quick=quick, workers=jobs, progress=Step
    )
    found = gain(made.rows)
    return show(
        made,
        lambda: print_collectives(made.rows, made.title, made.notes),
        as_json=as_json,
        more={"in_network_gain": found and found.factor, "notes": made.notes},
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
    from experiments.comparison.show import conclude, show
    from experiments.comparison.training import compare_training
    from experiments.comparison.training_rows import print_training
    from testbed.progress import Step

    made = compare_training(resolved, results, quick=quick, workers=jobs, progress=Step)
    status = show(
        made,
        lambda: print_training(made.rows, made.swept, made.notes, made.title),
        as_json=as_json,
        more={"swept": [asdict(row) for row in made.swept], "notes": made.notes},
    )
    return status or conclude(made.swept)


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
    from experiments.comparison import failures
    from experiments.comparison.failure_rows import print_failures
    from experiments.comparison.show import show
    from testbed.progress import Step

    made = failures.compare_failures(resolved, results, quick=quick, workers=jobs, progress=Step)
    return show(made, lambda: print_failures(made.rows, made.title), as_json=as_json)

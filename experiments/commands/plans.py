"""Plans and searches, and schedules of collectives: nothing runs."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.options import (
    DEFAULT_RESULTS,
    Budget,
    Config,
    Format,
    Results,
    Set,
    Text,
    is_json,
    is_on,
    resolved_config,
)


def plan(
    context: typer.Context,
    schedule: Text = None,
    memory: Text = None,
    multicast: Text = None,
    aggregation: Text = None,
    rounds: Text = None,
    payload: Text = None,
    scale: Text = None,
    topology: Text = None,
    trees: Text = None,
    rates: Text = None,
    config: Config = None,
    set_: Set = None,
    format_: Format = "table",
    output: Annotated[Path | None, typer.Option(help="Write plan.json here as well.")] = None,
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Print what the planner makes of an experiment; status 4 if it is infeasible."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.plancommand import plan_and_show

    return plan_and_show(resolved, results, as_json=as_json, output=output)


def optimize(
    context: typer.Context,
    memory: Text = None,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    config: Config = None,
    set_: Set = None,
    budget: Budget = 60.0,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Search for the schedule with the least T (A + ½); status 4 if none is feasible."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.plancommand import optimise_and_show

    return optimise_and_show(resolved, results, budget_s=budget, as_json=as_json)


def collective(
    topology: Annotated[str, typer.Option(help="Name, file, or mesh:8x8 and its like.")] = (
        "nine-cities"
    ),
    collective: Annotated[str, typer.Option(help="all-reduce, all-gather, …")] = "all-reduce",
    algorithm: Annotated[str, typer.Option(help="auto, synthesised, ring, …")] = "auto",
    payload: Annotated[str, typer.Option(help="Bytes: 1.79GB, …")] = "1.79GB",
    model: Annotated[str, typer.Option(help="pipelined, occupancy")] = "pipelined",
    chunks: Annotated[int, typer.Option(help="Pieces of the payload; 0 chooses.", min=0)] = 0,
    root: Annotated[str, typer.Option(help="Of broadcast and reduce: name of a worker.")] = "",
    seed: Annotated[int, typer.Option(help="Of all choices among equals.")] = 1,
    multicast: Annotated[str, typer.Option(help="on, off: switches copy streams.")] = "on",
    aggregation: Annotated[str, typer.Option(help="on, off: switches add streams up.")] = "on",
    budget: Budget = 30.0,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Schedule a collective: synthesise it, time the classic algorithms, keep the fastest."""
    as_json = is_json(format_)
    from experiments.collective import CollectiveRequest, collective_and_show

    request = CollectiveRequest(
        topology=topology,
        collective=collective,
        algorithm=algorithm,
        payload=payload,
        model=model,
        chunks=chunks,
        root=root,
        seed=seed,
        budget_s=budget,
        multicast=is_on("MULTICAST", multicast),
        aggregation=is_on("AGGREGATION", aggregation),
    )
    return collective_and_show(request, results, as_json=as_json)

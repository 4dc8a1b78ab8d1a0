"""The command line: parses, calls, and turns every outcome into an exit status.

0 done · 1 failed · 2 bad input · 3 finished, but not to be believed ·
4 infeasible · 5 the machine lacks something · 130 interrupted
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commandline import run_command_line
from testbed.errors import InputError, UntrustedRunError, suggestion

if TYPE_CHECKING:
    from experiments.config import ExperimentConfig

_FORMATS = ("table", "json")
DEFAULT_RESULTS = Path(__file__).parent.parent / "results"

app = typer.Typer(
    name="cliquenet",
    help="Geo-distributed training over an intelligent network, on real packets.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Config = Annotated[str | None, typer.Option(help="A published experiment, or a YAML file.")]
Text = Annotated[str | None, typer.Option(help="See `variables`.", show_default=False)]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other config key.")
]
Results = Annotated[Path, typer.Option(help="Folder of all runs.", show_default=False)]
Format = Annotated[
    str, typer.Option("--format", help="table, or json: one object on the last line.")
]
Budget = Annotated[float, typer.Option(help="Seconds for one search.")]
Run = Annotated[str, typer.Argument(help="A run id, a run folder, or `latest`.")]


def _config(context: typer.Context) -> "ExperimentConfig":
    """Resolve the config that a command's options ask for; options that are no keys stay out."""
    from experiments.sources import key_names, load_config, parse_assignments

    given = context.params
    overrides = {key: value for key, value in given.items() if key in key_names()}
    overrides["force"] = given.get("force") or None  # absent leaves the config file's word
    overrides.update(parse_assignments(given["set_"] or []))
    return load_config(given["config"], overrides)


@app.command()
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
    force: Annotated[bool, typer.Option(help="Run what the planner refuses.")] = False,
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Plan, run, analyse and plot one experiment, and print its summary."""
    resolved = _config(context)
    from experiments.run import run_experiment
    from testbed.progress import Step

    run_dir = run_experiment(resolved, results, force=resolved.force, progress=Step)
    return _analyse(run_dir)


@app.command()
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
    as_json = _as_json(format_)
    resolved = _config(context)
    from experiments.plancommand import plan_and_show

    return plan_and_show(resolved, results, as_json=as_json, output=output)


@app.command()
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
    as_json = _as_json(format_)
    resolved = _config(context)
    from experiments.plancommand import optimise_and_show

    return optimise_and_show(resolved, results, budget_s=budget, as_json=as_json)


@app.command()
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
    jobs: Annotated[int | None, typer.Option(help="Guests at a time.", min=1)] = None,
    force: Annotated[bool, typer.Option(help="Run what the planner refuses.")] = False,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Plan and run schedules, ablations and memories, and write one table of them."""
    as_json = _as_json(format_)
    resolved = _config(context)
    from experiments.comparison.compare import Request
    from experiments.plancommand import compare_and_show

    request = Request(resolved, quick=quick, budget_s=budget, workers=jobs, force=resolved.force)
    return compare_and_show(request, results, as_json=as_json)


@app.command()
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
    quick: Annotated[bool, typer.Option(help="A tenth of the payload.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Guests at a time.", min=1)] = None,
    force: Annotated[bool, typer.Option(help="Run what the planner refuses.")] = False,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Run schedules at several loss rates of the last hop, with recovery and without."""
    as_json = _as_json(format_)
    resolved = _config(context)
    from experiments.plancommand import sweep_losses_and_show

    return sweep_losses_and_show(
        resolved, results, quick=quick, workers=jobs, force=resolved.force, as_json=as_json
    )


@app.command()
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
    as_json = _as_json(format_)
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
        multicast=_is_on("MULTICAST", multicast),
        aggregation=_is_on("AGGREGATION", aggregation),
    )
    return collective_and_show(request, results, as_json=as_json)


@app.command("compare-collectives")
def compare_collectives(
    context: typer.Context,
    payload: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    chunks: Text = None,
    config: Config = None,
    set_: Set = None,
    quick: Annotated[bool, typer.Option(help="A tenth of the payload.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Guests at a time.", min=1)] = None,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Run all-reduce between hosts by each algorithm, and through the network; one table."""
    as_json = _as_json(format_)
    resolved = _config(context)
    from experiments.plancommand import compare_collectives_and_show

    return compare_collectives_and_show(
        resolved, results, quick=quick, workers=jobs, as_json=as_json
    )


@app.command()
def analyse(run: Run = "latest", results: Results = DEFAULT_RESULTS) -> int:
    """Work the records of a run out again: events, summary, plots."""
    from experiments.results import find_run

    return _analyse(find_run(results, run))


@app.command()
def plot(run: Run = "latest", results: Results = DEFAULT_RESULTS) -> int:
    """Draw the plots of an analysed run again, from its files only."""
    from experiments.outcome import draw
    from experiments.results import find_run

    for path in draw(find_run(results, run)):
        typer.echo(path)
    return 0


@app.command()
def clean(results: Results = DEFAULT_RESULTS) -> int:
    """Remove what interrupted runs of ours left behind on this machine; keep results."""
    from experiments.cleanup import clean_all

    for line in clean_all(results) or ["nothing to clean"]:
        typer.echo(line)
    return 0


@app.command()
def variables() -> int:
    """List every variable with its default and its values."""
    from experiments.report import print_variables

    print_variables()
    return 0


def _as_json(text: str) -> bool:
    """Read FORMAT."""
    if text not in _FORMATS:
        raise InputError(f'FORMAT: "{text}" is not valid: {suggestion(text, _FORMATS)}')
    return text == "json"


def _is_on(name: str, text: str) -> bool:
    """Read a switch."""
    if text not in ("on", "off"):
        raise InputError(f'{name}: "{text}" is not valid: write on or off')
    return text == "on"


def _analyse(run_dir: Path) -> int:
    """Analyse, plot and report one run; a run that failed its checks raises."""
    from experiments.outcome import work_out

    summary = work_out(run_dir)
    if summary["verdict"] == "FAIL":
        raise UntrustedRunError(f"{run_dir.name} failed its checks: {summary['reasons'][0]}")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run a command line and return its exit status; one line per error."""
    return run_command_line(app, argv)


if __name__ == "__main__":
    sys.exit(main())

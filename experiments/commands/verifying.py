"""Whether the emulated network is to be believed."""

import typer

from experiments.commands.options import (
    DEFAULT_RESULTS,
    Config,
    Format,
    Results,
    Set,
    Text,
    is_json,
    resolved_config,
)


def verify(
    context: typer.Context,
    clock: Text = None,
    scale: Text = None,
    seed: Text = None,
    topology: Text = None,
    config: Config = None,
    set_: Set = None,
    format_: Format = "table",
    results: Results = DEFAULT_RESULTS,
) -> int:
    """Measure every link and path of the network; status 3 if it is not as asked for."""
    as_json = is_json(format_)
    resolved = resolved_config(context)
    from experiments.verifyreport import verify_and_show

    return verify_and_show(resolved, results, as_json=as_json)

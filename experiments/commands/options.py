"""Options that commands share, and how their texts are read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.errors import InputError, suggestion

if TYPE_CHECKING:
    from experiments.config import ExperimentConfig

_FORMATS = ("table", "json")
DEFAULT_RESULTS = Path(__file__).parents[2] / "results"

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
Quick = Annotated[bool, typer.Option(help="A tenth of the payload.")]
Jobs = Annotated[int | None, typer.Option(help="Guests at a time.", min=1)]
Force = Annotated[bool, typer.Option(help="Run what the planner refuses.")]


def resolved_config(context: typer.Context) -> "ExperimentConfig":
    """Resolve the config that a command's options ask for; options that are no keys stay out."""
    from experiments.sources import key_names, load_config, parse_assignments

    given = context.params
    overrides = {key: value for key, value in given.items() if key in key_names()}
    overrides["force"] = given.get("force") or None  # absent leaves the config file's word
    overrides.update(parse_assignments(given["set_"] or []))
    return load_config(given["config"], overrides)


def is_json(text: str) -> bool:
    """Read FORMAT."""
    if text not in _FORMATS:
        raise InputError(f'FORMAT: "{text}" is not valid: {suggestion(text, _FORMATS)}')
    return text == "json"


def is_on(name: str, text: str) -> bool:
    """Read a switch."""
    if text not in ("on", "off"):
        raise InputError(f'{name}: "{text}" is not valid: write on or off')
    return text == "on"

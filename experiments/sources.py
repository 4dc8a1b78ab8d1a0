"""Where a config comes from: defaults, then a file, then the command line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from experiments.config import CONFIGS_DIR, ExperimentConfig
from experiments.faultchecks import check_faults
from experiments.faults import FAULTS
from experiments.impairments import resolve
from testbed.errors import InputError, suggestion
from testbed.topology import load_topology
from testbed.yamlfile import Where, YamlFile, read_yaml

_PATH_KEYS = ("schedule", "topology")


@dataclass(frozen=True)
class Setting:
    """A value, and the file where it was written, for error messages."""

    value: object
    file: YamlFile | None

    def place(self, where: Where) -> str:
        """How a message about it begins: file and line; nothing for the command line."""
        return self.file.place(where) if self.file else ""


def key_names() -> dict[str, FieldInfo]:
    """Every config key, as it is written in a file, and its field."""
    return {f.alias or name: f for name, f in ExperimentConfig.model_fields.items()}


def published() -> tuple[str, ...]:
    """Names of the experiments that come with the project."""
    return tuple(sorted(path.stem for path in CONFIGS_DIR.glob("*.yaml")))


def load_config(config: str | None, overrides: Mapping[str, object]) -> ExperimentConfig:
    """Resolve one experiment.

    Parameters
    ----------
    config
        A published experiment's name, a path to a YAML file, or None.
    overrides
        Values of the command line by key; None means not given.

    Raises
    ------
    InputError
        One line that names the place, the key, the value and the valid values.
    """
    settings = _read(_find(config)) if config is not None else {}
    for key, value in overrides.items():
        if value is not None:
            settings[key] = Setting(value, None)
    return _validate(settings)


def parse_assignments(assignments: Iterable[str]) -> dict[str, object]:
    """Split the ``KEY=VALUE`` texts of ``--set`` into overrides; keys may be upper case."""
    overrides: dict[str, object] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        key = key.lower()
        if not equals:
            raise InputError(f'--set "{text}": write KEY=VALUE')
        _check_key(key, "--set ")
        overrides[key] = value
    return overrides


def _find(config: str) -> Path:
    """Find the file of a published experiment, or the one at that path."""
    if config in published():
        return CONFIGS_DIR / f"{config}.yaml"
    if "/" not in config and not config.endswith((".yaml", ".yml")):
        raise InputError(
            f'CONFIG: "{config}" is not a published experiment: '
            f"{suggestion(config, published())} (or a YAML file)"
        )
    return Path(config)


def _read(path: Path) -> dict[str, Setting]:
    """Keys, values and places of a config file."""
    file = read_yaml(path)
    if file.data is None:
        return {}
    values = file.mapping((), file.data, key_names())
    return {key: Setting(_beside(path, key, value), file) for key, value in values.items()}


def _beside(file: Path, key: str, value: object) -> object:
    """``value``, and if it is a relative path, seen from the folder of the file."""
    is_path = isinstance(value, str) and ("/" in value or value.endswith((".yaml", ".yml")))
    if key not in _PATH_KEYS or not is_path:
        return value
    return str(file.parent / str(value))


def _check_key(key: str, place: str) -> None:
    names = key_names()
    if key not in names:
        raise InputError(f'{place}unknown key "{key}": {suggestion(key, names)}')


def _validate(settings: Mapping[str, Setting]) -> ExperimentConfig:
    for key, setting in settings.items():
        _check_key(key, setting.place((key,)))
    try:
        config = ExperimentConfig.model_validate({k: s.value for k, s in settings.items()})
    except ValidationError as error:
        first = error.errors()[0]
        cause = str(first.get("ctx", {}).get("error", first["msg"]))
        if first["type"] == "missing":
            cause = "is missing"
        # A fault's place has its kind in it, which the file has not.
        where = tuple(part for part in first["loc"] if part not in FAULTS)
        raise _refusal(settings, where, cause) from error
    if config.ordered and "memory_model" in settings and config.memory_model == "accumulate":
        cause = "accumulate cannot be with ORDERED=on, which holds every stream; leave it out"
        raise _refusal(settings, ("memory_model",), cause)
    _check_links(config, settings)
    return config.at_clock("real") if config.clock == "real" else config


def _check_links(config: ExperimentConfig, settings: Mapping[str, Setting]) -> None:
    """Compare impairments and faults with the topology that they are for."""
    try:
        links = config.lossy_links
    except ValidationError as error:
        cause = str(error.errors()[0]["ctx"]["error"])
        raise _refusal(settings, ("loss_burst",), cause) from error
    if not (links or config.events):
        return
    topology = load_topology(config.topology)
    try:
        resolve(links, topology)
    except InputError as error:
        raise _refusal(settings, ("impairments",), str(error)) from error
    try:
        check_faults(config.events, topology, aggregation=config.aggregation)
    except InputError as error:
        raise _refusal(settings, ("events",), str(error)) from error


def _refusal(settings: Mapping[str, Setting], where: Where, cause: str) -> InputError:
    """One line: the place, the key, the part of its value if it has parts, what is wrong."""
    key, *inner = where
    setting = settings.get(str(key))
    place = setting.place(where) if setting else ""
    parts = [str(key) if place else str(key).upper()]
    parts += [f"entry {part + 1}" if isinstance(part, int) else part for part in inner]
    return InputError(f"{place}{': '.join(parts)}: {cause}")

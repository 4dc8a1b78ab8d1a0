"""Checks of single config values: each takes what a person wrote, or says what to write.

They raise ``ValueError``, which pydantic collects and `experiments.sources` tells.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, BeforeValidator

from testbed.errors import InputError, suggestion

_YAML_SUFFIXES = (".yaml", ".yml")


def choice(*valid: str) -> BeforeValidator:
    """One of some words."""

    def check(value: object) -> object:
        if value not in valid:
            raise ValueError(f'"{value}" is not valid: {suggestion(str(value), valid)}')
        return value

    return BeforeValidator(check)


def number_of(*valid: int) -> BeforeValidator:
    """One of some whole numbers."""

    def check(value: object) -> int:
        number = _number(value)
        if number not in valid:
            text = ", ".join(str(one) for one in valid)
            raise ValueError(f'"{value}" is not valid: write {text}')
        return int(number)

    return BeforeValidator(check)


def switch(value: object) -> bool:
    """``on`` or ``off``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("on", "off"):
        return value.lower() == "on"
    raise ValueError(f'"{value}" is not valid: write on or off')


def whole(low: int, high: int) -> BeforeValidator:
    """A whole number in a range."""

    def check(value: object) -> int:
        number = _number(value)
        if number != int(number) or not low <= number <= high:
            raise ValueError(f'"{value}" is not valid: write a whole number from {low} to {high}')
        return int(number)

    return BeforeValidator(check)


def real(low: float, high: float) -> BeforeValidator:
    """A number in a range."""

    def check(value: object) -> float:
        number = _number(value)
        if not low <= number <= high:
            raise ValueError(f'"{value}" is not valid: write a number from {low:g} to {high:g}')
        return number

    return BeforeValidator(check)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'"{value}" is not a number')
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f'"{value}" is not a number') from None
    if number in (float("inf"), float("-inf")) or number != number:
        raise ValueError(f'"{value}" is not a finite number')
    return number


def units(parse: Callable[[Any], float]) -> BeforeValidator:
    """A quantity with its unit; the parser's own message says what is wrong."""

    def check(value: object) -> float:
        try:
            return parse(value)
        except InputError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(check)


def named_or_file(what: str, names: Callable[[], tuple[str, ...]]) -> BeforeValidator:
    """A name, or the path of a YAML file that exists."""

    def check(value: object) -> str:
        text = str(value)
        if text in names():
            return text
        if "/" not in text and not text.endswith(_YAML_SUFFIXES):
            raise ValueError(
                f'"{text}" is not a {what}: {suggestion(text, names())} (or a YAML file)'
            )
        if not Path(text).is_file():
            raise ValueError(f'the {what} file "{text}" does not exist')
        return text

    return BeforeValidator(check)


def entries(models: Mapping[str, type[BaseModel]], key: str) -> BeforeValidator:
    """A list of mappings, each with known keys; a text, of the command line, is read as YAML.

    Parameters
    ----------
    models
        What an entry may be, by the word under its ``key``.
    key
        Empty where there is only one kind, whatever its name.
    """

    def check(value: object) -> object:
        value = _from_text(value, "a list, such as [{key: value}]")
        if not isinstance(value, list | tuple):
            raise ValueError(f'"{value}" is not a list')
        for number, entry in enumerate(value, 1):
            if isinstance(entry, BaseModel):
                continue
            if not isinstance(entry, dict):
                raise ValueError(f'entry {number}: "{entry}" has no keys')
            kind = str(entry.get(key, "")) if key else next(iter(models))
            if kind not in models:
                what = f'unknown {key} "{kind}"' if kind else f'"{key}" is missing'
                raise ValueError(f"entry {number}: {what}: {suggestion(kind, models)}")
            _known(entry, models[kind].model_fields, f"entry {number}")
        return value

    return BeforeValidator(check)


def group(model: type[BaseModel]) -> BeforeValidator:
    """A mapping with the keys of a model; a text, of the command line, is read as YAML."""

    def check(value: object) -> object:
        value = _from_text(value, "a mapping, such as {key: value}")
        if isinstance(value, BaseModel):
            return value
        if not isinstance(value, dict):
            raise ValueError(f'"{value}" has no keys')
        _known(value, model.model_fields, "")
        return value

    return BeforeValidator(check)


def _from_text(value: object, form: str) -> object:
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        raise ValueError(f"write {form}") from None


def _known(keys: Iterable[object], valid: Iterable[str], where: str) -> None:
    names = list(valid)
    for key in keys:
        if key not in names:
            place = f"{where}: " if where else ""
            raise ValueError(f'{place}unknown key "{key}": {suggestion(str(key), names)}')

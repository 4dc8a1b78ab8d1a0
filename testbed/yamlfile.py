"""YAML files that a user writes: plain values only, and each with its line.

Anchors, tags and duplicate keys are refused rather than interpreted, so that
whatever is read is what a reader of the file sees.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml
from pydantic import ValidationError

from testbed.errors import InputError, suggestion

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"
Where: TypeAlias = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class YamlFile:
    """Contents of a YAML file, with the line on which each value starts."""

    path: Path
    data: Value
    lines: Mapping[Where, int]

    def error(self, where: Where, message: str) -> InputError:
        """Make an error at the value ``where``, or at the nearest one around it."""
        return InputError(f"{self.place(where)}{message}")

    def place(self, where: Where) -> str:
        """File and line of a value, or of the nearest one around it, as messages begin."""
        while where and where not in self.lines:
            where = where[:-1]
        return f"{self.path}:{self.lines.get(where, 1)}: "

    def mapping(self, where: Where, value: Value, keys: Iterable[str]) -> dict[str, Value]:
        """Check that a value is a mapping with known keys only, and return it.

        Raises
        ------
        InputError
            It is something else, or has another key than ``keys``.
        """
        if not isinstance(value, dict):
            raise self.error(where, f"expected keys with values here, found {describe(value)}")
        for key in value:
            if key not in set(keys):
                hint = suggestion(key, keys)
                raise self.error((*where, key), f'unknown key "{key}"; {hint}')
        return value

    def sequence(self, where: Where, value: Value) -> list[Value]:
        """Check that a value is a list, and return it.

        Raises
        ------
        InputError
            It is something else.
        """
        if not isinstance(value, list):
            raise self.error(where, f"expected a list here, found {describe(value)}")
        return value

    def invalid(self, where: Where, what: str, error: ValidationError) -> InputError:
        """Turn the first finding of a pydantic model into one line.

        Parameters
        ----------
        where
            Where the validated value stands in the file.
        what
            What it is, for the message.
        error
            What the model raised.
        """
        first = error.errors()[0]
        place = (*where, *first["loc"])
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            return self.error(place, f'{what}: key "{key}" is missing')
        message = first["msg"].removeprefix("Value error, ")
        found = describe(first["input"])
        return self.error(place, f"{what}: {key}: {message}, found {found}")


def describe(value: object) -> str:
    """Write a value as it should appear in a message: short, and never empty."""
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{str(value).lower()} (quote it if a name is meant)"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file of plain values.

    Parameters
    ----------
    path
        A UTF-8 file with one YAML document.

    Returns
    -------
    YamlFile
        Its values and their lines.

    Raises
    ------
    InputError
        The file cannot be read, is not YAML, or uses anchors, tags, keys that
        are not names, or the same key twice.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES // 1_000_000} MB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a UTF-8 text file") from error
    lines: dict[Where, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _value(path, node, (), lines, set()) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InputError(f"{path}:{line}: {error.problem or 'not YAML'}") from error
    except yaml.YAMLError as error:
        detail = str(error).splitlines()[0]
        raise InputError(f"{path}: not YAML: {detail}") from error
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply") from error
    return YamlFile(path, data, lines)


def _value(
    path: Path, node: yaml.Node, where: Where, lines: dict[Where, int], seen: set[int]
) -> Value:
    """Turn a node into a plain value and note the lines of all its parts."""
    line = lines[where] = node.start_mark.line + 1
    if id(node) in seen:
        raise InputError(f"{path}:{line}: anchors and aliases are not supported; write it out")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
        return [_value(path, n, (*where, i), lines, seen) for i, n in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
        result: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            key_line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise InputError(f"{path}:{key_line}: a key must be a name")
            if key in result:
                raise InputError(f'{path}:{key_line}: key "{key}" appears twice')
            result[key] = _value(path, value_node, (*where, key), lines, seen)
            lines[(*where, key)] = key_line
        return result
    return _scalar(path, line, node)


def _scalar(path: Path, line: int, node: yaml.Node) -> Value:
    """Turn a scalar node into a string, number, truth value or nothing."""
    if not isinstance(node, yaml.ScalarNode):
        raise InputError(f"{path}:{line}: the tag {node.tag} is not supported")
    kind, text = node.tag.removeprefix(_TAG), node.value
    try:
        if kind == "int":
            return int(text.replace("_", ""), 10)
        if kind == "float":
            return float(
                text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
            )
    except ValueError as error:
        raise InputError(
            f"{path}:{line}: {describe(text)} is not a plain decimal number"
        ) from error
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    if kind == "null":
        return None
    if kind in ("str", "timestamp"):
        # YAML 1.1 reads 1e9 as text; people mean the number.
        number = node.style is None and _EXPONENT.fullmatch(text)
        return float(text) if number else str(text)
    raise InputError(f"{path}:{line}: the tag {node.tag} is not supported")

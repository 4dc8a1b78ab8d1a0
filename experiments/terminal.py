"""What commands print: lines for people, objects for programs."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console


def print_object(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own: no wrapping, nothing after it."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """Print a line as it is."""
    Console(highlight=False).print(text, markup=False, soft_wrap=True)

"""Quantities with units: what a person writes, and the plain number the code works with.

SI prefixes are powers of ten (1 GB = 10⁹ bytes); the binary ones (GiB) are
accepted as well. Unit names are case-sensitive, because Gb and GB differ by 8.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from testbed.errors import InputError, suggestion

BYTES: Mapping[str, int] = MappingProxyType(
    {
        "B": 1,
        "kB": 10**3,
        "KB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    }
)
BITS_PER_S: Mapping[str, int] = MappingProxyType(
    {
        "bit/s": 1,
        "kbit/s": 10**3,
        "Mbit/s": 10**6,
        "Gbit/s": 10**9,
        "Tbit/s": 10**12,
    }
)
NANOSECONDS: Mapping[str, int] = MappingProxyType(
    {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
)

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d[\d_]*)?(?:\.\d+)?(?:[eE][+-]?\d{1,2})?)\s*(?P<unit>.*)"
)
_SHOWN_BYTES = ("TB", "GB", "MB", "kB", "B")
_SHOWN_BITS_PER_S = ("Tbit/s", "Gbit/s", "Mbit/s", "kbit/s", "bit/s")
_SHOWN_NANOSECONDS = ("s", "ms", "us", "ns")


def parse_bytes(value: str | int | float) -> int:
    """Bytes of ``"32GB"``, ``"1.79 GB"``, ``"0"`` or a plain number of bytes.

    Raises
    ------
    InputError
        Not a quantity, an unknown unit, negative, or not a whole number of bytes.
    """
    size = _parse(value, BYTES, plain="B", what="a size", example="200MB")
    if size != size.to_integral_value():
        raise InputError(f'"{value}" is not a whole number of bytes')
    return int(size)


def parse_rate_gbps(value: str) -> float:
    """Gbit/s of ``"100Gbit/s"``; a plain number is refused, its unit is not obvious."""
    rate = _parse(value, BITS_PER_S, plain=None, what="a rate", example="100Gbit/s")
    return float(rate / 10**9)


def parse_time_ms(value: str | int | float) -> float:
    """Milliseconds of ``"5ms"``, ``"0.2s"`` or a plain number of milliseconds."""
    time_ns = _parse(value, NANOSECONDS, plain="ms", what="a time", example="5ms")
    return float(time_ns / 10**6)


def format_bytes(size: float, digits: int | None = None) -> str:
    """Write a size with its largest fitting SI unit: ``"1.79GB"``.

    Parameters
    ----------
    size
        Bytes.
    digits
        Significant digits to show; without it the text is exact.
    """
    return _format(Decimal(round(size)), BYTES, _SHOWN_BYTES, digits)


def format_rate_gbps(rate_gbps: float, digits: int | None = None) -> str:
    """Write a rate with its largest fitting unit: ``"100Gbit/s"``."""
    return _format(Decimal(repr(rate_gbps)) * 10**9, BITS_PER_S, _SHOWN_BITS_PER_S, digits)


def format_time_ms(time_ms: float, digits: int | None = None) -> str:
    """Write a time with its largest fitting unit: ``"140ms"``."""
    return _format(Decimal(repr(time_ms)) * 10**6, NANOSECONDS, _SHOWN_NANOSECONDS, digits)


def _parse(
    value: str | int | float,
    units: Mapping[str, int],
    *,
    plain: str | None,
    what: str,
    example: str,
) -> Decimal:
    """Read a quantity, exactly, in the table's base unit."""
    if isinstance(value, bool):
        raise InputError(f'"{value}" is not {what}: write it like {example}')
    text = str(value).strip()
    match = _QUANTITY.fullmatch(text)
    number = match["number"] if match else ""
    if match is None or not any(c.isdigit() for c in number.split("e")[0].split("E")[0]):
        raise InputError(f'"{value}" is not {what}: write it like {example}')
    unit = match["unit"] or plain
    if unit is None:
        raise InputError(f'"{value}" has no unit: write it like {example}')
    if unit not in units:
        raise InputError(f'"{value}" has the unknown unit "{unit}": {suggestion(unit, units)}')
    quantity = Decimal(number.replace("_", "")) * units[unit]
    if quantity < 0:
        raise InputError(f'"{value}" is negative')
    return quantity


def _format(
    quantity: Decimal, units: Mapping[str, int], shown: tuple[str, ...], digits: int | None
) -> str:
    """Write a quantity in the largest unit that leaves at least 1."""
    unit = next((u for u in shown if abs(quantity) >= units[u]), shown[-1])
    scaled = quantity / units[unit]
    if digits is not None:
        scaled = Decimal(f"{scaled:.{digits}g}")
    text = f"{scaled:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text}{unit}"

"""How contributions add up: the rules of each element type, bit for bit.

- ``i32``: saturating; the flag SATURATED says that an element was cut.
- ``i32-exponent``: elements times 2^exponent. Both are brought to the larger
  exponent, the other's elements shifted right and rounded half up. Where the sum
  leaves int32, both are shifted from their original values by one bit more, the
  exponent rises by one, and so on until it fits. Only if the exponent cannot rise
  any more does the sum saturate.
- ``f32``: IEEE 754 addition, subnormals included, in the order that the table says.
- ``bf16``: widened to float32, added there, rounded to nearest even on leaving.

A float that leaves and is not finite is flagged NONFINITE, and every NaN leaves
as the one with only the quiet bit set: which NaN an addition gives depends on the
processor and on the order of its operands.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.wire import DType, Flag, Values

I32_MIN: Final = -(1 << 31)
I32_MAX: Final = (1 << 31) - 1
MAX_EXPONENT: Final = (1 << 15) - 1
NAN_F32: Final = 0x7FC00000
NAN_BF16: Final = 0x7FC0

Rows = npt.NDArray[np.bool_]
Wide = npt.NDArray[np.int64]


class Part(NamedTuple):
    """A contribution to a block, or a sum of some; or the same of consecutive blocks."""

    values: Values
    """Shape (count, n_elem), as they are in memory."""
    bitmap: int
    flags: int = 0
    exponent: int = 0


def in_memory(dtype: DType) -> np.dtype[Any]:
    """Type of an element in the aggregator's memory: four bytes, whatever the run's type."""
    return np.dtype("<i4") if dtype in (DType.I32, DType.I32_EXPONENT) else np.dtype("<f4")


def widen(values: Values, dtype: DType) -> Values:
    """Elements as they come in a datagram, to what the memory holds; bf16 is copied."""
    if dtype is not DType.BF16:
        return values
    return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: Values, dtype: DType) -> tuple[Values, Rows | None]:
    """Sums from memory, to what a datagram carries.

    Parameters
    ----------
    values
        Shape (count, n_elem); left as they are.
    dtype
        Of the run.

    Returns
    -------
    values
        Of the type on the wire, with the one NaN; the argument itself where nothing changes.
    nonfinite
        Blocks with an element that is not finite, shape (count,); None if there are none.
    """
    if values.dtype.kind == "i":
        return values, None
    if dtype is DType.BF16:
        packed = round_to_bf16(values)
        finite = (packed & np.uint16(0x7F80)) != 0x7F80
    else:
        packed, finite = values, np.isfinite(values)
    if finite.all():
        return packed, None
    if dtype is DType.F32:
        bits = values.view(np.uint32)
        packed = np.where(np.isnan(values), np.uint32(NAN_F32), bits).view(np.float32)
    return packed, ~finite.all(axis=1)


def round_to_bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Upper halves of float32 after rounding to nearest, ties to even; may become infinite."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + odd + np.uint32(0x7FFF)) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(NAN_BF16), rounded)


def add(total: Values, exponent: int, part: Part, dtype: DType) -> tuple[int, int]:
    """Add a contribution to a sum in place.

    Parameters
    ----------
    total, exponent
        The sum so far, as it is in memory.
    part
        What to add, of the same shape.
    dtype
        Of the run.

    Returns
    -------
    exponent, flags
        The sum's exponent from now on, and SATURATED if this addition was cut.
    """
    if dtype is DType.I32_EXPONENT:
        return add_scaled(total, exponent, part.values, part.exponent)
    if dtype is DType.I32:
        return 0, _store(total, total.astype(np.int64) + part.values)
    with np.errstate(over="ignore", invalid="ignore"):
        total += part.values
    return 0, 0


def add_scaled(total: Values, exponent: int, values: Values, other: int) -> tuple[int, int]:
    """Add elements with an exponent to such a sum, in place; see `add`."""
    common = max(exponent, other)
    while True:
        wide = shift_right(total, common - exponent) + shift_right(values, common - other)
        fits = wide.min() >= I32_MIN and wide.max() <= I32_MAX
        if fits or common == MAX_EXPONENT:
            return common, _store(total, wide)
        common += 1


def shift_right(values: Values, bits: int) -> Wide:
    """Divide int32 by 2^bits, rounded to nearest, halves up; 0 from 32 bits on."""
    wide = values.astype(np.int64)
    if bits == 0:
        return wide
    if bits >= 32:
        return np.zeros_like(wide)
    return (wide + (1 << (bits - 1))) >> bits


def _store(total: Values, wide: Wide) -> int:
    """Write sums into int32, cut to its range; return the flags."""
    np.clip(wide, I32_MIN, I32_MAX, out=total, casting="unsafe")
    return int(Flag.SATURATED) if (total != wide).any() else 0


def magnitude(values: Values) -> int:
    """Largest absolute value of integers, shape (count, n_elem)."""
    greatest: list[int] = values.max(axis=1).tolist()
    least: list[int] = values.min(axis=1).tolist()
    return max(max(greatest), -min(least))

"""The aggregator's kernel as a library: its sources are the C files of this folder."""

from pathlib import Path

from testbed.compiled import NoCompilerError, ensure_library
from testbed.errors import MachineError

SOURCES = Path(__file__).parent


def kernel_sources() -> list[Path]:
    """The files of the aggregator's kernel."""
    return sorted(SOURCES.glob("*.c"))


def ensure_kernel_library() -> Path:
    """The aggregator's kernel, compiled first if the cache does not hold it.

    Raises
    ------
    MachineError
        As `ensure_library` does.
    """
    try:
        return ensure_library("aggregator", kernel_sources(), SOURCES)
    except NoCompilerError as error:
        raise MachineError(f"{error}; engine=reference does without") from error

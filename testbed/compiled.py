"""Compiles C sources of ours once and keeps the library in the cache.

Set-up does it on the host, before a virtual machine starts, in which the cache
can only be read; whoever comes first does it otherwise.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.commands import run
from testbed.errors import CommandError, MachineError
from testbed.locking import file_lock
from testbed.paths import cache_dir, give_to_caller, make_dir

_COMPILER = "gcc"
_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-flto",
)
_WARNINGS = ("-Wall", "-Wextra")


class NoCompilerError(MachineError):
    """There is no C compiler."""


def ensure_library(name: str, sources: Sequence[Path], include: Path) -> Path:
    """A library made of C files, compiled first if the cache does not hold it.

    What lies in the cache is found by the content of the sources and headers, the flags,
    the compiler and the processor's architecture. Two builders at once are safe.

    Parameters
    ----------
    name
        Of the library, for the messages and the file.
    sources
        C files.
    include
        Folder of their headers.

    Raises
    ------
    NoCompilerError
        There is none.
    MachineError
        It refuses a source, or the cache cannot be written.
    """
    folder = cache_dir() / "native"
    library = folder / f"{name}-{_key(name, sources, include)}.so"
    if library.exists():
        return library
    make_dir(folder)
    with file_lock(folder / "lock", f"another build of the {name} library"):
        if not library.exists():
            _compile(name, sources, include, library)
    return library


def load(library: Path) -> ctypes.CDLL:
    """Load a library.

    Raises
    ------
    MachineError
        The system's loader refuses it.
    """
    try:
        return ctypes.CDLL(str(library), use_errno=True)
    except OSError as error:
        raise MachineError(f"cannot load {library}: {error}; remove it to build it anew") from error


def _key(name: str, sources: Sequence[Path], include: Path) -> str:
    """What a library depends on, in short."""
    compiler = shutil.which(_COMPILER)
    if compiler is None:
        raise NoCompilerError(
            f"no compiler for the {name} library: run `sudo make setup`, or "
            "`sudo apt-get install gcc libc6-dev`"
        )
    # Its version, without running it: every agent asks.
    program = Path(compiler).resolve()
    stat = program.stat()
    about = [*_FLAGS, platform.machine(), str(program), f"{stat.st_size} {int(stat.st_mtime)}"]
    digest = hashlib.sha256("\0".join(about).encode())
    for path in (*sources, *sorted(include.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(name: str, sources: Sequence[Path], include: Path, library: Path) -> None:
    """Compile beside the target, then move the result into place in one step."""
    number, made = tempfile.mkstemp(dir=library.parent, prefix="build-", suffix=".so")
    os.close(number)
    work = Path(made)
    try:
        paths = [str(path) for path in sources]
        run([_COMPILER, *_FLAGS, *_WARNINGS, f"-I{include}", "-o", str(work), *paths])
        work.chmod(0o755)
        give_to_caller(work)
        work.rename(library)
    except CommandError as error:
        first = next((line for line in error.output.splitlines() if "error" in line), str(error))
        raise MachineError(f"compiling the {name} library: {first}") from error
    finally:
        work.unlink(missing_ok=True)

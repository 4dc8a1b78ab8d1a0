"""Open MPI of the distribution, and the environment in which it runs out of the cache."""

import os
from dataclasses import dataclass
from pathlib import Path

from testbed.compiled import ensure_library
from testbed.errors import MachineError
from testbed.unpacked import unpacked, versions

_NAME = "open-mpi"
_MAIN = "libopenmpi3"
_PACKAGES = (
    *("openmpi-bin", "openmpi-common", _MAIN),
    *("libpmix2", "libhwloc15", "libevent-core-2.1-7", "libevent-pthreads-2.1-7", "libmunge2"),
)
"""What TCP between hosts takes; without the libraries of InfiniBand and its like."""
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Installation:
    """Where Open MPI is.

    Attributes
    ----------
    root
        Folder that the packages are unpacked in.
    shim
        Library that every process of it loads first; see ``waiting.c``.
    version
        Of the distribution's package.
    """

    root: Path
    shim: Path
    version: str


def ensure_open_mpi() -> Installation:
    """Open MPI, fetched and unpacked first if the cache does not hold it.

    Raises
    ------
    MachineError
        The distribution's packages cannot be had, or there is no compiler.
    """
    root = unpacked(_NAME, _PACKAGES)
    return Installation(root, ensure_shim(), versions(root)[_MAIN])


def ensure_shim() -> Path:
    """The library that is preloaded, compiled first if the cache does not hold it.

    Raises
    ------
    MachineError
        There is no compiler.
    """
    return ensure_library("waiting", [_HERE / "waiting.c"], _HERE)


def environment(root: Path, shim: Path) -> dict[str, str]:
    """Variables that Open MPI needs where it is not installed.

    Raises
    ------
    MachineError
        The library is not in the folder.
    """
    found = sorted(root.glob("usr/lib/*/libmpi.so.40"))
    if not found:
        raise MachineError(f"no libmpi.so.40 below {root}: remove that folder, then try again")
    libraries = found[0].parent
    return {
        "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(libraries),
        "LD_PRELOAD": str(shim),
        "OPAL_PREFIX": f"{root}/usr",
        "OPAL_LIBDIR": str(libraries),
        "OPAL_PKGLIBDIR": f"{libraries}/openmpi/lib/openmpi3",
        "OPAL_PKGDATADIR": f"{root}/usr/share/openmpi",
        "OPAL_SYSCONFDIR": f"{root}/etc/openmpi",
        "PMIX_INSTALL_PREFIX": f"{libraries}/pmix2",
        # It would complain of a compression library that it does without.
        "PMIX_MCA_pcompress_base_silence_warning": "1",
    }

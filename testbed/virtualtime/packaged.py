"""The distribution's packaged User Mode Linux: a kernel in real time, with modules.

It stands in for a host kernel with netem and openvswitch where the machine's own has
neither. Unpacked into the cache, not installed: a distribution's kernel that is a program
needs nothing else.
"""

from dataclasses import dataclass
from pathlib import Path

from testbed.commands import run
from testbed.errors import CommandError, MachineError
from testbed.locking import file_lock
from testbed.paths import cache_dir, give_to_caller, make_dir
from testbed.progress import Step
from testbed.unpacked import download
from testbed.virtualtime.boot import Boot

PACKAGE = "user-mode-linux"
MODULES = ("overlay", "veth", "sch_netem", "openvswitch")
"""What the guest's root and the network need; the rest is built in."""
_LIMIT_S = 300.0


@dataclass(frozen=True)
class PackagedKernel:
    """The unpacked package.

    Attributes
    ----------
    folder
        What it was unpacked into.
    package_version
        The distribution's version of the package.
    """

    folder: Path
    package_version: str

    @property
    def program(self) -> Path:
        """The kernel."""
        return self.folder / "usr" / "bin" / "linux.uml"

    @property
    def modules(self) -> Path:
        """The folder of its modules, named by the kernel's release.

        Raises
        ------
        MachineError
            There is none, or more than one.
        """
        found = list((self.folder / "usr" / "lib" / "uml" / "modules").glob("*"))
        if len(found) != 1:
            raise MachineError(f"the package {PACKAGE} {self.package_version} holds no modules")
        return found[0]

    @property
    def release(self) -> str:
        """The kernel's release."""
        return self.modules.name

    def boot(self) -> Boot:
        """How to boot it.

        Raises
        ------
        MachineError
            It lacks a module.
        """
        listing = (self.modules / "modules.dep").read_text()
        files = load_order(listing, MODULES)
        # Its /dev would hide the channel, which lies in this machine's /dev/shm.
        words = ("devtmpfs.mount=0", "selinux=0")
        return Boot(self.program, words, tuple(self.modules / file for file in files))


def load_order(listing: str, names: tuple[str, ...]) -> list[str]:
    """Files of modules in an order in which they can be loaded.

    Parameters
    ----------
    listing
        Text of ``modules.dep`` (modules.dep(5)): a module's file, a colon, the files of all
        that it needs, directly or not, the last one to be loaded first.
    names
        Modules by their names.

    Raises
    ------
    MachineError
        A module is not in the listing.
    """
    lines = [line.partition(":") for line in listing.splitlines() if ":" in line]
    needs = {file: rest.split() for file, _, rest in lines}
    by_name = {Path(file).name.split(".")[0].replace("-", "_"): file for file in needs}
    order: dict[str, None] = {}
    for name in names:
        if name not in by_name:
            raise MachineError(f"the package {PACKAGE} lacks the module {name}")
        file = by_name[name]
        order.update(dict.fromkeys([*reversed(needs[file]), file]))
    return list(order)


def packaged_kernel() -> PackagedKernel | None:
    """The kernel in the cache, if it is there."""
    found = [
        PackagedKernel(folder, folder.name)
        for folder in sorted(_cache().glob("*"))
        if (folder / "complete").exists()
    ]
    return found[-1] if found else None


def ensure_packaged_kernel() -> PackagedKernel:
    """The kernel, fetched and unpacked first if the cache does not hold it; needs no root.

    Raises
    ------
    MachineError
        The package cannot be had.
    """
    make_dir(_cache())
    with file_lock(_cache().with_suffix(".lock"), "another set-up of the packaged kernel"):
        found = packaged_kernel()
        return found or _fetch(_cache())


def _cache() -> Path:
    return cache_dir() / "packaged"


def _fetch(cache: Path) -> PackagedKernel:
    try:
        with Step(f"fetching {PACKAGE}"):
            for left in cache.glob(f"{PACKAGE}_*.deb"):
                left.unlink()
            download(PACKAGE, cache)
            (archive,) = cache.glob(f"{PACKAGE}_*.deb")
            folder = cache / archive.name.split("_")[1].replace("%3a", "-")
            run(["dpkg", "-x", str(archive), str(folder)], timeout_s=_LIMIT_S)
    except (CommandError, ValueError) as error:
        raise MachineError(
            f"cannot fetch {PACKAGE}: {error}; try `sudo apt-get update`, then again"
        ) from error
    archive.unlink()
    (folder / "complete").touch()
    give_to_caller(cache)
    return PackagedKernel(folder, folder.name)

"""The distributions that set-up knows, and the packages that it takes from them."""

from dataclasses import dataclass
from pathlib import Path

from testbed.commands import run
from testbed.errors import CommandError, MachineError
from testbed.longrun import run_logged
from testbed.progress import Step

_KERNEL_SOURCE = {
    ("debian", "12"): "linux-source-6.1",
    ("ubuntu", "22.04"): "linux-source-5.15.0",
    ("ubuntu", "24.04"): "linux-source-6.8.0",
}
_PACKAGES = (
    "bc",
    "binutils",
    "bison",
    "bzip2",
    "flex",
    "gcc",
    "iproute2",
    "libc6-dev",
    "libelf-dev",
    "libssl-dev",
    "make",
    "mininet",
    "openvswitch-switch",
    "python3-dev",
    "python3-venv",
    "util-linux",
    "xz-utils",
)
# Packages come without a question, and without a service of theirs being started: Open
# vSwitch is needed inside the virtual machine only.
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "SYSTEMD_OFFLINE": "1", "NEEDRESTART_SUSPEND": "1"}
_APT = ("apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=120")


@dataclass(frozen=True)
class Distribution:
    """A Linux distribution.

    Attributes
    ----------
    name, version
        ``ID`` and ``VERSION_ID`` of os-release, e.g. ``debian`` and ``12``.
    """

    name: str
    version: str

    def packages(self) -> tuple[str, ...]:
        """Names of all packages that set-up needs here.

        Raises
        ------
        MachineError
            Set-up does not know this distribution.
        """
        source = _KERNEL_SOURCE.get((self.name, self.version))
        if source is None:
            known = ", ".join(f"{name} {version}" for name, version in _KERNEL_SOURCE)
            raise MachineError(f"set-up does not know {self.name} {self.version}; it knows {known}")
        return (*_PACKAGES, source)


def this_distribution(path: Path = Path("/etc/os-release")) -> Distribution:
    """The distribution that this machine runs, from its os-release file.

    Raises
    ------
    MachineError
        There is no such file.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise MachineError(f"cannot tell the distribution: {path}: {error.strerror}") from error
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    values = {name: value.strip().strip("\"'") for name, value in fields.items()}
    return Distribution(values.get("ID", "unknown"), values.get("VERSION_ID", "?"))


def installed_packages() -> dict[str, str]:
    """Installed packages and their versions.

    Raises
    ------
    MachineError
        This is no distribution of Debian's kind.
    """
    listing = run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n"])
    rows = (line.split() for line in listing.splitlines() if line.endswith(" installed"))
    return {row[0]: row[1] for row in rows}


def missing_packages(wanted: tuple[str, ...]) -> list[str]:
    """Those of the packages that are not installed, in their order.

    Raises
    ------
    MachineError
        This is no distribution of Debian's kind.
    """
    installed = installed_packages()
    return [name for name in wanted if name not in installed]


def install_packages(names: list[str], log: Path) -> None:
    """Install packages of the distribution; needs root.

    Parameters
    ----------
    names
        What to install.
    log
        File that takes the package manager's output.

    Raises
    ------
    MachineError
        The package manager failed; says with which line.
    """
    try:
        with Step("updating the list of packages") as step:
            run_logged([*_APT, "update"], log=log, env=_QUIET, on_tick=step.tick)
        with Step(f"installing {len(names)} packages: {' '.join(names)}") as step:
            argv = [*_APT, "install", "--no-install-recommends", *names]
            run_logged(argv, log=log, env=_QUIET, on_tick=step.tick)
    except CommandError as error:
        raise MachineError(f"installing packages: {apt_reason(log.read_text())}") from error


def apt_reason(output: str) -> str:
    """Why the package manager failed, in one line, with what mends it where that is known."""
    lines = [line.strip() for line in output.splitlines()]
    network = [line for line in lines if line.startswith(("Err:", "W: Failed to fetch"))]
    if any(
        sign in output for sign in ("Temporary failure", "Could not connect", "Failed to fetch")
    ):
        what = network[0] if network else "no answer"
        return f"the package server does not answer ({what}): check the network, then try again"
    if "No space left" in output or "enough free space" in output:
        return "no space left on the disk: make room, then try again"
    if "dpkg --configure -a" in output:
        return "an earlier installation was interrupted: run `sudo dpkg --configure -a` first"
    errors = [line for line in lines if line.startswith("E: ")]
    return errors[0] if errors else (lines or ["no output"])[-1]

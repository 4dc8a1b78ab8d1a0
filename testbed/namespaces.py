"""Network namespaces, made and entered in process.

A namespace is held by an open descriptor and by nothing else: no process per
host, no file under ``/run/netns``. When the owner ends, by whatever cause, the
kernel takes the namespace away together with every interface inside it.
"""

import ctypes
import fcntl
import gc
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import MachineError
from testbed.libc import check, libc

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_OWN_NAMESPACE = "/proc/thread-self/ns/net"
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


class Namespace:
    """One network namespace.

    Parameters
    ----------
    name
        What messages call it.
    descriptor
        Open ``/proc/…/ns/net`` file; closed by `close`.
    """

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._descriptor = descriptor

    @classmethod
    def create(cls, name: str) -> "Namespace":
        """Make a new namespace with loopback, without IPv6; the caller stays where it is.

        Raises
        ------
        MachineError
            The kernel refuses: not root, or no network namespaces.
        """
        home = os.open(_OWN_NAMESPACE, os.O_RDONLY)
        try:
            _unshare_network()
            try:
                _prepare()
                return cls(name, os.open(_OWN_NAMESPACE, os.O_RDONLY))
            finally:
                _set_namespace(home, "home")
        finally:
            os.close(home)

    @property
    def descriptor(self) -> int:
        """The open descriptor, for netlink messages that name a namespace."""
        return self._descriptor

    def enter(self) -> None:
        """Move the calling thread into this namespace for good."""
        _set_namespace(self._descriptor, self.name)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Move the calling thread into this namespace for the length of a block."""
        home = os.open(_OWN_NAMESPACE, os.O_RDONLY)
        try:
            self.enter()
            try:
                yield
            finally:
                _set_namespace(home, "home")
        finally:
            os.close(home)

    def close(self) -> None:
        """Let the namespace go; it ends with its last process and descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def isolate() -> None:
    """Move this process into a fresh network namespace without IPv6, for good.

    Switches, links and the controller's port then live apart from the machine's
    own network: nothing of a run is visible to the host, and nothing can stay
    behind. Call it once, before the network is built and the controller started.
    """
    _unshare_network()
    _prepare()


def write_sysctl(name: str, value: str, *, optional: bool = False) -> None:
    """Set one sysctl, ``net`` ones in the current namespace.

    Parameters
    ----------
    name
        Path below ``/proc/sys``.
    value
        What to write.
    optional
        Do nothing where the kernel has no such setting.
    """
    path = Path("/proc/sys") / name
    if optional and not path.exists():
        return
    try:
        path.write_text(value)
    except OSError as error:
        raise MachineError(f"cannot set {path} to {value}: {error.strerror}") from error


def fork_in_namespace(
    namespace: Namespace | None,
    function: Callable[[], int],
    *,
    log: Path | None = None,
) -> int:
    """Run a function in a forked child inside a namespace.

    The child dies with its parent, ignores Ctrl-C (its parent decides), writes
    standard output and error to ``log``, and exits with what the function
    returns; an exception is written to the log and becomes status 1.

    Parameters
    ----------
    namespace
        Where to run; ``None`` keeps the parent's.
    function
        Called without arguments; returns the exit status.
    log
        File for standard output and error; ``None`` keeps the parent's.

    Returns
    -------
    int
        Process id of the child.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _die_with(parent)
        gc.freeze()  # a collection would write to, and so copy, every page of the parent
        if log is not None:
            _redirect_output(log)
        if namespace is not None:
            namespace.enter()
        status = function()
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def die_with_parent() -> None:
    """For ``preexec_fn``: end this process when its parent ends, and ignore Ctrl-C."""
    _die_with(os.getppid())


def _prepare() -> None:
    """Make the current, fresh namespace ready: loopback up, IPv6 off from now on.

    With IPv6 each interface would send router and multicast listener messages.
    """
    for scope in ("all", "default"):
        write_sysctl(f"net/ipv6/conf/{scope}/disable_ipv6", "1", optional=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _die_with(parent: int) -> None:
    check(libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "end with its parent")
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _redirect_output(log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    source = os.open(os.devnull, os.O_RDONLY)
    for wanted, descriptor in ((source, 0), (output, 1), (output, 2)):
        os.dup2(wanted, descriptor)
    os.close(output)
    os.close(source)


def _unshare_network() -> None:
    if libc().unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"cannot make a network namespace: {reason}; run as root")


def _set_namespace(descriptor: int, name: str) -> None:
    if libc().setns(descriptor, _CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"cannot enter the network namespace of {name}: {reason}")

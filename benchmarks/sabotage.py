"""Builds links wrong on purpose, with the machine's own tools, and lets the check find them.

Runs inside the virtual machine (`benchmarks.fidelityguest`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType

from testbed.commands import run
from testbed.fidelity import check, measure
from testbed.limits import Limits
from testbed.linktrial import SHORT
from testbed.network import Network, build_network
from testbed.shaping import Shape, ShapedInterface, install
from testbed.topology import Frozen, Topology

Commands = Sequence[Sequence[str]]
_CONTROLLER_PORT = 6653
"""Where nobody listens: no rules are needed."""


def _netem(member: ShapedInterface, shape: Shape) -> Commands:
    """What puts a shape on an interface (tc-netem(8))."""
    words = ["delay", f"{shape.delay_ns / 1e3:g}us", "rate", f"{shape.rate_bytes_per_s * 8}bit"]
    words += ["limit", str(shape.limit_packets)]
    return [["tc", "qdisc", "replace", "dev", member.interface, "root", "netem", *words]]


def _wrong_delay(member: ShapedInterface) -> Commands:
    shape = member.shape
    wrong = Shape(shape.delay_ns + 2_000_000, shape.rate_bytes_per_s, shape.limit_packets)
    return _netem(member, wrong)


def _wrong_rate(member: ShapedInterface) -> Commands:
    shape = member.shape
    return _netem(member, Shape(shape.delay_ns, shape.rate_bytes_per_s // 2, shape.limit_packets))


def _wrong_limit(member: ShapedInterface) -> Commands:
    return _netem(member, Shape(member.shape.delay_ns, member.shape.rate_bytes_per_s, 4))


def _wrong_mtu(member: ShapedInterface) -> Commands:
    return [["ip", "link", "set", "dev", member.interface, "mtu", "1500"]]


def _no_shaper(member: ShapedInterface) -> Commands:
    return [["tc", "qdisc", "del", "dev", member.interface, "root"]]


SABOTAGES: MappingProxyType[str, Callable[[ShapedInterface], Commands]] = MappingProxyType(
    {
        "delay": _wrong_delay,
        "rate": _wrong_rate,
        "limit": _wrong_limit,
        "MTU": _wrong_mtu,
        "no shaper": _no_shaper,
    }
)
"""What is done to a link, by what is then wrong with it."""


class Sabotaged(Frozen):
    """One sabotage, and what the short form of the check said about the network."""

    what: str
    """Nothing where the network was sound."""
    link: str
    findings: tuple[str, ...]


def sabotage(topology: Topology, *, scale: float, mtu_bytes: int, log_dir: Path) -> list[Sabotaged]:
    """Check a sound network, then with each sabotage on a link of its own, then sound again.

    Raises
    ------
    CliquenetError
        The network could not be built, or a tool failed.
    """
    with build_network(
        topology,
        scale=scale,
        mtu_bytes=mtu_bytes,
        name_prefix="",
        controller_port=_CONTROLLER_PORT,
        log_dir=log_dir,
    ) as network:
        found = [Sabotaged(what="", link="", findings=_findings(network, scale))]
        victims = [m for m in network.shaped if m.namespace is None][::3]
        for (what, commands), member in zip(SABOTAGES.items(), victims, strict=False):
            for command in commands(member):
                run(command)
            found.append(Sabotaged(what=what, link=member.link, findings=_findings(network, scale)))
            run(["ip", "link", "set", "dev", member.interface, "mtu", str(mtu_bytes)])
            install([member])
        found.append(Sabotaged(what="", link="", findings=_findings(network, scale)))
    return found


def _findings(network: Network, scale: float) -> tuple[str, ...]:
    fidelity = measure(network, scale=scale, effort=SHORT, paths=False)
    return tuple(finding.text for finding in check(fidelity, Limits().at("virtual")))

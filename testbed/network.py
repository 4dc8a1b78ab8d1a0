"""Builds the emulated network: topology in, running and verified Mininet out."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.addressing import ISLAND_PORT
from testbed.errors import CliquenetError
from testbed.impairment import Impairment
from testbed.livelinks import LiveLinks
from testbed.namespaces import Namespace, fork_in_namespace
from testbed.netlink import RouteSocket
from testbed.netrequests import link_counters, list_links
from testbed.nodes import CityController, CityHost, CityNet, CityTopo, check_names
from testbed.openvswitch import OpenVSwitch
from testbed.shaping import ShapedInterface, check, install, read_queues, shape_for
from testbed.topology import Topology
from testbed.wiring import (
    ANY_SEGMENTS,
    HOST_INTERFACE_INDEX,
    Wire,
    connect,
    disconnect,
    limit_hosts,
    plan_wires,
)

Step = Callable[[str], None]
NOBODY_PORT = 9
"""TCP port where no controller listens (RFC 863)."""
_LOCAL_PORT = 65534
"""OpenFlow number of a bridge's own port, which nothing uses."""


@dataclass(frozen=True)
class Network:
    """A running network; leaving its ``with`` block takes it down."""

    topology: Topology
    net: CityNet
    """The Mininet object."""
    openvswitch: OpenVSwitch
    shaped: tuple[ShapedInterface, ...]
    mtu_bytes: int
    name_prefix: str
    _closing: ExitStack

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Take down everything that was built, and nothing else; may be called twice."""
        self._closing.close()

    def island(self, city: int) -> CityHost:
        """The island host of a city, by the city's index."""
        host: CityHost = self.net[f"{self.name_prefix}{self.topology.codes[city]}-i"]
        return host

    def aggregator(self, city: int) -> CityHost:
        """The aggregator host of a city, by the city's index."""
        host: CityHost = self.net[f"{self.name_prefix}{self.topology.codes[city]}-a"]
        return host

    def islands(self) -> tuple[Namespace, ...]:
        """The islands' namespaces, in index order."""
        hosts = (self.island(city) for city in range(len(self.topology.codes)))
        return tuple(host.namespace for host in hosts if host.namespace is not None)

    def fork(self, host: CityHost, function: Callable[[], int], log: Path | None = None) -> int:
        """Run a function in a child process on a host; see `fork_in_namespace`."""
        return fork_in_namespace(host.namespace, function, log=log)

    def check(self) -> None:
        """Check that the switch daemons run and that every link is shaped as planned.

        Raises
        ------
        CliquenetError
            What is wrong, and where.
        """
        self.openvswitch.alive()
        check(self.shaped)

    def point(self, code: str, port: int) -> None:
        """Let the switch of a city connect to a controller at another port, and no more to this.

        Its flows stay: it always has a controller to look for, and fails secure.
        """
        target = f'target="tcp:127.0.0.1:{port}"'
        self.openvswitch.configure(["set", "Controller", f"{self.name_prefix}{code}", target])

    @contextmanager
    def impaired(
        self, impairments: Mapping[str, Impairment], *, changing: bool = False
    ) -> Iterator[LiveLinks]:
        """Impair directions, by their names, for the length of a block; then mend them.

        Meanwhile hosts hand packets on one by one: of several in one, a shaper would
        lose all or none. Only at the sending end of ``island→…`` do bursts still meet
        the shaper whole; who impairs that direction must send single packets.

        Parameters
        ----------
        impairments
            From the beginning on.
        changing
            Links will be changed within the block, by what it is given.

        Raises
        ------
        CliquenetError
            A direction that is not there, or a shaper that is not as asked.
        """
        links = LiveLinks(self.shaped)
        if not (impairments or changing):
            yield links
            return
        limit_hosts(self.net.hosts, 1)
        try:
            links.impair(impairments)
            yield links
        finally:
            links.mend()
            limit_hosts(self.net.hosts, ANY_SEGMENTS)

    def counters(self) -> dict[str, Any]:
        """Everything that the kernel counted: queues, interfaces, datapath.

        Returns
        -------
        dict
            ``queues`` (list, one per shaped direction), ``interfaces`` (list, one
            per switch port), ``datapath`` (hits, misses, lost); plain JSON values.
        """
        with RouteSocket() as route:
            interfaces = [asdict(link_counters(body)) for body in route.dump(list_links())]
        return {
            "queues": [
                {"link": member.link, "interface": member.interface, **asdict(state)}
                for member, state in read_queues(self.shaped)
                if state is not None
            ],
            "interfaces": [row for row in interfaces if row["index"] != 1],
            "datapath": asdict(self.openvswitch.datapath_counters()),
        }


def build_network(
    topology: Topology,
    *,
    scale: float,
    mtu_bytes: int,
    name_prefix: str,
    controller_port: int,
    log_dir: Path,
    step: Step = lambda _: None,
) -> Network:
    """Build the network of a topology and verify what was built.

    Call `testbed.namespaces.isolate` before, in this process.

    Parameters
    ----------
    topology
        Cities and links; figures unscaled.
    scale
        Divisor of all rates.
    mtu_bytes
        Largest IP packet of every interface.
    name_prefix
        Goes before every bridge, host and interface name.
    controller_port
        TCP port on 127.0.0.1 to which the switches connect, again and again
        until somebody listens there.
    log_dir
        Existing folder for the switch daemons' logs.
    step
        Called with a few words at each step, for progress and timing.

    Raises
    ------
    InputError
        Prefix too long, scale too large.
    MachineError
        The machine lacks a kernel feature, a program or the rights.
    CliquenetError
        Something was built otherwise than asked.
    """
    check_names(topology, name_prefix)
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="cliquenet-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        openvswitch = OpenVSwitch(directory, log_dir)
        stack.callback(openvswitch.stop)
        openvswitch.start()
        step("switch daemons started")
        net = CityNet(topo=CityTopo(topology, name_prefix, openvswitch))
        _build(net, stack)
        step("hosts made")
        wires = plan_wires(net)
        stack.callback(disconnect, wires)
        connect(wires, net.hosts, mtu_bytes)
        step("links made")
        net.addController(CityController("controller", ip="127.0.0.1", port=controller_port))
        net.start()
        _check_ports(net, openvswitch, mtu_bytes)
        step("switches configured")
        shaped = plan_shaping(topology, name_prefix, wires, scale, mtu_bytes)
        install(shaped)
        step("links shaped")
        closing = stack.pop_all()
    return Network(topology, net, openvswitch, shaped, mtu_bytes, name_prefix, closing)


def plan_shaping(
    topology: Topology, name_prefix: str, wires: Sequence[Wire], scale: float, mtu_bytes: int
) -> tuple[ShapedInterface, ...]:
    """Which interface is shaped how: both ends of every WAN and every access link."""
    indices = {end.name: end.index for wire in wires for end in (wire.near, wire.far)}
    shaped = []
    for edge in topology.edges:
        name = f"{name_prefix}{edge.src}-{topology.out_port(edge.index)}"
        shape = shape_for(edge.delay_ms, edge.rate_gbps, scale, mtu_bytes)
        label = f"{edge.src}→{edge.dst}"
        shaped.append(ShapedInterface(label, name, indices[name], None, shape))
    by_name = {wire.far.name: wire.namespace for wire in wires}
    for city in topology.cities:
        shape = shape_for(0.0, city.access_rate_gbps, scale, mtu_bytes)
        port = f"{name_prefix}{city.code}-{ISLAND_PORT}"
        host = f"{name_prefix}{city.code}-i"
        label = f"{city.code}→island"
        shaped.append(ShapedInterface(label, port, indices[port], None, shape))
        label = f"island→{city.code}"
        shaped.append(ShapedInterface(label, host, HOST_INTERFACE_INDEX, by_name[host], shape))
    return tuple(shaped)


def _build(net: CityNet, stack: ExitStack) -> None:
    try:
        net.build()
    finally:
        for host in net.hosts:
            stack.callback(host.terminate)
        for switch in net.switches:
            stack.callback(switch.terminate)


def _check_ports(net: CityNet, openvswitch: OpenVSwitch, mtu_bytes: int) -> None:
    """Compare every port of every bridge with what was asked for."""
    rows = openvswitch.table("Interface", ["name", "ofport", "mtu", "error"])
    found = {row["name"]: row for row in rows if row["ofport"] != _LOCAL_PORT}
    for switch in net.switches:
        for interface in switch.intfList():
            if interface.name == "lo":
                continue
            wanted = switch.ports[interface]
            row = found.pop(interface.name, {"ofport": "no", "mtu": "no", "error": ""})
            if (row["ofport"], row["mtu"]) != (wanted, mtu_bytes):
                raise CliquenetError(
                    f"interface {interface.name} should be port {wanted} with MTU {mtu_bytes}, "
                    f"but has port {row['ofport']}, MTU {row['mtu']} {row['error'] or ''}".rstrip()
                )
    if found:
        raise CliquenetError(f"the switches have a port that nobody asked for: {min(found)}")

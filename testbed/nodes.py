"""Mininet's classes without a process per host, link or interface.

Names and behaviour are Mininet's, so its command line and its ``cmd``, ``popen``
and ``pexec`` work. A node's shell starts when the first command asks for it;
interfaces are made all together by `testbed.network`.
"""

# ruff: noqa: N802, N815 (the names are Mininet's)

from collections.abc import Sequence
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, OVSSwitch, RemoteController
from mininet.topo import Topo

from testbed.addressing import (
    AGGREGATOR_PORT,
    ISLAND_PORT,
    MAX_INTERFACE_NAME,
    aggregator_ip,
    aggregator_mac,
    dpid,
    island_ip,
    island_mac,
    switch_mac,
)
from testbed.errors import InputError
from testbed.namespaces import Namespace
from testbed.openvswitch import OpenVSwitch
from testbed.topology import Topology

PREFIX_BITS = 16
"""Every address lies in 10.0.0.0/16: one flat network, routed by the switches."""


class LazyShell:
    """Mixin of Mininet nodes: the shell starts with the first command."""

    isSetup = True  # Mininet would look for its programs by starting `which`
    namespace: Namespace | None = None

    def startShell(self, mnopts: str | None = None) -> None:
        """Start nothing yet."""

    def openShell(self) -> None:
        """Start the node's shell in its namespace, if it has none."""
        node: Any = self
        if node.shell:
            return
        kept, node.inNamespace = node.inNamespace, False  # we enter, mnexec must not make one
        try:
            if self.namespace is None:
                super().startShell()  # type: ignore[misc]
            else:
                with self.namespace.entered():
                    super().startShell()  # type: ignore[misc]
        finally:
            node.inNamespace = kept

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a shell command and return its output."""
        if "lo" in args and "ifconfig" in args:  # Mininet's own; loopback is up already
            return ""
        self.openShell()
        return super().cmd(*args, **kwargs)  # type: ignore[misc]

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        """Start a shell command."""
        self.openShell()
        return super().sendCmd(*args, **kwargs)  # type: ignore[misc]

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        """Start a process on the node; a ``subprocess.Popen``."""
        self.openShell()  # its process id names the namespace
        return super().popen(*args, **kwargs)  # type: ignore[misc]


class CityHost(LazyShell, Host):  # type: ignore[misc]
    """An island or an aggregator, in a namespace of its own."""

    def __init__(self, name: str, **params: Any) -> None:
        self.namespace = Namespace.create(name)
        super().__init__(name, **params)

    def config(self, **_params: Any) -> dict[str, Any]:
        """Nothing here: addresses are set over netlink."""
        return {}

    def terminate(self) -> None:
        """End the shell, if any, and let the namespace go."""
        super().terminate()
        if self.namespace is not None:
            self.namespace.close()


class CitySwitch(LazyShell, OVSSwitch):  # type: ignore[misc]
    """A city's Open vSwitch bridge: kernel datapath, secure, OpenFlow 1.3."""

    def __init__(self, name: str, *, openvswitch: OpenVSwitch, **params: Any) -> None:
        self.openvswitch = openvswitch
        super().__init__(name, failMode="secure", protocols="OpenFlow13", **params)

    def start(self, controllers: Sequence[Any]) -> None:
        """Note what `batchStartup` has to ask for."""
        targets = [f"{c.protocol}:{c.IP()}:{c.port}" for c in controllers]
        self.commands = self.bridge_commands(targets)

    def bridge_commands(self, targets: Sequence[str]) -> list[str]:
        """Arguments of ``ovs-vsctl`` that make this bridge with all its ports."""
        bridge = self.name
        arguments = ["--", "add-br", bridge, "--", "set", "Bridge", bridge]
        arguments += ["fail_mode=secure", "protocols=OpenFlow13", "mcast_snooping_enable=false"]
        arguments += [f"other_config:datapath-id={self.dpid}", "other_config:disable-in-band=true"]
        arguments += [f"other_config:hwaddr={switch_mac(int(self.dpid, 16) - 1, 0)}"]
        for interface in self.intfList():
            if interface.name == "lo":
                continue
            arguments += ["--", "add-port", bridge, interface.name, "--", "set", "Interface"]
            arguments += [interface.name, f"ofport_request={self.ports[interface]}"]
        if targets:
            arguments += ["--", "set-controller", bridge, *targets]
            arguments += ["--", "set", "Controller", bridge, "max_backoff=1000"]
            arguments += ["inactivity_probe=30000"]
        return arguments

    @classmethod
    def batchStartup(cls, switches: Sequence["CitySwitch"], run: Any = None) -> Any:
        """Make all bridges by one ``ovs-vsctl``."""
        arguments = [word for switch in switches for word in switch.commands]
        switches[0].openvswitch.configure(arguments[1:])
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence["CitySwitch"], run: Any = None) -> Any:
        """Delete all bridges by one ``ovs-vsctl``."""
        words = [["--", "--if-exists", "del-br", switch.name] for switch in switches]
        switches[0].openvswitch.configure([word for group in words for word in group][1:])
        for switch in switches:
            switch.terminate()
        return switches


class CityController(RemoteController):  # type: ignore[misc]
    """The controller, which runs outside Mininet (Mininet would probe it by telnet)."""

    isSetup = True

    def startShell(self, mnopts: str | None = None) -> None:
        """Start nothing: it is not ours to command."""

    def checkListening(self) -> None:
        """Check nothing: the switches connect when it listens."""


class CityInterface(Intf):  # type: ignore[misc]
    """One end of a link; made, named, addressed and brought up by `testbed.network`."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Nothing here: all interfaces are set up together."""
        return {}

    def delete(self) -> None:
        """Forget the interface; the network deletes all together."""
        self.node.delIntf(self)
        self.link = None


class CityLink(Link):  # type: ignore[misc]
    """A veth pair, made together with all others by `testbed.network`."""

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_kwargs: Any) -> None:
        """Make nothing yet."""


class CityNet(Mininet):  # type: ignore[misc]
    """Mininet with our classes; hosts are configured by `testbed.network`."""

    def __init__(self, **params: Any) -> None:
        Mininet.inited = True  # it would change the limits of the machine, a process each
        super().__init__(
            switch=CitySwitch,
            host=CityHost,
            link=CityLink,
            intf=CityInterface,
            controller=None,
            build=False,
            **params,
        )

    def configHosts(self) -> None:
        """Nothing here: see `testbed.network`."""


class CityTopo(Topo):  # type: ignore[misc]
    """One switch, one island and one aggregator per city; links as in the topology."""

    def build(self, topology: Topology, name_prefix: str, openvswitch: OpenVSwitch) -> None:
        """Add every node and link, with its ports, interface names and MAC addresses."""
        check_names(topology, name_prefix)
        for i, code in enumerate(topology.codes):
            switch = f"{name_prefix}{code}"
            self.addSwitch(switch, dpid=f"{dpid(i):016x}", openvswitch=openvswitch)
            ends = (
                ("i", ISLAND_PORT, island_ip(i), island_mac(i)),
                ("a", AGGREGATOR_PORT, aggregator_ip(i), aggregator_mac(i)),
            )
            for suffix, port, ip, mac in ends:
                host = f"{switch}-{suffix}"
                self.addHost(host, ip=f"{ip}/{PREFIX_BITS}", mac=mac)
                self.addLink(
                    switch,
                    host,
                    port1=port,
                    port2=0,
                    intfName1=f"{switch}-{port}",
                    intfName2=host,
                    addr1=switch_mac(i, port),
                    addr2=mac,
                )
        for link_index in range(len(topology.links)):
            self._add_wan_link(topology, name_prefix, link_index)

    def _add_wan_link(self, topology: Topology, name_prefix: str, link_index: int) -> None:
        link = topology.links[link_index]
        port_a, port_b = (topology.out_port(2 * link_index + way) for way in (0, 1))
        self.addLink(
            f"{name_prefix}{link.a}",
            f"{name_prefix}{link.b}",
            port1=port_a,
            port2=port_b,
            intfName1=f"{name_prefix}{link.a}-{port_a}",
            intfName2=f"{name_prefix}{link.b}-{port_b}",
            addr1=switch_mac(topology.index(link.a), port_a),
            addr2=switch_mac(topology.index(link.b), port_b),
        )


def check_names(topology: Topology, name_prefix: str) -> None:
    """Refuse a prefix that leaves no room in an interface name.

    Raises
    ------
    InputError
        A name would have more than 15 characters.
    """
    longest = max(topology.codes, key=len)
    room = MAX_INTERFACE_NAME - len(f"{longest}-99")
    if len(name_prefix) > room:
        raise InputError(
            f'the name prefix "{name_prefix}" is too long: {room} characters '
            f'fit before "{longest}-99" in an interface name'
        )

"""What is planned before anything is built: names, ports, interfaces, shapes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.addressing import MAX_INTERFACE_NAME
from testbed.errors import CliquenetError, InputError, MachineError
from testbed.netrequests import End
from testbed.network import plan_shaping
from testbed.nodes import CitySwitch, CityTopo, check_names
from testbed.openvswitch import OpenVSwitch
from testbed.topology import load_topology
from testbed.wiring import Wire

NINE = load_topology("nine-cities")


def topo(prefix: str = "") -> CityTopo:
    return CityTopo(NINE, prefix, OpenVSwitch(Path("/nowhere"), Path("/nowhere")))


def test_one_switch_and_two_hosts_per_city_and_one_link_each() -> None:
    planned = topo("t-")
    assert sorted(planned.switches()) == sorted(f"t-{code}" for code in NINE.codes)
    assert len(planned.hosts()) == 2 * 9
    assert len(planned.links()) == 13 + 2 * 9


def test_interface_names_are_unique_short_and_tell_the_port() -> None:
    infos = [info for _, _, info in topo("t-").links(withInfo=True)]
    names = [info[key] for info in infos for key in ("intfName1", "intfName2")]
    macs = [info[key] for info in infos for key in ("addr1", "addr2")]
    assert len(set(names)) == len(names) == 2 * 31
    assert len(set(macs)) == len(macs)
    assert max(len(name) for name in names) <= MAX_INTERFACE_NAME
    for info in infos:
        assert info["intfName1"] == f"{info['node1']}-{info['port1']}"


def test_a_long_prefix_is_refused() -> None:
    check_names(NINE, "a" * 9)
    with pytest.raises(InputError, match="too long: 9 characters"):
        check_names(NINE, "a" * 10)


def wires() -> Sequence[Wire]:
    infos = [info for _, _, info in topo().links(withInfo=True)]
    return [
        Wire(
            End(info["intfName1"], 100 + 2 * i, info["addr1"]),
            End(info["intfName2"], 101 + 2 * i, info["addr2"]),
            None,
        )
        for i, info in enumerate(infos)
    ]


def test_every_direction_of_every_shaped_link_once() -> None:
    shaped = plan_shaping(NINE, "", wires(), 100, 9000)
    assert len(shaped) == 26 + 18
    assert len({(member.index, member.interface) for member in shaped}) == 44
    by_link = {member.link: member for member in shaped}
    assert by_link["nyc→chi"].shape.delay_ns == 8_260_000
    assert by_link["chi→nyc"].interface == "chi-3"
    assert by_link["nyc→island"].interface == "nyc-1"
    assert by_link["island→nyc"].interface == "nyc-i"
    assert by_link["island→nyc"].shape.delay_ns == 0
    assert not any(member.interface.endswith(("-a", "-2")) for member in shaped)


def test_the_bridge_is_secure_and_asks_for_its_ports() -> None:
    switch = CitySwitch.__new__(CitySwitch)
    switch.name, switch.dpid, switch.intfs, switch.ports = "nyc", "00" * 7 + "01", {}, {}
    words = switch.bridge_commands(["tcp:127.0.0.1:6653"])
    assert {"fail_mode=secure", "protocols=OpenFlow13"} <= set(words)
    assert f"other_config:datapath-id={switch.dpid}" in words
    assert words[words.index("set-controller") + 1 :][:2] == ["nyc", "tcp:127.0.0.1:6653"]


def test_a_daemon_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.openvswitch.SCHEMAS", (tmp_path / "none",))
    with pytest.raises(MachineError, match="not installed"):
        OpenVSwitch(tmp_path, tmp_path).start()


def test_a_database_answers_and_a_dead_daemon_is_named(tmp_path: Path) -> None:
    # The switch daemon cannot work without root and kernel; the database can.
    openvswitch = OpenVSwitch(tmp_path, tmp_path)
    try:
        openvswitch.start()
        assert openvswitch.table("Open_vSwitch", ["bridges"]) == [{"bridges": []}]
        for process in openvswitch._processes.values():
            process.kill()
            process.wait()
        with pytest.raises(CliquenetError, match="ovsdb-server ended with status -9"):
            openvswitch.alive()
    finally:
        openvswitch.stop()

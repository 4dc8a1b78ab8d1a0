"""Netlink messages, compared with the layout that the kernel's headers give."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import MachineError
from testbed.netlink import RouteSocket, attribute, attributes
from testbed.netrequests import End, add_veth, delete_link, link_counters, list_links


@given(st.dictionaries(st.integers(1, 100), st.binary(max_size=40), max_size=6))
def test_attributes_survive_a_round_trip(values: dict[int, bytes]) -> None:
    data = b"".join(attribute(kind, payload) for kind, payload in values.items())
    assert len(data) % 4 == 0
    assert attributes(data) == values


def test_garbage_ends_the_attributes() -> None:
    assert attributes(b"\0\0\0\0\0\0") == {}


def test_the_current_namespace_has_its_loopback() -> None:
    with RouteSocket() as route:
        links = [link_counters(body) for body in route.dump(list_links())]
    (loopback,) = [link for link in links if link.name == "lo"]
    assert loopback.index == 1
    assert loopback.mtu_bytes == 65536
    assert loopback.rx_packets == loopback.tx_packets  # what goes out comes back in


def test_more_requests_than_their_answers_have_room_for_are_all_answered() -> None:
    nobody = 2**31 - 1
    with RouteSocket() as route, pytest.raises(MachineError, match="refused to delete absent"):
        route.apply([delete_link("absent", nobody) for _ in range(1000)])


def test_a_veth_pair_names_both_ends() -> None:
    request = add_veth(
        End("left", 100, "02:00:00:00:00:01"), End("right", 101, "02:00:00:00:00:02"), 9000, None
    )
    request.message["header"] = {"type": request.kind, "flags": 0}
    request.message.encode()
    found = attributes(bytes(request.message.data)[16 + 16 :])  # behind both headers
    assert found[3] == b"left\0"  # IFLA_IFNAME
    assert found[1] == bytes([2, 0, 0, 0, 0, 1])  # IFLA_ADDRESS
    assert struct.unpack("=I", found[4]) == (9000,)  # IFLA_MTU
    info = attributes(found[18])  # IFLA_LINKINFO
    assert info[1].rstrip(b"\0") == b"veth"  # IFLA_INFO_KIND
    peer = attributes(info[2])[1]  # IFLA_INFO_DATA, VETH_INFO_PEER
    assert struct.unpack_from("=BxHiII", peer)[2] == 101
    assert attributes(peer[16:])[3] == b"right\0"
    assert "left–right" in request.what

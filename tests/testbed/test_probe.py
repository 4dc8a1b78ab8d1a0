"""Echo packets and the round-trip times that are expected of them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import CliquenetError
from testbed.probe import (
    Probes,
    echo_request,
    internet_checksum,
    parse_reply,
)
from testbed.roundtrips import expected_rtt_ns, round_trips
from testbed.topology import City, Link, Topology

LINE = Topology(
    name="line",
    cities=tuple(
        City(code=c, name=c, region="r", lat=0, lon=0, access_rate_gbps=rate)
        for c, rate in (("aa", 100), ("bb", 100), ("cc", 10))
    ),
    links=(
        Link(a="aa", b="bb", delay_ms=8.26, delay_back_ms=8.26),
        Link(a="bb", b="cc", delay_ms=1, delay_back_ms=2, rate_gbps=10),
    ),
)
UNICAST = {"aa": {"bb": 1, "cc": 3}, "bb": {"aa": 0, "cc": 3}, "cc": {"aa": 0, "bb": 2}}


def test_expected_times_by_hand() -> None:
    # 98 bytes take 784 ns at 1 Gbit/s, 7840 ns at 100 Mbit/s.
    expected = expected_rtt_ns(LINE, UNICAST, scale=100, mtu_bytes=9000)
    assert expected[0][1] == 2 * 8_260_000 + 2 * 784 + 4 * 784
    wan = 2 * (8_260_000 + 784) + 1_000_000 + 2_000_000 + 2 * 7840
    assert expected[0][2] == wan + 2 * 784 + 2 * 7840
    assert expected[2][0] == expected[0][2]
    assert expected[1][1] is None


def test_a_way_that_runs_in_a_circle_is_refused() -> None:
    circle = {**UNICAST, "cc": {"aa": 0, "bb": 1}}
    with pytest.raises(CliquenetError, match="circle"):
        expected_rtt_ns(LINE, circle, scale=100, mtu_bytes=9000)


def test_the_checksum_of_the_standard_example() -> None:
    # RFC 1071, section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == ~0xDDF2 & 0xFFFF


@given(st.integers(0, 60), st.integers(0, 60), st.integers(12, 2000), st.integers(0, 2**63))
def test_a_reply_tells_its_pair_and_when_it_was_sent(
    i: int, j: int, payload_bytes: int, sent_ns: int
) -> None:
    request = echo_request(3, i, j, payload_bytes, sent_ns)
    assert len(request) == 8 + payload_bytes
    assert internet_checksum(request) == 0
    ip_header = struct.pack("!B19x", 0x45)
    reply = ip_header + b"\0" + request[1:]
    assert parse_reply(reply, 3, payload_bytes) == ((i, j), sent_ns)
    assert parse_reply(reply, 4, payload_bytes) is None
    assert parse_reply(reply[:-1], 3, payload_bytes) is None
    assert parse_reply(ip_header + request, 3, payload_bytes) is None


@pytest.mark.parametrize(
    ("probes", "lack"),
    [
        (Probes([[None, 5], [5, None]], ()), ""),
        (Probes([[None, None], [5, None]], ()), "no answer, an echo got lost"),
        (Probes([[None, 5], [5, None]], ((0, 1),)), "a packet of 9000 bytes, not to be fragmented"),
    ],
)
def test_a_path_says_what_does_not_get_there_and_back(probes: Probes, lack: str) -> None:
    trips = round_trips(probes, ["aa", "bb"], [[None, 4000], [4000, None]], 9000)
    assert [trip.name for trip in trips] == ["aa-bb", "bb-aa"]
    assert trips[0].lack.startswith(lack)
    assert bool(trips[0].lack) == bool(lack)
    assert trips[1].lack == ""
    assert trips[1].error_us == pytest.approx(-3.995)

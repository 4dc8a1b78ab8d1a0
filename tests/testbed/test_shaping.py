"""Shaping parameters, and their binary form as the kernel defines it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.impairment import NONE, Impairment
from testbed.netlink import attribute, attributes
from testbed.shaping import (
    QUEUE_BYTES,
    Shape,
    decode_netem,
    decode_queue,
    encode_netem,
    serialisation_ns,
    shape_for,
)

_U32 = st.integers(0, 2**32 - 1)
_POSITIVE = st.integers(1, 2**32 - 1)
IMPAIRMENTS = st.builds(
    Impairment,
    loss=_U32,
    duplicate=_U32,
    reorder=_U32,
    jitter_ns=st.integers(0, 10**9).map(lambda half: 2 * half),
) | st.builds(Impairment, enter_burst=_POSITIVE, leave_burst=_POSITIVE)
SHAPES = st.builds(
    Shape,
    delay_ns=st.integers(0, 10**12),
    rate_bytes_per_s=st.integers(1000, 2**40),
    limit_packets=st.integers(1, 2**32 - 1),
    impairment=st.one_of(st.just(NONE), IMPAIRMENTS),
)


def test_a_link_by_hand() -> None:
    # 100 Gbit/s ÷ 100 = 1 Gbit/s = 125 MB/s; in flight on 8.26 ms: 1 032 500 bytes.
    shape = shape_for(8.26, 100, 100, 9000)
    assert shape.delay_ns == 8_260_000
    assert shape.rate_bytes_per_s == 125_000_000
    assert shape.limit_packets == -(-(1_548_750 + QUEUE_BYTES) // 9014)


@given(
    st.floats(0, 500), st.sampled_from([1.0, 10.0, 100.0, 400.0]), st.sampled_from([1, 100, 1000])
)
def test_the_limit_holds_half_as_many_again_as_are_in_flight(
    delay_ms: float, rate_gbps: float, scale: float
) -> None:
    shape = shape_for(delay_ms, rate_gbps, scale, 1500)
    in_flight = shape.rate_bytes_per_s * delay_ms / 1e3 / 1514
    assert shape.limit_packets >= 1.5 * in_flight
    assert shape.limit_packets <= 1.5 * in_flight + QUEUE_BYTES / 1514 + 1


def test_a_scale_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="smaller scale"):
        shape_for(1, 1, 1e6, 1500)


def test_delays_are_exact_to_the_nanosecond() -> None:
    assert shape_for(32.125, 100, 100, 9000).delay_ns == 32_125_000
    assert shape_for(2.8150001, 100, 100, 9000).delay_ns == 2_815_000
    assert shape_for(0.000001, 100, 100, 9000).delay_ns == 1


def test_serialisation_by_hand() -> None:
    # 98 bytes at 1 Gbit/s; 9014 bytes at 100 Mbit/s.
    assert serialisation_ns(98, 125_000_000) == 784
    assert serialisation_ns(9014, 12_500_000) == 721_120


@given(SHAPES)
def test_the_binary_form_survives_a_round_trip(shape: Shape) -> None:
    assert decode_netem(encode_netem(shape)) == shape


def test_the_binary_form_by_hand() -> None:
    # <linux/pkt_sched.h>: qopt {latency, limit, loss, gap, duplicate, jitter}, then
    # TCA_NETEM_LATENCY64 = 10 (8 bytes) and TCA_NETEM_RATE = 6 (16 bytes).
    assert encode_netem(Shape(1_000_000, 125_000_000, 1000)) == (
        struct.pack("=6I", 0, 1000, 0, 0, 0, 0)
        + struct.pack("=HHq", 12, 10, 1_000_000)
        + struct.pack("=HHIiii", 20, 6, 125_000_000, 0, 0, 0)
        # What it does not do is said as well: CORR = 1, REORDER = 3, JITTER64 = 11.
        + struct.pack("=HH3I", 16, 1, 0, 0, 0)
        + struct.pack("=HH2I", 12, 3, 0, 0)
        + struct.pack("=HHq", 12, 11, 0)
    )


def test_a_rate_beyond_32_bits_goes_into_its_own_attribute() -> None:
    found = attributes(encode_netem(Shape(0, 2**32 + 5, 1))[24:])
    assert found[6][:4] == b"\xff\xff\xff\xff"
    assert struct.unpack("=Q", found[8]) == (2**32 + 5,)


@pytest.mark.parametrize(
    "strange",
    [
        attribute(1, struct.pack("=3I", 0, 5, 0)),  # correlated losses
        attribute(3, struct.pack("=2I", 0, 5)),  # correlated reordering
        attribute(3, struct.pack("=2I", 5, 0)),  # reordering without a gap
        attribute(4, struct.pack("=2I", 5, 0)),  # corruption
        attribute(5, attribute(1, bytes(20))),  # a loss chain of four states
        attribute(5, attribute(2, struct.pack("=4I", 5, 5, 1, 0))),  # some survive in the bad one
        attribute(7, struct.pack("=I", 1)),  # marks instead of losses
        attribute(12, bytes(40)),  # slots
    ],
)
def test_a_netem_that_does_more_is_not_ours(strange: bytes) -> None:
    good = encode_netem(Shape(5, 1000, 1000))
    assert decode_netem(good) is not None
    assert decode_netem(good + strange) is None
    assert decode_netem(struct.pack("=6I", 0, 1000, 0, 2, 0, 0) + good[24:]) is None  # gap
    assert decode_netem(good[:24]) is None
    assert decode_netem(b"") is None


def test_a_queue_and_its_counters() -> None:
    shape = Shape(8_260_000, 125_000_000, 28573)
    basic = attribute(1, struct.pack("=QI", 5000, 3))
    queue = attribute(3, struct.pack("=5I", 2, 3000, 7, 0, 11))
    body = struct.pack("=BxxxiIII", 0, 42, 1 << 16, 0xFFFFFFFF, 2)
    body += attribute(1, b"netem\0") + attribute(2, encode_netem(shape))
    state = decode_queue(body + attribute(7, basic + queue))
    assert (state.index, state.kind, state.shape) == (42, "netem", shape)
    assert (state.sent_bytes, state.sent_packets) == (5000, 3)
    assert (state.drops, state.overlimits) == (7, 11)
    assert (state.backlog_bytes, state.backlog_packets) == (3000, 2)


def test_another_discipline_has_no_shape() -> None:
    body = struct.pack("=BxxxiIII", 0, 1, 0, 0xFFFFFFFF, 2) + attribute(1, b"noqueue\0")
    assert decode_queue(body).shape is None

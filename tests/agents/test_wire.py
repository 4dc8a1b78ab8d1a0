"""Format constants, header layout and the arithmetic of stream lengths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire import (
    HEADER_BYTES,
    HEADER_DTYPE,
    DType,
    StreamLayout,
    burst_limit,
    check_sources,
    datagram_bytes,
    dtype_named,
    elements_per_datagram,
    stream_layout,
    wire_bytes,
)
from testbed.errors import InputError


def test_header_offsets() -> None:
    offsets = {name: HEADER_DTYPE.fields[name][1] for name in HEADER_DTYPE.names}
    assert HEADER_BYTES == 56
    assert offsets == {
        "magic": 0,
        "version": 2,
        "type": 3,
        "flags": 4,
        "dtype": 5,
        "n_elem": 6,
        "job_id": 8,
        "epoch": 12,
        "round": 16,
        "clique": 20,
        "src": 22,
        "cause": 23,
        "weight_id": 24,
        "bitmap": 32,
        "seq": 40,
        "exponent": 44,
        "weight": 46,
        "t_send_us": 48,
        "crc": 52,
    }


@pytest.mark.parametrize(
    ("mtu_bytes", "elements", "udp_payload"), [(9000, 2048, 8248), (1500, 352, 1464)]
)
def test_full_datagrams(mtu_bytes: int, elements: int, udp_payload: int) -> None:
    assert elements_per_datagram(mtu_bytes) == elements
    assert datagram_bytes(elements) == udp_payload
    # Ethernet 14 + IPv4 20 + UDP 8 on top of the payload
    assert wire_bytes(elements) == udp_payload + 42


@given(st.integers(220, 65535))
def test_no_datagram_is_longer_than_the_mtu(mtu_bytes: int) -> None:
    elements = elements_per_datagram(mtu_bytes)
    assert elements >= 1
    assert datagram_bytes(elements) + 28 <= mtu_bytes
    assert burst_limit(elements) * datagram_bytes(elements) <= 65507


def test_an_mtu_without_room_is_refused() -> None:
    with pytest.raises(InputError, match="100 bytes"):
        elements_per_datagram(100)


def test_layout_of_the_papers_stream_at_scale_100() -> None:
    # 17.9 MB / 8290 B = 2159.2 datagrams; the rest of 1890 B holds (1890 − 98) / 4 elements
    layout = stream_layout(17.9e6, 9000)
    assert layout == StreamLayout(blocks=2160, elements=2048, last_elements=448)
    assert layout.wire_bytes == 17_900_000


@given(st.floats(102, 1e8), st.sampled_from([1500, 4000, 9000]))
def test_layout_keeps_the_length(payload: float, mtu_bytes: int) -> None:
    layout = stream_layout(payload, mtu_bytes)
    assert 1 <= layout.last_elements <= layout.elements
    # within one element, except where the rest is too short for a datagram
    rest = payload % wire_bytes(layout.elements)
    assert abs(layout.wire_bytes - payload) <= (4 if rest >= 102 or rest == 0 else 51)
    total = sum(
        layout.burst_bytes(b, min(4, layout.blocks - b)) for b in range(0, layout.blocks, 4)
    )
    assert total == layout.wire_bytes


def test_layout_refuses_less_than_one_element() -> None:
    with pytest.raises(InputError, match=r"50 bytes on the wire .* \(102 bytes\)"):
        stream_layout(50, 9000)


@pytest.mark.parametrize(("mtu_bytes", "elements"), [(9000, 4096), (1500, 704)])
def test_two_byte_elements_are_twice_as_many(mtu_bytes: int, elements: int) -> None:
    assert elements_per_datagram(mtu_bytes, 2) == elements
    assert datagram_bytes(elements, 2) == 56 + 2 * elements


@given(st.floats(100, 1e8), st.sampled_from([1500, 4000, 9000]))
def test_layout_of_two_byte_elements_keeps_the_length(payload: float, mtu_bytes: int) -> None:
    layout = stream_layout(payload, mtu_bytes, 2)
    rest = payload % wire_bytes(layout.elements, 2)
    assert abs(layout.wire_bytes - payload) <= (2 if rest >= 100 or rest == 0 else 50)


def test_element_types_have_the_names_of_the_config() -> None:
    names = ["i32", "i32-exponent", "f32", "bf16"]
    assert [dtype_named(name) for name in names] == list(DType)
    with pytest.raises(InputError, match='unknown dtype "f23"; did you mean "f32"'):
        dtype_named("f23")
    with pytest.raises(InputError, match="valid: bf16, f32, i32, i32-exponent"):
        dtype_named("double")


def test_more_islands_than_bits_are_refused() -> None:
    check_sources(64)
    with pytest.raises(InputError, match="65 islands need 65 bits"):
        check_sources(65)

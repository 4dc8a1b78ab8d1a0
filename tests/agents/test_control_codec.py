"""Control datagrams: there and back, and whatever does not fit."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from agents.recovery.control import MAX_RANGES, Control, chunks, decode, encode
from agents.wire import HEADER_BYTES, HEADER_DTYPE, PacketType

JOB = 77
u32 = st.integers(0, 2**32 - 1)
requests = st.builds(
    Control,
    kind=st.sampled_from([PacketType.NACK, PacketType.UNAVAILABLE]),
    src=st.integers(0, 63),
    epoch=u32,
    round=u32,
    seq=u32,
    flags=st.sampled_from([0, 128]),
    ranges=st.lists(st.tuples(u32, st.integers(1, 2**32 - 1)), min_size=1, max_size=MAX_RANGES).map(
        tuple
    ),
)


def garble(datagram: bytes, field: str, value: int) -> bytes:
    """The datagram with another header field and a checksum that is right again."""
    header = np.frombuffer(datagram[:HEADER_BYTES], HEADER_DTYPE).copy()
    header[field] = value
    header["crc"] = 0
    header["crc"] = crc32c(header.tobytes() + datagram[HEADER_BYTES:])
    return header.tobytes() + datagram[HEADER_BYTES:]


def reasons(datagram: bytes) -> dict[str, int]:
    rejects: Counter[str] = Counter()
    assert decode(datagram, JOB, rejects) is None
    return dict(rejects)


@given(requests)
def test_there_and_back(message: Control) -> None:
    rejects: Counter[str] = Counter()
    assert decode(encode(message, JOB), JOB, rejects) == message
    assert not rejects


@given(requests, st.data())
def test_a_changed_bit_is_never_taken(message: Control, data: st.DataObject) -> None:
    datagram = bytearray(encode(message, JOB))
    datagram[data.draw(st.integers(0, len(datagram) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert sum(reasons(bytes(datagram)).values()) == 1


@given(st.binary(max_size=700))
def test_noise_is_counted_once(noise: bytes) -> None:
    assert sum(reasons(noise).values()) == 1


@given(requests, st.integers(0, 1000))
def test_a_cut_datagram_is_not_taken(message: Control, length: int) -> None:
    datagram = encode(message, JOB)
    cut = datagram[: min(length, len(datagram) - 1)]
    assert set(reasons(cut)) <= {"short", "length"}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("magic", 1, "magic"),
        ("version", 2, "version"),
        ("type", PacketType.AGG, "type"),
        ("type", 200, "type"),
        ("dtype", 3, "dtype"),
        ("job_id", JOB + 1, "job"),
        ("n_elem", 3, "length"),
        ("n_elem", 65535, "length"),
    ],
)
def test_each_field_has_its_reason(field: str, value: int, reason: str) -> None:
    datagram = encode(Control(PacketType.NACK, 1, 2, ranges=((3, 4),)), JOB)
    assert reasons(garble(datagram, field, value)) == {reason: 1}


def raw(kind: PacketType, words: list[int]) -> bytes:
    """A datagram with a valid header over any words."""
    pair = encode(Control(kind, 1, 2, ranges=((0, 1),)), JOB)[:HEADER_BYTES]
    return garble(pair + np.array(words, "<u4").tobytes(), "n_elem", len(words))


@pytest.mark.parametrize(
    ("kind", "words", "reason"),
    [
        (PacketType.NACK, [], "length"),
        (PacketType.NACK, [1, 2, 3], "length"),
        (PacketType.NACK, [1, 1] * (MAX_RANGES + 1), "length"),
        (PacketType.NACK, [5, 1, 9, 0], "range"),
        (PacketType.HEARTBEAT, [9, 5, 9, 5], "range"),
        (PacketType.HEARTBEAT, [5, 9], "range"),
        (PacketType.END_ROUND, [5, 9], "range"),
    ],
)
def test_what_a_payload_must_be(kind: PacketType, words: list[int], reason: str) -> None:
    assert reasons(raw(kind, words)) == {reason: 1}


def test_a_standing_may_wrap() -> None:
    rejects: Counter[str] = Counter()
    message: Any = decode(raw(PacketType.HEARTBEAT, [3, 2**32 - 5]), JOB, rejects)
    assert message.ranges == ((3, 2**32 - 5),)


def test_a_long_list_is_cut_into_datagrams() -> None:
    ranges = [(i, 1) for i in range(2 * MAX_RANGES + 1)]
    parts = list(chunks(ranges))
    assert [len(part) for part in parts] == [MAX_RANGES, MAX_RANGES, 1]
    assert [pair for part in parts for pair in part] == ranges
    assert list(chunks([])) == []

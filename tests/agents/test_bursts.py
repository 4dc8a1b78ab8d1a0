"""Building bursts and taking them apart: round trips, and every kind of bad datagram."""

import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.bursts import Packer, Run, parse, runs
from agents.wire import Cause, DType, Flag, PacketType, datagram_bytes

JOB = 0xC0FFEE
ELEMENTS = 8
SIZE = datagram_bytes(ELEMENTS)


def packed(
    count: int = 4,
    *,
    block: int = 10,
    last: int = ELEMENTS,
    seed: int = 0,
    src: int = 3,
    bitmap: int = 8,
) -> tuple[bytes, np.ndarray]:
    packer = Packer(7, ELEMENTS, kind=PacketType.DATA, job_id=JOB, epoch=77, src=src)
    limits = np.iinfo(np.int32)
    values = np.random.default_rng(seed).integers(limits.min, limits.max, (count, ELEMENTS))
    packer.payload[:count] = values
    packer.address(round_index=5, clique=2, bitmap=bitmap, cause=Cause.TIMEOUT)
    return bytes(packer.seal(count, block, 0xFFFFFFFF, 123456, last)), values.astype(np.int32)


def parsed(
    data: bytes,
    segment: int = SIZE,
    kind: PacketType = PacketType.DATA,
    job: int = JOB,
    dtype: DType = DType.I32,
) -> tuple[list[Run], Counter[str]]:
    rejects: Counter[str] = Counter()
    buffer = np.frombuffer(bytearray(data), np.uint8)
    batches = parse(buffer, len(data), segment, kind=kind, job_id=job, rejects=rejects, dtype=dtype)
    return [run for batch in batches for run in runs(batch)], rejects


def crc32c_bitwise(data: bytes) -> int:
    """Castagnoli's polynomial, bit by bit (RFC 3720, appendix B.4: "123456789" gives E3069283)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_fields_and_checksum_on_the_wire() -> None:
    assert crc32c_bitwise(b"123456789") == 0xE3069283
    data, values = packed(2)
    first, second = data[:SIZE], data[SIZE:]
    fields = struct.unpack(">HBBBBHIIIHBBQQIhHII", first[:56])
    assert fields[:18] == (
        *(0x434E, 1, PacketType.DATA, 0, 1, ELEMENTS, JOB, 77, 5, 2, 3, Cause.TIMEOUT),
        *(10, 8, 0xFFFFFFFF, 0, 1, 123456),
    )
    assert fields[18] == crc32c_bitwise(first[:52] + bytes(4) + first[56:])
    assert first[56:] == values[0].astype("<i4").tobytes()
    weight_id, seq = struct.unpack_from(">Q8xI", second, 24)
    assert (weight_id, seq) == (11, 0)  # the sequence number wraps


@given(st.integers(1, 7), st.integers(0, 2**40), st.integers(1, ELEMENTS), st.integers(0, 99))
def test_round_trip(count: int, block: int, last: int, seed: int) -> None:
    data, values = packed(count, block=block, last=last, seed=seed)
    got, rejects = parsed(data)
    assert not rejects
    assert sum(len(run.values) for run in got) == count
    for run in got:
        assert (run.round, run.clique, run.src, run.bitmap) == (5, 2, 3, 8)
        assert run.cause == Cause.TIMEOUT
        width = run.values.shape[1]
        assert width == (ELEMENTS if run.block + len(run.values) < block + count else last)
        rows = values[run.block - block :][: len(run.values), :width]
        np.testing.assert_array_equal(run.values, rows)


def test_the_buffer_can_be_used_again_after_a_short_block() -> None:
    packer = Packer(2, ELEMENTS, kind=PacketType.DATA, job_id=JOB, epoch=0, src=0)
    packer.address(round_index=0, clique=0, bitmap=1)
    packer.seal(2, 0, 0, 0, 3)
    got, rejects = parsed(bytes(packer.seal(2, 0, 0, 0, ELEMENTS)))
    assert [run.values.shape for run in got] == [(2, ELEMENTS)]
    assert not rejects


def test_runs_end_where_blocks_do_not_follow_on_or_the_source_changes() -> None:
    datagrams = b"".join(
        packed(1, block=block, src=src, bitmap=1 << src)[0]
        for block, src in ((4, 1), (5, 1), (7, 1), (8, 2), (9, 2), (9, 2))
    )
    got, _ = parsed(datagrams)
    assert [(run.block, len(run.values), run.src) for run in got] == [
        (4, 2, 1),
        (7, 1, 1),
        (8, 2, 2),
        (9, 1, 2),
    ]


def rewritten(data: bytes, offset: int, new: bytes) -> bytes:
    """Change some bytes of the second datagram and make its checksum right again."""
    changed = bytearray(data)
    changed[SIZE + offset : SIZE + offset + len(new)] = new
    body = changed[SIZE : 2 * SIZE]
    body[52:56] = bytes(4)
    changed[SIZE + 52 : SIZE + 56] = struct.pack(">I", crc32c_bitwise(bytes(body)))
    return bytes(changed)


@pytest.mark.parametrize(
    ("offset", "new", "reason"),
    [
        (0, b"XX", "magic"),
        (2, b"\x02", "version"),
        (3, bytes([PacketType.AGG]), "type"),
        (3, b"\xff", "type"),
        (5, b"\x03", "dtype"),
        (6, b"\x00\x07", "length"),
        (6, b"\x00\x09", "length"),
        (8, b"\x00\x00\x00\x01", "job"),
    ],
)
def test_one_bad_datagram_is_counted_and_the_others_are_taken(
    offset: int, new: bytes, reason: str
) -> None:
    data, values = packed(3)
    got, rejects = parsed(rewritten(data, offset, new))
    assert rejects == {reason: 1}
    assert [run.block for run in got] == [10, 12]
    np.testing.assert_array_equal(np.concatenate([run.values for run in got]), values[[0, 2]])


def test_flags_are_carried_known_or_not_and_end_a_run() -> None:
    got, rejects = parsed(rewritten(packed(3)[0], 4, b"\x81"))
    assert not rejects
    assert [(run.block, len(run.values), run.flags) for run in got] == [
        (10, 1, 0),
        (11, 1, 0x81),
        (12, 1, 0),
    ]


@pytest.mark.parametrize(
    ("offset", "new"), [(12, b"\x00\x00\x00\x01"), (22, b"\x09"), (44, b"\xff\xfe"), (39, b"\x01")]
)
def test_another_epoch_source_exponent_or_bitmap_ends_a_run(offset: int, new: bytes) -> None:
    got, rejects = parsed(rewritten(packed(3)[0], offset, new))
    assert not rejects
    assert [run.block for run in got] == [10, 11, 12]
    assert [run.epoch for run in got] == [77, 1 if offset == 12 else 77, 77]
    assert [run.exponent for run in got] == [0, -2 if offset == 44 else 0, 0]


@pytest.mark.parametrize("dtype", list(DType))
def test_a_run_has_one_element_type(dtype: DType) -> None:
    packer = Packer(3, ELEMENTS, kind=PacketType.DATA, job_id=JOB, epoch=0, src=1, dtype=dtype)
    bits = np.random.default_rng(5).integers(0, 256, packer.payload.nbytes, np.uint8)
    packer.payload[:] = bits.view(dtype.on_wire).reshape(packer.payload.shape)
    packer.address(round_index=0, clique=0, bitmap=2, flags=Flag.NONFINITE, exponent=-300)
    data = bytes(packer.seal(3, 4, 0, 0, 3))
    size = datagram_bytes(ELEMENTS, dtype.element_bytes)
    assert size == 56 + ELEMENTS * (2 if dtype is DType.BF16 else 4)
    for expected in DType:
        got, rejects = parsed(data, size, dtype=expected)
        if expected is not dtype:
            assert got == []
            assert rejects == {"dtype": 3}
            continue
        assert not rejects
        assert [run.values.shape for run in got] == [(2, ELEMENTS), (1, 3)]
        assert [(run.flags, run.exponent) for run in got] == [(Flag.NONFINITE, -300)] * 2
        for run in got:
            rows = packer.payload[run.block - 4 :][: len(run.values), : run.values.shape[1]]
            assert run.values.tobytes() == rows.tobytes()


def test_a_bf16_datagram_of_odd_length_is_refused() -> None:
    packer = Packer(1, ELEMENTS, kind=PacketType.DATA, job_id=JOB, epoch=0, src=1, dtype=DType.BF16)
    packer.address(round_index=0, clique=0, bitmap=2)
    data = bytes(packer.seal(1, 0, 0, 0, ELEMENTS)) + b"\x00"
    got, rejects = parsed(data, len(data), dtype=DType.BF16)
    assert got == []
    assert rejects == {"length": 1}


@given(st.integers(0, 2 * SIZE - 1), st.integers(0, 7))
def test_any_flipped_bit_is_noticed(position: int, bit: int) -> None:
    data = bytearray(packed(2)[0])
    data[position] ^= 1 << bit
    got, rejects = parsed(bytes(data))
    assert sum(rejects.values()) == 1
    assert [run.block for run in got] == [10 + (position < SIZE)]


@given(st.binary(max_size=3 * SIZE), st.integers(1, 2 * SIZE))
def test_garbage_is_counted_datagram_by_datagram(data: bytes, segment: int) -> None:
    got, rejects = parsed(data, segment)
    assert got == []
    # an empty buffer is one empty datagram
    assert sum(rejects.values()) == max(1, -(-len(data) // segment))


@given(st.integers(1, SIZE - 1))
def test_truncated_datagrams_are_refused(length: int) -> None:
    got, rejects = parsed(packed(1)[0][:length])
    assert got == []
    assert sum(rejects.values()) == 1
    assert not rejects["crc"] or length >= datagram_bytes(1)

"""The resend ring."""

import numpy as np
import pytest

from agents.aggregator.ring import ResendRing
from testbed.errors import InputError

ROW_BYTES = 60


def build(ring: ResendRing, size: int = ROW_BYTES) -> None:
    row = ring.row(ring.next_seq)
    ring.memory[row] = ring.next_seq % 251
    ring.sizes[row] = size
    ring.next_seq += 1


def test_it_holds_the_latest_rows() -> None:
    ring = ResendRing(5, ROW_BYTES)
    assert ring.oldest_seq == ring.next_seq == 0
    for _ in range(13):
        build(ring)
    assert (ring.oldest_seq, ring.next_seq) == (8, 13)
    for seq in range(8, 13):
        assert bytes(ring.view(seq, 1)) == bytes([seq]) * ROW_BYTES


def test_a_burst_ends_at_the_rings_end() -> None:
    ring = ResendRing(5, ROW_BYTES)
    assert ring.room(4) == 4
    for _ in range(3):
        build(ring)
    assert ring.room(4) == 2
    for _ in range(2):
        build(ring)
    assert ring.room(4) == 4
    assert ring.run(3, 10) == 2


def test_a_run_ends_with_a_short_datagram() -> None:
    ring = ResendRing(6, ROW_BYTES)
    for size in (ROW_BYTES, ROW_BYTES, 57, ROW_BYTES):
        build(ring, size)
    assert ring.run(0, 4) == 3
    burst = ring.view(0, 3)
    assert len(burst) == 2 * ROW_BYTES + 57
    np.testing.assert_array_equal(np.frombuffer(burst, np.uint8), ring.memory.ravel()[: len(burst)])
    assert ring.run(3, 1) == 1


@pytest.mark.parametrize(("rows", "row_bytes"), [(0, 100), (4, 55)])
def test_a_ring_without_room_is_refused(rows: int, row_bytes: int) -> None:
    with pytest.raises(InputError, match=f"{rows} × {row_bytes} bytes holds no datagram"):
        ResendRing(rows, row_bytes)

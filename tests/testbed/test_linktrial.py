"""When frames are sent, and how the MTU is found."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import CliquenetError
from testbed.linkfigures import Train
from testbed.linkprobe import directions_of
from testbed.linktrial import FULL, SHORT, Effort, find_mtu, slots
from testbed.shaping import Shape, ShapedInterface, serialisation_ns

MTU_BYTES = 9000
FULL_FRAME_BYTES = MTU_BYTES + 14
SHAPES = (Shape(8_260_000, 125_000_000, 1000), Shape(0, 1_250_000, 1000))


def direction(link: str) -> ShapedInterface:
    return ShapedInterface(link, f"if-{link}", 5, None, SHAPES[0])


@pytest.mark.parametrize("effort", [SHORT, FULL, Effort(1, 2, 21)])
def test_every_direction_gets_all_its_frames_in_the_order_of_time(effort: Effort) -> None:
    planned = slots(SHAPES, MTU_BYTES, effort)
    assert [slot.due_ns for slot in planned] == sorted(slot.due_ns for slot in planned)
    for index in range(len(SHAPES)):
        sent = dict.fromkeys((Train.FIRST, Train.SPACED, Train.BURST, Train.SUSTAINED), 0)
        for slot in (slot for slot in planned if slot.direction == index):
            sent[Train(slot.train)] += slot.frames
        assert list(sent.values()) == [1, effort.spaced, effort.burst, effort.sustained]
    assert sum(slot.frames for slot in planned if slot.direction == 0) <= effort.frames


def test_spaced_frames_never_wait_and_a_sustained_train_never_ends_early() -> None:
    planned = slots(SHAPES, MTU_BYTES, FULL)
    for index, shape in enumerate(SHAPES):
        mine = [slot for slot in planned if slot.direction == index]
        spaced = [slot.due_ns for slot in mine if slot.train == Train.SPACED]
        small_ns = serialisation_ns(60, shape.rate_bytes_per_s)
        assert min(b - a for a, b in pairwise(spaced)) >= 2 * small_ns
        full_ns = serialisation_ns(FULL_FRAME_BYTES, shape.rate_bytes_per_s)
        free_ns = None
        for slot in (slot for slot in mine if slot.train == Train.SUSTAINED):
            assert free_ns is None or slot.due_ns < free_ns
            free_ns = max(slot.due_ns, free_ns or 0) + slot.frames * full_ns


@given(
    st.lists(st.integers(60, 65535), min_size=1, max_size=6),
    st.one_of(st.integers(576, 9216), st.none()),
)
def test_the_largest_packet_that_passes_is_found(mtus: list[int], expected: int | None) -> None:
    asked = mtus[0] if expected is None else expected
    tries = 0

    def passing(sizes: Mapping[int, int]) -> set[int]:
        nonlocal tries
        tries += 1
        return {k for k, size in sizes.items() if size <= mtus[k]}

    assert find_mtu(passing, len(mtus), asked) == mtus
    assert tries <= 18
    if all(mtu == asked for mtu in mtus):
        assert tries == 2


def test_where_nothing_passes_the_mtu_is_zero() -> None:
    assert find_mtu(lambda _: set(), 1, MTU_BYTES) == [0]


def test_directions_are_paired_by_their_ends() -> None:
    members = [direction(link) for link in ("a→b", "a→island", "b→a", "island→a")]
    paired = directions_of(members)
    assert [d.target.link for d in paired] == ["b→a", "island→a", "a→b", "a→island"]
    with pytest.raises(CliquenetError, match="a→b has no direction back"):
        directions_of(members[:1])

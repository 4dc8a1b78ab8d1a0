"""Recovery from one end to the other: every pitfall of the protocol, in simulated time."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_hop import BLOCKS, US, Channel, Hop

from agents.recovery.control import Control, encode
from agents.recovery.gaps import WAIT_NS
from agents.wire import PacketType

S = 1_000_000  # in µs
channels = st.builds(
    Channel,
    loss=st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    duplication=st.sampled_from([0.0, 0.1, 0.5]),
    garbling=st.sampled_from([0.0, 0.1]),
    delay_us=st.sampled_from([0, 50, 2000]),
    jitter_us=st.sampled_from([0, 100, 5000]),
)


def emit_all(hop: Hop, blocks: range, pause_us: int) -> None:
    """Send the sums of some blocks in bursts of up to five, in pauses of up to so long."""
    chance = random.Random(1)  # noqa: S311
    block = blocks.start
    while block < blocks.stop:
        assert hop.edge is not None
        size = min(chance.randint(1, 5), blocks.stop - block)
        hop.edge.emit(list(range(block, block + size)), hop.now_ns)
        hop.run(chance.randint(1, pause_us))
        block += size


@settings(max_examples=60)
@given(channels, st.integers(0, 2**31), st.sampled_from([10, 1000, 20_000]))
def test_a_large_ring_leaves_nothing_unrecovered(
    channel: Channel, seed: int, pause_us: int
) -> None:
    hop = Hop(channel, seed)
    hop.start_edge(epoch=1, rows=BLOCKS)
    emit_all(hop, range(BLOCKS), pause_us)
    hop.run(60 * S)
    assert hop.delivered == Counter(range(BLOCKS))
    told = hop.told
    assert told["pending_datagrams"] == told["unavailable_datagrams"] == 0
    assert told["noticed_datagrams"] == told["late_datagrams"] + told["recovered_datagrams"]
    if not (channel.loss or channel.garbling or channel.jitter_us):
        assert told["nacks"] == 0


@settings(max_examples=60)
@given(channels, st.integers(0, 2**31), st.integers(8, 40), st.sampled_from([10, 1000]))
def test_a_small_ring_ends_in_counters_and_never_twice(
    channel: Channel, seed: int, rows: int, pause_us: int
) -> None:
    hop = Hop(channel, seed)
    hop.start_edge(epoch=1, rows=rows)
    emit_all(hop, range(BLOCKS), pause_us)
    hop.run(60 * S)
    told = hop.told
    assert set(hop.delivered.values()) == {1}
    assert told["pending_datagrams"] == 0
    assert told["unavailable_datagrams"] == BLOCKS - len(hop.delivered)


RTO_US = 1200
"""Round trip of 200 µs, and the least margin, 1 ms."""
PACE_US = 50


def lose_thrice(resend_us: int) -> Hop:
    """A steady stream, some of whose sums are lost and then the first two resends of each too."""
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=resend_us // PACE_US)
    hop.to_island.doomed.update(dict.fromkeys((20, 40, 60, 180, 270), 1))  # measured
    hop.to_island.doomed.update(dict.fromkeys((100, 190, 191, 192, 280), 3))
    for block in range(BLOCKS):
        edge.emit([block], hop.now_ns)
        hop.run(PACE_US)
    hop.run(1 * S)
    assert hop.told["pending_datagrams"] == 0
    assert set(hop.delivered.values()) == {1}
    return hop


def test_a_ring_of_wait_and_three_timeouts_is_enough_for_what_is_lost_thrice() -> None:
    hop = lose_thrice(WAIT_NS // US + 3 * RTO_US)
    assert hop.delivered == Counter(range(BLOCKS))
    assert hop.told["unavailable_datagrams"] == 0


def test_a_ring_of_less_says_what_it_does_not_have() -> None:
    hop = lose_thrice(WAIT_NS // US + RTO_US)
    missing = set(range(BLOCKS)) - set(hop.delivered)
    assert missing == {100, 190, 191, 192, 280}
    assert hop.told["unavailable_datagrams"] == len(missing)


def test_what_has_left_the_ring_is_told_at_once() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=8)
    hop.channel = Channel(loss=1.0)
    edge.emit(list(range(20)), hop.now_ns)
    hop.channel = Channel()
    edge.emit([20], hop.now_ns)
    hop.run(10_000)
    assert sorted(hop.delivered) == list(range(13, 21))
    assert hop.told["unavailable_datagrams"] == 13
    assert hop.told["nacks"] == 1
    gone = [m for m in hop.heard if m.kind is PacketType.UNAVAILABLE]
    assert [m.ranges for m in gone] == [((0, 13),)]
    assert edge.control.counters()["unavailable_datagrams"] == 13


def test_a_lost_tail_is_seen_by_a_heartbeat() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=100)
    edge.emit(list(range(4)), hop.now_ns)
    hop.run(1000)
    hop.channel = Channel(loss=1.0)
    edge.emit(list(range(4, 8)), hop.now_ns)
    hop.run(900)
    assert hop.told["noticed_datagrams"] == 0
    hop.channel = Channel()
    hop.run(600)  # the first heartbeat is sent after 1 ms
    assert hop.delivered == Counter(range(8))


def test_the_end_of_a_round_tells_of_a_lost_tail_before_any_heartbeat() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=100)
    hop.channel = Channel(loss=1.0)
    edge.emit(list(range(4)), hop.now_ns)
    hop.channel = Channel()
    edge.control.end_round(0)
    edge.control.end_round(0)
    assert not hop.requester.settled(0)
    hop.run(500)  # the wait for reordering alone would take so long
    assert hop.delivered == Counter(range(4))
    assert hop.heard[0].kind is PacketType.END_ROUND
    assert hop.requester.settled(0)


def test_a_lost_end_of_a_round_is_told_by_the_next_heartbeat() -> None:
    hop = Hop(Channel(loss=1.0))
    edge = hop.start_edge(epoch=1, rows=100)
    edge.emit([0, 1], hop.now_ns)
    edge.control.end_round(0)
    hop.channel = Channel()
    hop.run(20_000)
    assert hop.requester.settled(0)
    assert hop.delivered == Counter(range(2))


def test_mere_reordering_is_not_asked_for() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=100)
    hop.channel = Channel(delay_us=500)
    edge.emit([0], hop.now_ns)
    hop.channel = Channel(delay_us=100)
    edge.emit([1, 2], hop.now_ns)
    hop.run(5000)
    assert hop.delivered == Counter(range(3))
    assert hop.told["late_datagrams"] == 1
    assert hop.told["nacks"] == 0


def test_three_newer_datagrams_make_a_gap_due_at_once() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=100)
    edge.emit([0], hop.now_ns)
    hop.channel = Channel(loss=1.0)
    edge.emit([1], hop.now_ns)
    hop.channel = Channel()
    edge.emit([2, 3, 4], hop.now_ns)
    hop.run(350)
    assert hop.told["recovered_datagrams"] == 1


@pytest.mark.parametrize("epochs", [(5, 6), (2**32 - 3, 4)])
def test_a_restarted_aggregator_begins_a_new_sequence(epochs: tuple[int, int]) -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epochs[0], rows=100)
    edge.emit(list(range(10)), hop.now_ns)
    hop.run(1000)
    hop.channel = Channel(loss=1.0)
    edge.emit(list(range(10, 14)), hop.now_ns)
    hop.channel = Channel(delay_us=20_000)  # the last of the old process comes after the new one
    edge.emit([14], hop.now_ns)
    hop.channel = Channel()
    edge = hop.start_edge(epochs[1], rows=100)
    hop.run(1000)
    edge.emit(list(range(20, 25)), hop.now_ns)
    hop.run(60_000)
    assert hop.delivered == Counter([*range(10), *range(20, 25)])
    assert hop.told["aggregator_restarts"] == 1
    assert hop.requester.drops == {"epoch": 1}
    assert hop.told["pending_datagrams"] == 0


def test_a_request_for_the_old_process_is_not_answered_by_the_new_one() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(1, rows=100)
    hop.channel = Channel(loss=1.0)
    edge.emit([0], hop.now_ns)
    hop.channel = Channel()
    edge.emit([1, 2, 3], hop.now_ns)
    hop.run(150)  # the request is under way
    edge = hop.start_edge(2, rows=100)
    edge.emit([50], hop.now_ns)
    hop.channel = Channel(loss=1.0)
    hop.run(1000)
    hop.channel = Channel()
    hop.run(60_000)
    assert edge.control.drops == {"epoch": 1}
    assert edge.control.counters()["resend_datagrams"] <= 1
    assert hop.delivered == Counter([1, 2, 3, 50])
    assert hop.told["unavailable_datagrams"] == 1


def test_numbers_wrap() -> None:
    hop = Hop(Channel(), seed=3)
    first = 2**32 - 100
    edge = hop.start_edge(epoch=1, rows=BLOCKS, first_seq=first)
    edge.emit([0], hop.now_ns)
    hop.run(150)
    heartbeat = Control(PacketType.HEARTBEAT, 0, 1, ranges=((first + 1, first),))
    hop.requester.hear(heartbeat, hop.now_ns)
    hop.channel = Channel(loss=0.2, jitter_us=300)
    emit_all(hop, range(1, 300), 300)
    hop.run(5 * S)
    assert hop.edge is not None
    assert hop.edge.ring.next_seq == 2**32 + 200
    assert hop.delivered == Counter(range(300))
    assert hop.told["unavailable_datagrams"] == first
    assert hop.told["recovered_datagrams"] > 20


def test_what_was_not_sent_yet_is_not_sent_again() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=100)
    edge.emit([0, 1], hop.now_ns)
    nack = Control(PacketType.NACK, 0, 1, ranges=((1, 5), (2, 7), (2**31, 3)))
    hop.to_edge.send(encode(nack, hop.ctx.job_id))
    hop.run(1000)
    counters = edge.control.counters()
    assert counters["resend_datagrams"] == 1
    assert counters["ahead_datagrams"] == 7 + 3
    assert hop.told["duplicate_datagrams"] == 1


def test_a_flood_of_requests_is_answered_at_a_limited_rate() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=BLOCKS)
    edge.emit(list(range(BLOCKS)), hop.now_ns)
    hop.run(1000)
    before = hop.to_island.carried
    nack = encode(Control(PacketType.NACK, 0, 1, ranges=((0, BLOCKS),) * 64), hop.ctx.job_id)
    for _ in range(100):
        hop.to_edge.send(nack)
    hop.run(1000)
    size = 8290 * 8
    allowed = 0.5 * hop.ctx.access_gbps * 1e9 / size * (0.02 + 0.002)
    counters = edge.control.counters()
    assert counters["nacks"] == 100
    assert hop.to_island.carried - before <= allowed + 10
    assert (
        counters["limited_datagrams"] + counters["resend_datagrams"] == 100 * BLOCKS
    )  # each once a request


def test_an_island_asks_at_a_limited_rate_when_nobody_answers() -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=BLOCKS)
    edge.emit([0], hop.now_ns)
    hop.run(1000)
    hop.edge = None
    hop.channel = Channel(loss=1.0)
    edge.emit(list(range(1, 200)), hop.now_ns)
    hop.channel = Channel()
    edge.emit([200], hop.now_ns)
    hop.run(10 * S)
    assert 5 < hop.told["nacks"] < 60  # the time-out grows to half a second


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"src": 1}, "source"),
        ({"epoch": 2}, "epoch"),
        ({"flags": 128}, "type"),
        ({"kind": PacketType.HEARTBEAT, "ranges": ((5, 2),)}, "type"),
    ],
)
def test_the_aggregator_answers_only_its_island(change: dict[str, object], reason: str) -> None:
    hop = Hop(Channel())
    edge = hop.start_edge(epoch=1, rows=100)
    edge.emit([0, 1], hop.now_ns)
    nack = Control(PacketType.NACK, 0, 1, ranges=((0, 2),))._replace(**change)
    hop.to_edge.send(encode(nack, hop.ctx.job_id))
    hop.run(1000)
    assert edge.control.drops == {reason: 1}
    assert edge.control.counters()["resend_datagrams"] == 0

"""The token bucket."""

from hypothesis import given
from hypothesis import strategies as st

from agents.recovery.bucket import TokenBucket, datagram_bucket

MS = 1_000_000
S = 1000 * MS


def test_it_is_full_at_first_and_refills_at_its_rate() -> None:
    bucket = TokenBucket(rate_per_s=1000, depth=10)
    assert bucket.take(7, 0) == 7
    assert bucket.take(7, 0) == 3
    assert bucket.take(1, 0) == 0
    ready_ns = bucket.ready_ns(0)
    assert MS <= ready_ns <= MS + 2
    assert bucket.take(5, ready_ns) == 1
    assert bucket.take(99, ready_ns + 5 * S) == 10


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-MS, 20 * MS))))
def test_no_more_than_rate_and_depth_allow(calls: list[tuple[int, int]]) -> None:
    bucket = TokenBucket(rate_per_s=2000, depth=20)
    now_ns = latest_ns = given_out = 0
    for wanted, step_ns in calls:
        now_ns += step_ns  # time that runs back gives nothing
        latest_ns = max(latest_ns, now_ns)
        given_out += bucket.take(wanted, now_ns)
        assert given_out <= 20 + (latest_ns + MS) * 2000 / S


def test_a_share_of_a_link_in_datagrams() -> None:
    bucket = datagram_bucket(link_gbps=1.0, share=0.5, wire_bytes=1250)
    assert bucket.take(10**6, 0) == 50_000 * 0.02
    assert bucket.take(10**6, S // 100) == 500

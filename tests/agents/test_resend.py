"""What a sender answers to a request."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agents.recovery.bucket import TokenBucket
from agents.recovery.resend import Resender, merged

ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=20)


def numbers(found: list[tuple[int, int]]) -> list[int]:
    return [seq for first, count in found for seq in range(first, first + count)]


@given(ranges)
def test_merging_keeps_every_number_once(wanted: list[tuple[int, int]]) -> None:
    found = merged(wanted)
    assert numbers(found) == sorted(set(numbers(wanted)))
    assert all(first + count < later for (first, count), (later, _) in pairwise(found))


@given(ranges, st.integers(0, 50), st.integers(0, 50), st.integers(1, 200))
def test_one_request_asks_for_a_datagram_once(
    wanted: list[tuple[int, int]], oldest: int, held: int, tokens: int
) -> None:
    resender = Resender(TokenBucket(1, tokens))
    answer = resender.answer(wanted, oldest, oldest + held, now_ns=0)
    asked = set(numbers(wanted))
    sent, counters = numbers(answer.resend), resender.counters
    possible = {seq for seq in asked if oldest <= seq < oldest + held}
    assert len(sent) == len(set(sent)) == min(tokens, len(possible)) == counters.resent
    assert set(sent) <= possible
    assert numbers(answer.gone) == sorted(seq for seq in asked if seq < oldest)
    assert counters.ahead == sum(seq >= oldest + held for seq in asked)
    assert counters.limited == len(possible) - counters.resent

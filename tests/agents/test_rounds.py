"""Which rounds are live when."""

from pathlib import Path

import pytest
from agent_plans import make_plan

from agents.context import AgentContext
from agents.rounds import NEVER_NS, RoundWindow

MS = 1_000_000


def window(rounds: int) -> RoundWindow:
    plan = make_plan(rounds=rounds, interval_ms=100)
    return RoundWindow(AgentContext(plan=plan, city=0, start_ns=1000 * MS, out_dir=Path()))


def test_rounds_change_half_an_interval_after_each_start() -> None:
    rounds = window(3)
    assert rounds.due_ns == 1050 * MS
    assert rounds.advance(1050 * MS - 1) == []
    assert rounds.advance(1050 * MS) == [(None, 1)]
    assert rounds.due_ns == 1150 * MS
    assert rounds.advance(1151 * MS) == [(0, 2)]
    assert rounds.advance(1250 * MS) == [(1, None)]
    assert rounds.due_ns == NEVER_NS


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_at_most_two_rounds_are_live_and_only_the_last_stays(rounds: int) -> None:
    live = {0}
    for closing, opening in window(rounds).advance(NEVER_NS - 1):
        live -= {closing}
        live |= {opening} - {None}
        assert len(live) <= 2
    assert live == {rounds - 1}

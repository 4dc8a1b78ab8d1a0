"""Which blocks of a round should have been complete by now."""

from agents.recovery.gaps import NEVER_NS
from agents.recovery.overdue import OVERDUE_NS, Overdue


def test_blocks_are_overdue_a_while_after_a_later_one() -> None:
    overdue = Overdue()
    assert overdue.poll(NEVER_NS - 1) == 0
    overdue.complete(10, 5)
    overdue.complete(20, 7)  # of these the wait begins when the first is over
    overdue.complete(15, 8)
    assert overdue.due_ns == 5 + OVERDUE_NS
    assert overdue.poll(4 + OVERDUE_NS) == 0
    assert overdue.poll(5 + OVERDUE_NS) == 10
    assert overdue.poll(5 + OVERDUE_NS) == 0
    assert overdue.poll(5 + 2 * OVERDUE_NS) == 20
    assert overdue.due_ns == NEVER_NS


def test_a_block_that_comes_late_changes_nothing() -> None:
    overdue = Overdue()
    overdue.complete(10, 0)
    assert overdue.poll(OVERDUE_NS) == 10
    overdue.complete(4, 2 * OVERDUE_NS)
    assert overdue.due_ns == NEVER_NS

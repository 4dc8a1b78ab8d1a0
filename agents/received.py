"""What an island counts of one round that it receives."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Received:
    """What came in one round; times since the start of round 0."""

    datagrams: int = 0
    wire_bytes: int = 0
    partial_datagrams: int = 0
    exact_blocks: int = 0
    wrong_blocks: int = 0
    stale_blocks: int = 0
    """Blocks of which everything came, but not the true sum, as some row was behind."""
    incomplete_blocks: int = 0
    """Blocks of which something came, but not everything."""
    contributions: int = 0
    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def complete_blocks(self) -> int:
        """Blocks of which everything came."""
        return self.exact_blocks + self.wrong_blocks + self.stale_blocks

    def report(self, senders: list[str], blocks: int) -> dict[str, Any]:
        """The counters as JSON.

        Parameters
        ----------
        senders
            Codes of whoever is expected.
        blocks
            How many are expected.
        """
        expected = blocks * len(senders)
        return {
            "senders": senders,
            "expected_blocks": blocks,
            "complete_blocks": self.complete_blocks,
            "exact_blocks": self.exact_blocks,
            "wrong_blocks": self.wrong_blocks,
            "stale_blocks": self.stale_blocks,
            "incomplete_blocks": self.incomplete_blocks,
            "missing_blocks": blocks - self.complete_blocks - self.incomplete_blocks,
            "expected_contributions": expected,
            "missing_contributions": expected - self.contributions,
            "datagrams_in": self.datagrams,
            "partial_datagrams": self.partial_datagrams,
            "ingress_bytes": self.wire_bytes,
            "first_in_ns": self.first_ns,
            "last_in_ns": self.last_ns,
        }

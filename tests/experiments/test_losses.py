"""Losses of links against what was asked for, and the sums of what went in and came out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.losses import deviates, link_losses, loss_faults, total_lost, unread
from experiments.network_record import AskedRecord, NetworkRecord, QdiscRecord


def hop(city: str = "nyc", *, asked: float | None = 0.01, twice: float = 0.0, **changes):
    values = {
        "link": f"{city}→island",
        "node": f"switch-{city}",
        "interface": f"{city}-1",
        "edge": None,
        "kind": "netem",
        "delay_ns": 0,
        "rate_bps": 10**9,
        "limit": 1000,
        "sent_bytes": 0,
        "sent_packets": 990 + 7,
        "sent_packets_before": 7,
        "drops": 10 + 2,
        "drops_before": 2,
        "backlog": 0,
    }
    record = None
    if asked is not None:
        record = AskedRecord(loss_share=asked, mean_burst=1 / (1 - asked), duplicate_share=twice)
    return QdiscRecord(**{**values, "asked": record, **changes})


def network(*queues: QdiscRecord, came: int = 1000, heard: int = 990) -> NetworkRecord:
    return NetworkRecord(
        network_up={},
        qdiscs=queues,
        rtt=(),
        rounds=(),
        start_ns=0,
        aggregator_frames={"nyc": came},
        island_udp={"nyc": {"InDatagrams": heard, "InErrors": 0, "NoPorts": 0}},
    )


def test_a_link_that_lost_what_it_was_asked_to() -> None:
    (loss,) = link_losses(network(hop()), counted=True)
    assert (loss.offered, loss.lost, loss.duplicated) == (1000, 10, 0)
    assert loss.lost_percent == pytest.approx(1.0)
    assert loss.asked_percent == pytest.approx(1.0)
    assert loss_faults(network(hop()), counted=True) == []
    assert total_lost([loss]) == 10


def test_a_sound_link_is_only_named_if_it_lost_something() -> None:
    assert link_losses(network(hop(asked=None, drops=2)), counted=True) == []
    (loss,) = link_losses(network(hop(asked=None)), counted=True)
    assert (loss.asked_percent, loss.lost) == (None, 10)
    assert total_lost([loss]) == 0


@pytest.mark.parametrize(
    ("queue", "came", "heard", "message"),
    [
        (
            hop(drops=102, sent_packets=907),
            1000,
            900,
            "lost 100 of 1000 packets (10 %), asked for 1",
        ),
        (hop(), 1003, 990, "1003 datagrams came, 990 went on and 10 were dropped: -3 unaccounted"),
        (hop(), 998, 990, "+2 unaccounted"),
        (hop(twice=0.01), 400, 990, "+600 unaccounted"),
        (hop(), 1000, 995, "the island of nyc got 5 datagrams more than its link carried"),
    ],
)
def test_what_does_not_add_up_is_told(queue, came: int, heard: int, message: str) -> None:
    (fault,) = loss_faults(network(queue, came=came, heard=heard), counted=True)
    assert message in fault


def test_copies_that_were_asked_for_explain_a_surplus() -> None:
    copying = network(hop(twice=0.01), came=990)
    assert loss_faults(copying, counted=True) == []
    (loss,) = link_losses(copying, counted=True)
    assert loss.duplicated == 10


def test_where_others_send_as_well_only_the_island_is_compared() -> None:
    assert loss_faults(network(hop(), came=5), counted=False) == []
    (loss,) = link_losses(network(hop(), came=5), counted=False)
    assert loss.duplicated is None


def test_datagrams_that_nobody_read_are_counted() -> None:
    assert unread(network(hop(), heard=980)) == 10
    assert unread(network(hop("chi"), heard=980)) == 0


@given(st.integers(1, 10_000), st.floats(0.001, 0.5), st.integers(0, 2**32 - 1))
def test_chance_is_no_fault(tries: int, share: float, seed: int) -> None:
    hits = int(np.random.default_rng(seed).binomial(tries, share))
    assert not deviates(hits, tries, share)


def test_runs_vary_more_and_are_allowed_to() -> None:
    assert deviates(200, 10_000, 0.01)
    assert not deviates(200, 10_000, 0.01, mean_run=20)
    assert deviates(1000, 10_000, 0.01, mean_run=20)
    assert deviates(0, 100_000, 0.01)

"""What the fidelity benchmark makes of its measurements; nothing is measured here."""

import pytest

from benchmarks.fidelity import cells, row, unfound
from benchmarks.sabotage import Sabotaged
from benchmarks.tclink import Asked
from testbed.linkfigures import LinkFigures


def found(**changes: object) -> LinkFigures:
    figures: dict[str, object] = {
        "link": "a0→b0",
        "delay_asked_us": 1000.0,
        "delay_mean_us": 1000.5,
        "delay_p99_us": 1000.5,
        "jitter_us": 0.0,
        "rate_asked_mbps": 10.0,
        "rate_mbps": 10.1,
        "sustained_mbps": None,
        "mtu_asked_bytes": 1500,
        "mtu_bytes": 1500,
        "sent": 100,
        "received": 97,
        "reordered": 0,
        "duplicated": 0,
        "shaper_drops": 3,
        "interface_drops": 0,
        "socket_drops": 0,
    }
    return LinkFigures(**{**figures, **changes})


def test_a_row_holds_signed_errors() -> None:
    asked = Asked(rate_mbps=10, delay_ms=1)
    ours = row("ours", asked, found())
    assert ours["delay_error_us"] == pytest.approx(0.5)
    assert ours["burst_error_percent"] == pytest.approx(1.0)
    assert (ours["rate_error_percent"], ours["lost"]) == (None, 3)
    shown = cells(ours, row("TCLink", asked, found(rate_mbps=5.0)))
    assert (shown["ours µs"], shown["rate"], shown["its burst"]) == ("+0.500", "–", "-50")


@pytest.mark.parametrize(
    ("what", "findings", "wrong"),
    [
        ("", (), []),
        ("", ("link a→b: x",), ["a sound network was accused: link a→b: x"]),
        ("delay", ("link a→b: x", "link b→a: y"), []),
        ("delay", (), ["delay of a→b was not found"]),
        ("delay", ("link a→b: x", "link a→c: y"), ["delay of a→b: another link was accused"]),
    ],
)
def test_a_sabotage_must_be_found_and_nobody_else_accused(
    what: str, findings: tuple[str, ...], wrong: list[str]
) -> None:
    assert unfound([Sabotaged(what=what, link="a→b", findings=findings)]) == wrong

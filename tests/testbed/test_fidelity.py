"""What the fidelity check makes of figures, and of the machine's health."""

import pytest

from testbed.errors import UntrustedRunError
from testbed.fidelity import Fidelity, check, refuse
from testbed.findings import judge, reasons
from testbed.health import Health, check_health, parse_pressure, parse_ticks, watch_host
from testbed.jsonmodel import read_model
from testbed.limits import DEFAULTS, Limits
from testbed.linkfigures import LinkFigures
from testbed.roundtrips import RoundTrip

VIRTUAL, REAL = (Limits().at(clock) for clock in ("virtual", "real"))
SOUND: dict[str, object] = {
    "link": "nyc→chi",
    "delay_asked_us": 8260.0,
    "delay_mean_us": 8260.001,
    "delay_p99_us": 8260.001,
    "jitter_us": 0.0,
    "rate_asked_mbps": 1000.0,
    "rate_mbps": 1000.0,
    "sustained_mbps": 1000.0,
    "mtu_asked_bytes": 9000,
    "mtu_bytes": 9000,
    "sent": 17,
    "received": 17,
    "reordered": 0,
    "duplicated": 0,
    "shaper_drops": 0,
    "interface_drops": 0,
    "socket_drops": 0,
}


def network(**changes: object) -> Fidelity:
    sound = LinkFigures(**{**SOUND, "link": "chi→nyc"})
    link = LinkFigures(**{**SOUND, **changes})
    return Fidelity(links=(sound, link), paths=(), timer_late_us=0.0)


def trip(**changes: object) -> RoundTrip:
    values = {"src": "nyc", "dst": "chi", "rtt_ns": 16_520_000, "expected_ns": 16_520_000}
    return RoundTrip(**{**values, **changes})


def test_a_sound_network_passes_on_either_clock() -> None:
    for limits in (VIRTUAL, REAL):
        assert judge(check(network(), limits)) == "PASS"
    refuse(network(), VIRTUAL)


def test_a_frame_that_meets_the_shortest_timer_of_the_kernel_is_no_fault() -> None:
    assert check(network(delay_p99_us=8261.001, jitter_us=0.25), VIRTUAL) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"delay_mean_us": 8262.2}, "one-way delay off by +2.200 µs (mean), asked for 8.26 ms"),
        ({"delay_p99_us": 8257.0}, "one-way delay off by -3.000 µs (p99)"),
        ({"jitter_us": 0.6}, "jitter 0.600 µs, allowed 0.5 µs"),
        ({"rate_mbps": 500.0}, "rate of a burst 500 Mbit/s, asked for 1000 Mbit/s (-50.000 %"),
        ({"sustained_mbps": 998.0}, "rate sustained 998 Mbit/s"),
        ({"rate_mbps": None}, "a burst does not come out at any rate"),
        ({"delay_mean_us": None}, "no packet came"),
        ({"mtu_bytes": 1500}, "packets of 1500 bytes pass and no larger ones"),
        ({"mtu_bytes": 9001}, "packets of 9001 bytes pass and no larger ones"),
        ({"received": 15, "shaper_drops": 2}, "lost 2 of 17 packets: 2 dropped by its shaper"),
        ({"received": 16}, "lost 1 of 17 packets: 1 without a trace"),
        ({"reordered": 3}, "put 3 packets out of order"),
        ({"duplicated": 1}, "doubled 1 packets"),
        ({"shaper": "it has no shaper"}, "it has no shaper"),
    ],
)
def test_what_is_wrong_is_told_with_the_link_and_the_figure(
    changes: dict[str, object], text: str
) -> None:
    findings = check(network(**changes), VIRTUAL)
    assert judge(findings) == "FAIL"
    (told,) = reasons(findings)
    assert told.startswith("link nyc→chi")
    assert text in told
    with pytest.raises(UntrustedRunError, match="not as asked for: link nyc→chi"):
        refuse(network(**changes), VIRTUAL)


def test_where_full_frames_do_not_pass_there_is_no_rate_to_complain_about() -> None:
    findings = check(network(mtu_bytes=1500, rate_mbps=None, sustained_mbps=None), VIRTUAL)
    assert len(findings) == 1


def test_the_real_clock_degrades_before_it_fails() -> None:
    strict = Limits(fail_factor=10).at("real")
    for error_us, verdict in ((400, "PASS"), (600, "DEGRADED"), (5_001, "FAIL")):
        found = network(delay_mean_us=8260.0 + error_us)
        assert judge(check(found, strict)) == verdict
    late = network(delay_mean_us=99_000.0, jitter_us=9e6, rate_mbps=None, received=16)
    assert judge(check(late, REAL)) == "DEGRADED"
    refuse(late, REAL)
    assert judge(check(network(shaper="it has no shaper"), REAL)) == "FAIL"


def test_limits_that_are_given_replace_those_of_the_clock() -> None:
    lax = Limits(delay_us=5000, jitter_us=3).at("virtual")
    assert lax.rate_percent == VIRTUAL.rate_percent
    assert check(network(delay_mean_us=8300.0, jitter_us=2.0), lax) == []
    assert Limits(delay_us=0).at("virtual").level("delay_us", 0.001) == "FAIL"
    assert VIRTUAL.level("cpu_percent", 100.0) is None
    assert {name for name in Limits.model_fields if getattr(REAL, name) is None} == {"fail_factor"}
    assert set(DEFAULTS) == {"virtual", "real"}


def test_paths_that_do_not_answer_or_take_another_time_are_named() -> None:
    paths = (
        trip(),
        trip(dst="lax", rtt_ns=None, lack="no answer, an echo got lost"),
        trip(dst="lon", rtt_ns=16_523_000),
        trip(dst="tyo", rtt_ns=16_515_000),
    )
    fidelity = Fidelity(links=(), paths=paths, timer_late_us=0.0)
    lost, off = reasons(check(fidelity, VIRTUAL))
    assert lost == "path nyc-lax: no answer, an echo got lost"
    assert off.startswith("path nyc-tyo: RTT off by -5.000 µs from 16.520 ms")
    assert "(2 of 4 paths)" in off


def test_late_timers_are_told() -> None:
    (told,) = check(Fidelity(links=(), paths=(), timer_late_us=50.0), VIRTUAL)
    assert told.text == "timers are late by 50.0 µs, allowed 10 µs"


def test_a_busy_machine_matters_on_the_real_clock_only() -> None:
    busy = Health(wall_s=3, cpu_percent=95, steal_percent=5, pressure_percent=None)
    assert check_health(busy, VIRTUAL) == []
    told = reasons(check_health(busy, REAL))
    assert told == [
        "processors were 95.0 % busy, allowed 90 %",
        "processors were 5.0 % taken by other machines, allowed 2 %",
    ]


def test_the_machine_is_watched_however_the_block_ends(tmp_path) -> None:
    path = tmp_path / "health.json"
    with pytest.raises(KeyError), watch_host(path):
        raise KeyError
    health = read_model(Health, path)
    assert 0 <= health.cpu_percent <= 100
    assert 0 <= health.steal_percent <= 100


def test_the_kernels_own_words_are_read() -> None:
    stat = "cpu  100 1 50 800 9 0 3 7 5 0\ncpu0 1 2 3 4\n"
    assert parse_ticks(stat) == (100, 1, 50, 800, 9, 0, 3, 7)
    text = "some avg10=1.00 avg60=2.00 avg300=3.00 total=456\nfull avg10=0.00 total=0\n"
    assert parse_pressure(text) == 456

"""Whether an emulated network does what was asked of it: measured, compared, judged.

Every direction of every link is measured by itself (`testbed.linktrial`), every path by
echoes (`testbed.roundtrips`), on the network as it was built and before anything else uses it.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import UntrustedRunError
from testbed.findings import Finding
from testbed.jsonmodel import read_model
from testbed.limits import Limits
from testbed.linkfigures import LinkFigures
from testbed.linkprobe import directions_of
from testbed.linktrial import Effort, try_links
from testbed.roundtrips import RoundTrip, measure_round_trips
from testbed.topology import Frozen

if TYPE_CHECKING:
    from testbed.network import Network


FIDELITY_FILE = "fidelity.json"


class Fidelity(Frozen):
    """A network as it was measured."""

    links: tuple[LinkFigures, ...]
    paths: tuple[RoundTrip, ...]
    """Empty if they were not measured."""
    timer_late_us: float
    """How late processes wake up: 99th percentile."""


def measure(network: "Network", *, scale: float, effort: Effort, paths: bool = True) -> Fidelity:
    """Measure a network that carries nothing else.

    Parameters
    ----------
    network
        As it was built.
    scale
        Divisor of rates that it was built with.
    effort
        How many frames to spend.
    paths
        Measure round trips as well, for which the switches must hold their unicast rules.

    Raises
    ------
    MachineError
        The kernel has no packet sockets with rings.
    """
    trial = try_links(directions_of(network.shaped), network.mtu_bytes, effort)
    trips = measure_round_trips(network, scale=scale) if paths else ()
    return Fidelity(links=trial.links, paths=trips, timer_late_us=trial.timer_late_us)


def read_fidelity(path: Path) -> Fidelity:
    """Read what was measured; raises `InputError` if it is missing or does not fit."""
    return read_model(Fidelity, path)


def check(fidelity: Fidelity, limits: Limits) -> list[Finding]:
    """Hold what was measured against limits; each finding names the link and the figure."""
    findings = [finding for link in fidelity.links for finding in check_link(link, limits)]
    findings += check_paths(fidelity.paths, limits)
    late_us = fidelity.timer_late_us
    if level := limits.level("timer_late_us", late_us):
        allowed = f"allowed {limits.timer_late_us:g} µs"
        findings.append(Finding(level, f"timers are late by {late_us:.1f} µs, {allowed}"))
    return findings


def refuse(fidelity: Fidelity, limits: Limits) -> None:
    """Go no further on a network that is not as it should be.

    Raises
    ------
    UntrustedRunError
        Names the first link and figure that make the check fail.
    """
    failed = [f.text for f in check(fidelity, limits) if f.level == "FAIL"]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise UntrustedRunError(f"the network is not as asked for: {failed[0]}{more}")


def check_link(link: LinkFigures, limits: Limits) -> Iterator[Finding]:
    """What is wrong with one direction of a link."""
    if link.shaper:
        yield Finding("FAIL", f"link {link.link}: {link.shaper}")
    if link.mtu_bytes != link.mtu_asked_bytes:
        yield Finding(
            "FAIL",
            f"link {link.link}: packets of {link.mtu_bytes} bytes pass and no larger ones, "
            f"its MTU should be {link.mtu_asked_bytes}",
        )
    yield from _check_delay(link, limits)
    yield from _check_rate(link, limits)
    counts = (
        ("lost_packets", link.lost, f"lost {link.lost} of {link.sent} packets{_where(link)}"),
        ("lost_packets", link.duplicated, f"doubled {link.duplicated} packets"),
        ("reordered_packets", link.reordered, f"put {link.reordered} packets out of order"),
    )
    for limit, count, text in counts:
        if level := limits.level(limit, count):
            yield Finding(level, f"link {link.link} {text}")


def check_paths(paths: Sequence[RoundTrip], limits: Limits) -> list[Finding]:
    """What is wrong with round trips: who does not answer, and the worst of what is off."""
    findings = [Finding("FAIL", f"path {trip.name}: {trip.lack}") for trip in paths if trip.lack]
    found = [(trip.error_us, trip) for trip in paths if trip.error_us is not None]
    off = [(e, trip) for e, trip in found if limits.level("rtt_us", abs(e))]
    if off:
        error_us, worst = max(off, key=lambda pair: abs(pair[0]))
        level = limits.level("rtt_us", abs(error_us)) or "FAIL"
        text = (
            f"path {worst.name}: RTT off by {error_us:+.3f} µs from {worst.expected_ns / 1e6:.3f} "
            f"ms, allowed ±{limits.rtt_us:g} µs ({len(off)} of {len(paths)} paths)"
        )
        findings.append(Finding(level, text))
    return findings


def _check_delay(link: LinkFigures, limits: Limits) -> Iterator[Finding]:
    asked = f"asked for {link.delay_asked_us / 1e3:g} ms"
    if link.delay_mean_us is None:
        text = f"link {link.link}: no packet came, its delay is unknown"
        yield Finding(limits.level("delay_us", math.inf) or "FAIL", text)
        return
    errors = (("mean", link.delay_error_us or 0.0), ("p99", link.p99_error_us or 0.0))
    name, error_us = max(errors, key=lambda pair: abs(pair[1]))
    if level := limits.level("delay_us", abs(error_us)):
        text = f"({name}), {asked}, allowed ±{limits.delay_us:g} µs"
        yield Finding(level, f"link {link.link}: one-way delay off by {error_us:+.3f} µs {text}")
    if link.jitter_us is not None and (level := limits.level("jitter_us", link.jitter_us)):
        text = f"jitter {link.jitter_us:.3f} µs, allowed {limits.jitter_us:g} µs"
        yield Finding(level, f"link {link.link}: {text}")


def _check_rate(link: LinkFigures, limits: Limits) -> Iterator[Finding]:
    asked = f"asked for {link.rate_asked_mbps:.6g} Mbit/s"
    if link.mtu_bytes < link.mtu_asked_bytes:
        return  # frames of full size do not pass: that is told, and there is no rate
    if link.rate_mbps is None:
        text = f"link {link.link}: a burst does not come out at any rate, {asked}"
        yield Finding(limits.level("rate_percent", math.inf) or "FAIL", text)
        return
    rates = (
        ("of a burst", link.rate_mbps, link.rate_error_percent),
        ("sustained", link.sustained_mbps, link.sustained_error_percent),
    )
    for what, rate_mbps, error in rates:
        if error is not None and (level := limits.level("rate_percent", abs(error))):
            text = f"rate {what} {rate_mbps:.6g} Mbit/s, {asked}"
            allowed = f"{error:+.3f} %, allowed ±{limits.rate_percent:g} %"
            yield Finding(level, f"link {link.link}: {text} ({allowed})")


def _where(link: LinkFigures) -> str:
    """Who dropped what is missing."""
    places = (
        ("its shaper", link.shaper_drops),
        ("its interfaces", link.interface_drops),
        ("the receiving socket", link.socket_drops),
    )
    named = [f"{count} dropped by {place}" for place, count in places if count]
    if link.unaccounted:
        named.append(f"{link.unaccounted} without a trace")
    return f": {', '.join(named)}" if named else ""

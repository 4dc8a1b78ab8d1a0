"""What the fidelity check would have measured on an ideal network."""

from pathlib import Path

from controller.plan import Plan
from testbed.fidelity import FIDELITY_FILE, Fidelity
from testbed.linkfigures import LinkFigures
from testbed.roundtrips import RoundTrip


def made_link(link: str, delay_us: float, rate_mbps: float, **changes: object) -> LinkFigures:
    """A direction that does what it was asked for, but for some figures."""
    figures: dict[str, object] = {
        "link": link,
        "delay_asked_us": delay_us,
        "delay_mean_us": delay_us,
        "delay_p99_us": delay_us,
        "jitter_us": 0.0,
        "rate_asked_mbps": rate_mbps,
        "rate_mbps": rate_mbps,
        "sustained_mbps": None,
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
    return LinkFigures(**{**figures, **changes})


def made_fidelity(plan: Plan, *, rtt_error_us: float = 0.0) -> Fidelity:
    """All WAN directions of a plan's network, and all pairs of its cities."""
    links = [
        made_link(f"{e.src}→{e.dst}", e.delay_ms * 1e3, e.rate_gbps * 1e3 / plan.scale)
        for e in plan.topology.edges
    ]
    codes = plan.topology.codes
    paths = [
        RoundTrip(src=a, dst=b, rtt_ns=6_000_000 + round(rtt_error_us * 1e3), expected_ns=6_000_000)
        for a in codes
        for b in codes
        if a != b
    ]
    return Fidelity(links=tuple(links), paths=tuple(paths), timer_late_us=0.0)


def write_fidelity(raw_dir: Path, fidelity: Fidelity) -> None:
    """Write it where the emulation does."""
    (raw_dir / FIDELITY_FILE).write_text(fidelity.model_dump_json())

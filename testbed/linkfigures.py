"""From frames that were sent and came to the figures of one direction of a link."""

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from testbed.shaping import Shape, serialisation_ns
from testbed.topology import Frozen


class Train(IntEnum):
    """What a frame was sent for."""

    FIRST = 0
    """Small; from it the switches learn what to do with the others."""
    SPACED = 1
    """Small, and alone on the link: its delay."""
    BURST = 2
    """Of full size, all at once: the rate at which they come out."""
    SUSTAINED = 3
    """Of full size, without a gap for longer: the rate that the link keeps."""
    SIZES = 4
    """Of some size, to see whether it passes; this train and all with a higher number."""


class LinkFigures(Frozen):
    """One direction of a link as it was measured, beside what was asked of it."""

    link: str
    """Such as ``nyc→chi``; ``nyc→island`` and ``island→nyc`` on an access link."""
    delay_asked_us: float
    delay_mean_us: float | None
    """One way, without the time that the frame itself takes at the asked rate."""
    delay_p99_us: float | None
    jitter_us: float | None
    """Mean difference, without sign, of consecutive delays (RFC 3393)."""
    rate_asked_mbps: float
    rate_mbps: float | None
    """Of a burst, on the wire; none if it came all at once, or did not come."""
    sustained_mbps: float | None
    mtu_asked_bytes: int
    mtu_bytes: int
    """The largest packet that passes; Ethernet never fragments, so every probe is one that
    must not be fragmented."""
    sent: int
    received: int
    reordered: int
    """Frames that came after a later one (RFC 4737)."""
    duplicated: int
    shaper_drops: int
    interface_drops: int
    """At either end, such as for want of room in its MTU."""
    socket_drops: int
    shaper: str = ""
    """How the shaper that the kernel has differs from the one asked for."""

    @property
    def lost(self) -> int:
        """Frames that did not come."""
        return self.sent - self.received

    @property
    def unaccounted(self) -> int:
        """Of these, frames that nobody says to have dropped."""
        return self.lost - self.shaper_drops - self.interface_drops - self.socket_drops

    @property
    def delay_error_us(self) -> float | None:
        """Mean delay against the asked one, signed."""
        return _difference(self.delay_mean_us, self.delay_asked_us)

    @property
    def p99_error_us(self) -> float | None:
        """99th percentile of the delay against the asked one, signed."""
        return _difference(self.delay_p99_us, self.delay_asked_us)

    @property
    def rate_error_percent(self) -> float | None:
        """Rate of a burst against the asked one, signed."""
        return _percent(self.rate_mbps, self.rate_asked_mbps)

    @property
    def sustained_error_percent(self) -> float | None:
        """Rate over a longer time against the asked one, signed."""
        return _percent(self.sustained_mbps, self.rate_asked_mbps)

    def errors(self) -> dict[str, float | int | None]:
        """Every figure that follows from others, by name."""
        return {
            "delay_error_us": self.delay_error_us,
            "p99_error_us": self.p99_error_us,
            "rate_error_percent": self.rate_error_percent,
            "sustained_error_percent": self.sustained_error_percent,
            "lost": self.lost,
            "unaccounted": self.unaccounted,
        }


@dataclass(frozen=True)
class Tally:
    """What was sent in one direction, and dropped on its way; trains for sizes left out."""

    sent: int
    mtu_asked_bytes: int
    mtu_bytes: int
    shaper_drops: int
    interface_drops: int
    socket_drops: int
    shaper: str


def link_figures(
    link: str, asked: Shape, arrivals: npt.NDArray[np.void], tally: Tally
) -> LinkFigures:
    """Work out one direction.

    Parameters
    ----------
    link, asked
        Its name and shape.
    arrivals
        Shape (n,), dtype `testbed.linkprobe.ARRIVAL`, in order of arrival.
    tally
        What cannot be seen in arrivals.
    """
    came = arrivals[arrivals["train"] < Train.SIZES]
    numbers = came["number"].astype(np.int64)
    distinct = len(np.unique(numbers))
    delays_us = one_way_us(came[came["train"] == Train.SPACED], asked.rate_bytes_per_s)
    burst, sustained = (came[came["train"] == t] for t in (Train.BURST, Train.SUSTAINED))
    return LinkFigures(
        link=link,
        delay_asked_us=asked.delay_ns / 1e3,
        delay_mean_us=float(delays_us.mean()) if len(delays_us) else None,
        delay_p99_us=percentile(delays_us, 99.0),
        jitter_us=jitter(delays_us),
        rate_asked_mbps=asked.rate_bytes_per_s * 8 / 1e6,
        rate_mbps=train_rate_mbps(burst),
        sustained_mbps=train_rate_mbps(sustained),
        mtu_asked_bytes=tally.mtu_asked_bytes,
        mtu_bytes=tally.mtu_bytes,
        sent=tally.sent,
        received=distinct,
        reordered=reordered(numbers),
        duplicated=len(numbers) - distinct,
        shaper_drops=tally.shaper_drops,
        interface_drops=tally.interface_drops,
        socket_drops=tally.socket_drops,
        shaper=tally.shaper,
    )


def one_way_us(arrivals: npt.NDArray[np.void], rate_bytes_per_s: int) -> npt.NDArray[np.float64]:
    """One-way delays in µs, without serialisation at a rate; shape (n,)."""
    taken_ns = arrivals["arrived_ns"] - arrivals["sent_ns"]
    own_ns = [serialisation_ns(int(size), rate_bytes_per_s) for size in arrivals["frame_bytes"]]
    delays: npt.NDArray[np.float64] = (taken_ns - np.array(own_ns, dtype=np.int64)) / 1e3
    return delays


def jitter(delays_us: npt.NDArray[np.float64]) -> float | None:
    """Mean size of the difference of consecutive one-way delays (RFC 3393)."""
    return float(np.abs(np.diff(delays_us)).mean()) if len(delays_us) > 1 else None


def percentile(values: npt.NDArray[np.float64], share_percent: float) -> float | None:
    """The smallest value that so many per cent do not exceed (nearest rank)."""
    if not len(values):
        return None
    rank = math.ceil(len(values) * share_percent / 100.0)
    return float(np.sort(values)[max(rank, 1) - 1])


def train_rate_mbps(arrivals: npt.NDArray[np.void]) -> float | None:
    """Rate at which a train came: all bytes but those of the first frame over its length.

    The dispersion of a packet train (Jain and Routhier, IEEE JSAC 1986); none if it has no
    length.
    """
    if len(arrivals) < 2:
        return None
    length_ns = int(arrivals["arrived_ns"][-1] - arrivals["arrived_ns"][0])
    train_bytes = int(arrivals["frame_bytes"][1:].sum())
    return train_bytes * 8e3 / length_ns if length_ns > 0 else None


def reordered(numbers: npt.NDArray[np.int64]) -> int:
    """How many came after one with a higher number; copies do not count (RFC 4737)."""
    _, first = np.unique(numbers, return_index=True)
    once = numbers[np.sort(first)]
    return int(np.count_nonzero(once < np.maximum.accumulate(once))) if len(once) else 0


def _difference(measured: float | None, asked: float) -> float | None:
    return None if measured is None else measured - asked


def _percent(measured: float | None, asked: float) -> float | None:
    return None if measured is None else 100.0 * (measured - asked) / asked
